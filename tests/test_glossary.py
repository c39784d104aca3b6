"""One idea has one name: words that docs/glossary.md retires are used nowhere."""

import re
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings

from tests.cases import each

ROOT = settings.BASE_DIR
GLOSSARY = ROOT / "docs" / "glossary.md"

# Written in snake case; class names in camel case, plurals and prefixes count as the same word.
RETIRED_NAMES = {
    "admission",
    "close_product",
    "crowded_out",
    "deathwatch",
    "die_with_parent",
    "hold_claiming",
    "hold_products",
    "hold_reattribution",
    "hold_scoring",
    "keep_from_scoring",
    "lately",
    "let_in",
    "lifeline",
    "link_message",
    "machine_lane",
    "newcomer",
    "page_safety",
    "put_down",
    "sighting",
    "stale_mark",
    "start_failed",
    "stumble",
    "take_part",
    "tally",
    "try_out",
}
# What no colleague would say. Each has a plainer way: "everyone who" or the noun, "that many" or
# the number, "again", "at the moment".
RETIRED_PHRASES = {
    "anew",
    "be it",
    "of one that",
    "so many",
    "stale mark",
    "those who",
    "where it is nothing",
    "whoever",
}

APPS = ("config", "engagement", "exports", "ingestion", "marketplace", "notifications", "readapi")
FOLDERS = (*APPS, "docs")
SUFFIXES = {".css", ".html", ".js", ".md", ".py", ".txt"}
# Stored by the database, read by Prometheus, or the name of a test: not for this test to judge.
ALLOWED = re.compile(
    r"""\bdb_(?:column|table)\s*=\s*"\w+"|\bengagement_(?:tally|stalemark)\w*|\beds_stale_marks\b
    |\btally_stale\b|\btests/[\w/]+\.py(?:::\w+)?""",
    re.VERBOSE,
)
# Columns in raw SQL, whose fields have the new names.
COLUMNS = {("marketplace/progress.py", "put_down"), ("marketplace/progress.py", "stumble")}


def prose_and_code() -> list[Path]:
    """Templates, code and documents. Migrations are history; so is the old part of the changelog,
    which `text_of` leaves out."""
    paths = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*"))]
    chosen = [path for path in paths if path.suffix in SUFFIXES and "migrations" not in path.parts]
    top = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "manage.py"]
    return [*chosen, *top]


@cache
def text_of(path: Path) -> str:
    """The text without what must stay, its white space collapsed."""
    text = path.read_text("utf-8")
    if path.name == "CHANGELOG.md":
        text = re.split(r"^## ", text, flags=re.MULTILINE)[1]
    if path == GLOSSARY:
        text = text.partition("## Retired words")[0]
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
    assert [path for path in users if (path, name) not in COLUMNS] == []


@each("phrase", sorted(RETIRED_PHRASES))
def test_a_retired_phrase_is_used_nowhere(phrase: str) -> None:
    pattern = pattern_for(phrase)
    assert [
        str(path.relative_to(ROOT))
        for path in prose_and_code()
        if pattern.search(text_of(path).lower())
    ] == []


def test_the_glossary_lists_every_retired_word() -> None:
    retired = GLOSSARY.read_text("utf-8").partition("## Retired words")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", retired, re.MULTILINE)) == RETIRED_NAMES
    assert set(re.findall(r"^- “(.+?)”", retired, re.MULTILINE)) == RETIRED_PHRASES


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("tally", "_tallied = {}", True),
        ("tally", "totally", False),
        ("stale_mark", "class Stale_Marks", True),
        ("whoever", "whoever asks", True),
        ("be it", "maybe it", False),
    ],
)
def test_a_word_is_found_in_all_its_forms(word: str, text: str, found: bool) -> None:
    assert bool(pattern_for(word).search(text.lower())) is found
