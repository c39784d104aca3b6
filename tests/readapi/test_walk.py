"""What docs/reading-data.md shows works when it is pasted, and is answered as shown."""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.conf import settings

from tests.start.running import Up, fetch, until

pytestmark = pytest.mark.slow

DOCUMENT = Path(settings.BASE_DIR) / "docs" / "reading-data.md"
STEP = re.compile(r"^```sh\n(.*?)^```\n\n```(?:json|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGING = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?Z)?")
LEFT_OUT = "…"


class Step(NamedTuple):
    """What the document has its reader paste, and what it says that comes back."""

    line: str
    shown: str


TEXT = DOCUMENT.read_text()
STEPS = [Step(*found) for found in STEP.findall(TEXT)]


@pytest.fixture(scope="module")
def answers() -> Iterator[list[str]]:
    """What each step was answered, pasted one after the other into a service just started."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    # Not tmp_path: PostgreSQL's own user must be able to reach it, and its path stays short.
    folder = Path(tempfile.mkdtemp(prefix="eds-walk-"))
    folder.chmod(0o711)
    up = Up(folder)
    try:
        yield walked(up.wait_until_running())
    finally:
        if up.process.poll() is None:
            up.end()
        shutil.rmtree(folder, ignore_errors=True)


def walked(up: Up) -> list[str]:
    sending, *reading = STEPS
    answered = [pasted(up, sending.line)]
    until(lambda: scored(up), "the scores")
    return answered + [pasted(up, step.line) for step in reading]


def scored(up: Up) -> bool:
    headers = {"Authorization": f"Bearer {up.credentials['api_token']}"}
    address = f"http://127.0.0.1:{up.port}/v2/accounts?workspace_id=1"
    found = json.loads(fetch(address, headers=headers)[1])["data"]
    return len(found) == 2 and all(account["score"] for account in found)


def pasted(up: Up, line: str) -> str:
    """What the shell prints, with the document's port."""
    for written, own in (
        ("127.0.0.1:8000", f"127.0.0.1:{up.port}"),
        ("edk_…", up.credentials["ingestion_key"]),
        ("eds_…", up.credentials["api_token"]),
    ):
        line = line.replace(written, own)
    ended = subprocess.run(["bash", "-euc", line], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.replace(f"127.0.0.1:{up.port}", "127.0.0.1:8000")


# --- Comparing ------------------------------------------------------------------------------


def parted(text: str) -> tuple[Any, str]:
    """The JSON that the text begins with, and what follows it."""
    text = text.strip()
    if not text.startswith("{"):
        return None, text
    read, end = json.JSONDecoder().raw_decode(text)
    return read, text[end:].strip()


def fits(shown: Any, answered: Any) -> bool:
    """Whether the answer is what is shown, but for times and what is left out."""
    if isinstance(shown, dict) and isinstance(answered, dict):
        some = shown.keys() - {LEFT_OUT}
        complete = some <= answered.keys() if LEFT_OUT in shown else some == answered.keys()
        return complete and all(fits(shown[name], answered[name]) for name in some)
    if isinstance(shown, list) and isinstance(answered, list):
        some_items = [item for item in shown if item != LEFT_OUT]
        enough = len(some_items) <= len(answered)
        complete = enough if LEFT_OUT in shown else len(shown) == len(answered)
        return complete and all(map(fits, some_items, answered))
    if isinstance(shown, str) and isinstance(answered, str):
        return fits_text(shown, answered)
    return type(shown) is type(answered) and bool(shown == answered)


def fits_text(shown: str, answered: str) -> bool:
    if CHANGING.fullmatch(shown):
        return CHANGING.fullmatch(answered) is not None
    pattern = re.sub(r"([\[*?])", r"[\1]", shown).replace(LEFT_OUT, "*")
    return fnmatchcase(answered, pattern)


# --- The walk -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(STEPS)), ids=lambda n: f"{n}")
def test_a_line_is_answered_as_the_document_shows(answers: list[str], number: int) -> None:
    (shown, after), (answered, printed) = parted(STEPS[number].shown), parted(answers[number])
    assert fits(shown, answered), f"{STEPS[number].line}\n{answers[number]}"
    assert fits_text(after, printed), f"{STEPS[number].line}\n{answers[number]}"


def test_every_snippet_is_pasted_and_compared() -> None:
    assert len(re.findall(r"^```\w", TEXT, re.MULTILINE)) == 2 * len(STEPS)


def test_every_address_of_the_read_api_is_walked() -> None:
    pasted_lines = "\n".join(step.line for step in STEPS)
    for address in (
        "/v2/workspaces?",
        "/v2/workspaces/1",
        "/v2/accounts?",
        "/v2/accounts/1?",
        "/v2/users?",
        "/v2/users/1?",
        "/v2/segments?",
        "/v2/segments/16?",
        "/v2/segments/16/members?",
        "/v1/accounts?",
        "/openapi.json",
        "/docs",
    ):
        assert f"127.0.0.1:8000{address}" in pasted_lines


@pytest.mark.parametrize(
    ("shown", "answered", "does"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "…": "…"}, {"a": 1, "b": 2}, True),
        ({"a": 1, "…": "…"}, {"b": 2}, False),
        ([1, 2], [1, 2, 3], False),
        ([1, 2, "…"], [1, 2, 3], True),
        ([1, 2, "…"], [1], False),
        ("page?cursor=…", "page?cursor=AZ", True),
        ("page?cursor=…", "pages?cursor=AZ", False),
        ("2026-11-21T10:03:33.737747Z", "2027-01-01T00:00:00Z", True),
        ("2026-11-21T10:03:33.737747Z", "yesterday", False),
        (1, True, False),
    ],
)
def test_only_times_and_what_is_left_out_may_differ(
    shown: object, answered: object, does: bool
) -> None:
    assert fits(shown, answered) is does
