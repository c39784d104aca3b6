"""What the documents name exists: files, headings, tests, commands, benchmarks, and proofs."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import get_commands

from tests.cases import each

ROOT = settings.BASE_DIR
README = ROOT / "README.md"
DOCUMENTS = [
    README,
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "proofs" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
APPS = (
    "access|config|console|core|destinations|engagement|exports|ingestion|marketplace|notifications|outcomes"
    "|readapi|trends"
)
PATH = re.compile(rf"`((?:{APPS})/[\w/.]+)`")
FOLDERS = f"{APPS}|benchmarks|clients|deploy|docs|harness|proofs|tests"
# Not in strings: these the code itself opens.
NAMED_FILE = re.compile(
    rf"(?<![\w/.:<>{{}}\"'-])((?:{FOLDERS})/[\w./-]+\.(?:css|html|js|md|py|service|sh|sql|yaml|yml))\b"
)
BENCHMARK = re.compile(r"python -m ((?:benchmarks|proofs)(?:\.\w+)?)")
COMMAND = re.compile(r"manage\.py (\w+)")
EXTERNAL = ("http://", "https://", "mailto:")
NOT_COMMANDS = {"help"}
DECISIONS = ROOT / "docs" / "decisions"
DECISION = re.compile(r"^\*\*(?:(\d+)\. )?", re.MULTILINE)
# *engagement 12* in a document, and "decision engagement 12" in code.
NAMED_DECISION = re.compile(r"(?:\*|[Dd]ecision )([a-z]+) (\d+)\b")


def text_of(document: Path) -> str:
    return document.read_text("utf-8")


def anchors(document: Path) -> set[str]:
    """The headings as links spell them: lower case, dashes for spaces, no punctuation."""
    headings = HEADING.findall(FENCED.sub("", text_of(document)))
    slugs = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {slug.strip().replace(" ", "-") for slug in slugs}


def relative_path(document: Path) -> str:
    return str(document.relative_to(ROOT))


def _python(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@each("document", DOCUMENTS)
def test_every_link_has_a_target(document: Path) -> None:
    dead_links = []
    for link in LINK.findall(FENCED.sub("", text_of(document))):
        if link.startswith(EXTERNAL):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead_links.append(link)
    assert dead_links == []


@each("document", DOCUMENTS)
def test_every_test_in_a_document_exists(document: Path) -> None:
    missing = []
    for path, name in TEST.findall(text_of(document)):
        file = ROOT / path
        if not file.exists() or (name and f"def {name}(" not in text_of(file)):
            missing.append(f"{path}::{name}")
    assert missing == []


@each("document", DOCUMENTS)
def test_every_code_path_in_a_document_exists(document: Path) -> None:
    assert [path for path in PATH.findall(text_of(document)) if not (ROOT / path).exists()] == []


def test_every_file_that_sources_name_exists() -> None:
    sources = [
        ROOT / "Makefile",
        *(path for path in (ROOT / "deploy").rglob("*") if path.is_file()),
    ]
    for folder in FOLDERS.split("|"):
        texts = (ROOT / folder).rglob("*.md")
        sources += [*_python(folder), *(text for text in texts if "node_modules" not in text.parts)]
    # Templates and style sheets are named as Django finds them.
    places = [ROOT, *ROOT.glob("*/templates"), *ROOT.glob("*/static")]
    missing = [
        f"{relative_path(source)}: {name}"
        for source in sources
        for name in NAMED_FILE.findall(text_of(source))
        if not any((place / name).exists() for place in places)
    ]
    assert missing == []


@each("document", DOCUMENTS)
def test_every_command_in_a_document_exists(document: Path) -> None:
    text = text_of(document)
    commands = set(COMMAND.findall(text)) - NOT_COMMANDS
    assert sorted(commands - set(get_commands())) == []
    assert [name for name in sorted(set(BENCHMARK.findall(text))) if not find_spec(name)] == []


def test_the_readme_links_to_every_document() -> None:
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in LINK.findall(text_of(README))}
    missing = {document.resolve() for document in DOCUMENTS[1:]} - linked
    assert [relative_path(path) for path in sorted(missing) if path.parent != DECISIONS] == []


def test_each_decision_has_a_number_of_its_own() -> None:
    index = text_of(ROOT / "docs" / "decisions.md")
    for document in sorted(DECISIONS.glob("*.md")):
        assert f"(decisions/{document.name})" in index
        numbers = DECISION.findall(text_of(document))
        assert "" not in numbers, f"{document.name}: a decision starts with its number."
        assert len(set(numbers)) == len(numbers), f"{document.name}: a number is used twice."


def test_each_decision_that_is_named_exists() -> None:
    files = {document.stem: document for document in DECISIONS.glob("*.md")}
    sources = [*DOCUMENTS, *(path for folder in FOLDERS.split("|") for path in _python(folder))]
    missing = [
        f"{relative_path(source)}: {file} {number}"
        for source in sources
        for file, number in NAMED_DECISION.findall(text_of(source))
        if file in files and number not in DECISION.findall(text_of(files[file]))
    ]
    assert missing == []


def test_every_command_is_described() -> None:
    ours = {
        name
        for name, app in get_commands().items()
        if isinstance(app, str) and (ROOT / app.partition(".")[0]).is_dir()
    }
    described = set(COMMAND.findall(text_of(ROOT / "docs" / "commands.md")))
    assert sorted(ours - described) == []


@pytest.mark.parametrize("package", ["benchmarks", "proofs"])
def test_every_benchmark_and_proof_is_described(package: str) -> None:
    runnable = {
        f"{package}.{path.stem}"
        for path in (ROOT / package).glob("*.py")
        if "run_command(" in text_of(path)
    }
    described = set(BENCHMARK.findall(text_of(ROOT / package / "README.md")))
    assert sorted(runnable - described) == []


def test_every_promise_names_what_shows_it() -> None:
    rows = [
        line
        for line in text_of(ROOT / "docs" / "promises.md").splitlines()
        if line.startswith("| ") and not line.startswith(("| promise", "| what goes wrong"))
    ]
    assert rows
    evidence = re.compile(r"`(tests/|python -m (?:benchmarks|proofs)|\.ci/run)")
    assert [row for row in rows if not evidence.search(row)] == []
