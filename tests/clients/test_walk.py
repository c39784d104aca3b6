"""A person starts the service at a terminal, and the commands in docs/reading-data.md work there
and print what it shows. They run before all other tests of the service, because ids are shown.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.conf import settings

from tests.start.running import Up, fetch, until

pytestmark = pytest.mark.whole
DOCUMENT = Path(settings.BASE_DIR) / "docs" / "reading-data.md"
STEP = re.compile(r"^```sh\n(.*?)^```\n\n```(?:json|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGING = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?Z)?")
LEFT_OUT = "…"


class Step(NamedTuple):
    """A command in the document and the output that it shows."""

    line: str
    example: str


TEXT = DOCUMENT.read_text()
STEPS = [Step(*groups) for groups in STEP.findall(TEXT)]


def outputs(up: Up) -> Iterator[str]:
    """The output of each step, run one after the other."""
    sending, *reading = STEPS
    yield run(up, sending.line)
    until(lambda: scored(up), "the scores")
    yield from (run(up, step.line) for step in reading)


def scored(up: Up) -> bool:
    headers = {"Authorization": f"Bearer {up.credentials['api_token']}"}
    base = f"http://127.0.0.1:{up.port}/v2"
    accounts = json.loads(fetch(f"{base}/accounts?workspace_id=1", headers=headers)[1])["data"]
    (workspace,) = json.loads(fetch(f"{base}/workspaces?expand=stats", headers=headers)[1])["data"]
    # The cached counts follow the scores.
    is_counted = workspace["stats"]["total_accounts"] == 2
    return len(accounts) == 2 and all(account["score"] for account in accounts) and is_counted


def run(up: Up, line: str) -> str:
    """The output of the command, with the document's port."""
    for file_text, own in (
        ("127.0.0.1:8000", f"127.0.0.1:{up.port}"),
        ("edk_…", up.credentials["ingestion_key"]),
        ("eds_…", up.credentials["api_token"]),
    ):
        line = line.replace(file_text, own)
    process = subprocess.run(["bash", "-euc", line], capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return process.stdout.replace(f"127.0.0.1:{up.port}", "127.0.0.1:8000")


def test_a_person_at_a_terminal_sees_the_credentials_and_lines_to_paste(up: Up) -> None:
    for name in ("admin_password", "ingestion_key", "api_token"):
        assert up.credentials[name] in up.text
    assert all(line in up.text for line in up.curl_lines())


# --- Comparing ------------------------------------------------------------------------------


def split_json(text: str) -> tuple[Any, str]:
    """The JSON at the start of the text, and the rest."""
    text = text.strip()
    if not text.startswith("{"):
        return None, text
    value, end = json.JSONDecoder().raw_decode(text)
    return value, text[end:].strip()


def fits(example: Any, output: Any) -> bool:
    """Whether the output equals what is shown, except for times and omissions."""
    if isinstance(example, dict) and isinstance(output, dict):
        names = example.keys() - {LEFT_OUT}
        complete = names <= output.keys() if LEFT_OUT in example else names == output.keys()
        return complete and all(fits(example[name], output[name]) for name in names)
    if isinstance(example, list) and isinstance(output, list):
        items = [item for item in example if item != LEFT_OUT]
        enough = len(items) <= len(output)
        complete = enough if LEFT_OUT in example else len(example) == len(output)
        return complete and all(map(fits, items, output))
    if isinstance(example, str) and isinstance(output, str):
        return fits_text(example, output)
    return type(example) is type(output) and bool(example == output)


def fits_text(example: str, output: str) -> bool:
    if CHANGING.fullmatch(example):
        return CHANGING.fullmatch(output) is not None
    pattern = re.sub(r"([\[*?])", r"[\1]", example).replace(LEFT_OUT, "*")
    return fnmatchcase(output, pattern)


# --- The tests ------------------------------------------------------------------------------


def test_a_command_prints_what_the_document_shows(up: Up) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    for step, text in zip(STEPS, outputs(up), strict=True):
        (example, example_rest), (output, rest) = map(split_json, (step.example, text))
        assert fits(example, output), f"{step.line}\n{text}"
        assert fits_text(example_rest, rest), f"{step.line}\n{text}"


def test_every_snippet_is_tested() -> None:
    assert len(re.findall(r"^```\w", TEXT, re.MULTILINE)) == 2 * len(STEPS)


def test_every_endpoint_is_documented() -> None:
    commands = "\n".join(step.line for step in STEPS)
    for address in (
        "/v2/workspaces?",
        "/v2/workspaces/1",
        "/v2/accounts?",
        "/v2/accounts/1?",
        "/v2/accounts/1/users?",
        "/v2/users?",
        "/v2/users/1?",
        "/v2/segments?",
        "/v2/segments/16?",
        "/v2/segments/16/members?",
        "/v1/accounts?",
        "/openapi.json",
        "/docs",
    ):
        assert f"127.0.0.1:8000{address}" in commands


@pytest.mark.parametrize(
    ("example", "output", "expected"),
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
def test_only_times_and_omissions_may_differ(
    example: object, output: object, expected: bool
) -> None:
    assert fits(example, output) is expected
