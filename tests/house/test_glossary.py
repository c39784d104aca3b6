"""One idea has one name, as docs/glossary.md has it: retired words are used nowhere."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings

from tests.cases import each

ROOT = settings.BASE_DIR

# Retired names, and what to use instead. Written in snake case; class names in camel case, plurals
# and prefixes count as the same word.
RETIRED_NAMES = {
    "admission": "suppression",
    "close_product": "lock_product",
    "crowded_out": "dropped_traits",
    "deathwatch": "parent death",
    "die_with_parent": "exit_with_parent",
    "hold_claiming": "lock_claiming",
    "hold_products": "share_lock_products",
    "hold_reattribution": "try_lock_reattribution",
    "hold_scoring": "try_lock_scoring",
    "keep_from_scoring": "lock_scoring",
    "lately": "last 24 hours",
    "let_in": "refresh_members",
    "lifeline": "parent death pipe",
    "link_message": "membership message",
    "machine_lane": "API fast path",
    "newcomer": "newly identified user",
    "page_safety": "security headers",
    "put_down": "suspend, backoff count",
    "sighting": "membership, subject update",
    "stale_mark": "rescore request",
    "start_failed": "Django's CommandError",
    "stumble": "crash count",
    "take_part": "register_eraser",
    "tally": "cached counts",
    "try_out": "preview_ranking, what-if",
}
# What no colleague would say, and what to say instead.
RETIRED_PHRASES = {
    "anew": "again",
    "be it": "whether, or a list",
    "names of traits": "trait names",
    "of one that": "name the thing",
    "so many": "the number, or that many",
    "stale mark": "rescore request",
    "those who": "name them",
    "where it is nothing": "say what is missing",
    "whoever": "the person, the client, the sender",
}

# A name says what a thing is, and not what happened to it: `rows`, and not `found`.
NO_NAMES = re.compile(
    r"""_*(answered|asked|begun|broken|called|caught|chosen|done|fetched|found|given|gone|got|happened
    |kept|known|left|looked|made|marked|needed|noted|offered|one|said|seen|sent|shown|some|spent
    |taken|told|touched|turned|used|waited|wanted|whole|written|wrong)_*""",
    re.VERBOSE,
)

APPS = (
    "access",
    "config",
    "console",
    "core",
    "engagement",
    "exports",
    "destinations",
    "outcomes",
    "ingestion",
    "marketplace",
    "notifications",
    "readapi",
    "trends",
)
FOLDERS = (*APPS, "docs")
CODE = (*APPS, "benchmarks", "clients", "deploy", "harness", "proofs", "tests")
SUFFIXES = {".css", ".html", ".js", ".md", ".py", ".txt"}
# Stored by the database, read by Prometheus, or the name of a test: not for this test to judge.
ALLOWED = re.compile(
    r"""\bdb_(?:column|table)\s*=\s*"\w+"|\bengagement_(?:tally|stalemark)\w*|\beds_stale_marks\b
    |\btally_stale\b|\btests/[\w/]+\.py(?:::\w+)?""",
    re.VERBOSE,
)
# Columns in raw SQL, whose fields have the new names.
COLUMNS = {
    ("marketplace/runs/progress.py", "put_down"),
    ("marketplace/runs/progress.py", "stumble"),
}


def prose_and_code() -> list[Path]:
    """Templates, code and documents. Migrations are history; so is the old part of the changelog,
    which `text_of` leaves out."""
    paths = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*"))]
    files = [path for path in paths if path.suffix in SUFFIXES and "migrations" not in path.parts]
    top = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "manage.py"]
    return [*files, *top]


@cache
def text_of(path: Path) -> str:
    """The text without what must stay, its white space collapsed."""
    text = path.read_text("utf-8")
    if path.name == "CHANGELOG.md":
        text = re.split(r"^## ", text, flags=re.MULTILINE)[1]
    return " ".join(ALLOWED.sub("", text).split())


@cache
def names_in(path: Path) -> str:
    """The text in snake case: `StaleMarks` is `stale_marks`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text_of(path)).lower()


def pattern_for(word: str) -> re.Pattern[str]:
    """The word and its plural, between anything but letters."""
    plurals = f"{re.escape(word)}s?"
    if word.endswith("y"):
        plurals += f"|{re.escape(word[:-1])}ie[sd]"
    return re.compile(rf"(?<![a-z])(?:{plurals})(?![a-z])")


@each("name", sorted(RETIRED_NAMES))
def test_a_retired_name_is_used_nowhere(name: str) -> None:
    pattern = pattern_for(name)
    users = [
        str(path.relative_to(ROOT)) for path in prose_and_code() if pattern.search(names_in(path))
    ]
    users = [path for path in users if (path, name) not in COLUMNS]
    assert users == [], f"instead of {name}: {RETIRED_NAMES[name]}"


@each("phrase", sorted(RETIRED_PHRASES))
def test_a_retired_phrase_is_used_nowhere(phrase: str) -> None:
    pattern = pattern_for(phrase)
    users = [
        str(path.relative_to(ROOT))
        for path in prose_and_code()
        if pattern.search(text_of(path).lower())
    ]
    assert users == [], f"instead of {phrase}: {RETIRED_PHRASES[phrase]}"


@pytest.mark.parametrize(
    ("word", "text", "is_match"),
    [
        ("tally", "_tallied = {}", True),
        ("tally", "totally", False),
        ("stale_mark", "class Stale_Marks", True),
        ("whoever", "whoever asks", True),
        ("be it", "maybe it", False),
    ],
)
def test_a_word_is_found_in_all_its_forms(word: str, text: str, is_match: bool) -> None:
    assert bool(pattern_for(word).search(text.lower())) is is_match


def names_bound_in(code: str) -> Iterator[tuple[int, str]]:
    """The line and the name of each variable, parameter, and function. Fields of classes are left
    out, because tables and responses have them."""
    fields: set[ast.AST] = set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.ClassDef():
                fields.update(child for line in node.body for child in ast.walk(line))
                fields.difference_update(
                    child
                    for line in node.body
                    if isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef)
                    for child in ast.walk(line)
                )
            case ast.Name(ctx=ast.Store()) if node not in fields:
                yield node.lineno, node.id
            case ast.arg():
                yield node.lineno, node.arg
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name


# Participles that modules, templates, and scripts had for names. A variable may have one: `stored`
# is the stored row.
NO_MODULES = {"forgotten", "invited", "leaked", "paused", "refused", "renamed", "sign_in_refused"}
NO_MODULES |= {"stored", "traced", "trailing", "unsaved"}


def test_no_module_template_or_script_is_called_by_a_participle() -> None:
    paths = [
        path
        for folder in CODE
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".html", ".js") and "node_modules" not in path.parts
    ]
    assert [
        str(path.relative_to(ROOT))
        for path in paths
        if path.stem in NO_MODULES or (NO_NAMES.fullmatch(path.stem) and path.stem != "whole")
    ] == []


def test_no_name_is_a_bare_participle() -> None:
    # Most files use none of these words outside of texts, and parsing takes a while.
    prose = re.compile(r'"""[\s\S]*?"""|#.*')
    may_bind = re.compile(rf"\b(?:{NO_NAMES.pattern})\b\ *(?:[,:()=]|\ in\b)", re.VERBOSE)
    users = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for folder in CODE
        for path in (ROOT / folder).rglob("*.py")
        if may_bind.search(prose.sub("", code := path.read_text("utf-8")))
        for line, name in names_bound_in(code)
        if NO_NAMES.fullmatch(name)
    ]
    assert users == []
