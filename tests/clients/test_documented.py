"""What docs/sending-data.md shows works when it is copied."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from django.conf import settings

from tests.clients.browsing import Browser, Site
from tests.clients.conftest import HERE, need
from tests.clients.service import Service
from tests.start.running import until

DOCUMENT = Path(settings.BASE_DIR) / "docs" / "sending-data.md"
SECTION = re.compile(r"^## (.+?)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SNIPPET = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    section: str
    language: str
    code: str

    def for_service(self, service: Service, prefix: str) -> str:
        """The code as its reader would fill it in, with ids of the test's own."""
        code = self.code.replace("127.0.0.1:8000", service.host).replace("edk_…", service.key)
        for name in ("ada", "initech"):
            code = re.sub(f"(['\"]){name}\\1", rf"\g<1>{prefix}{name}\1", code)
        return re.sub(r'("messageId": ")', rf"\g<1>{prefix}", code)


def snippets() -> list[Snippet]:
    """What people run. ``test_https.py`` tries the configurations of proxies."""
    return [
        Snippet(section, language, code)
        for section, text in SECTION.findall(DOCUMENT.read_text())
        for language, code in SNIPPET.findall(text)
        if section != "HTTPS"
    ]


SNIPPETS = snippets()


def run(command: list[str], folder: Path) -> None:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@contextmanager
def at_work(
    snippet: Snippet, code: str, folder: Path, request: pytest.FixtureRequest
) -> Iterator[None]:
    """While the snippet's code runs as its reader would run it."""
    match snippet.section, snippet.language:
        case _, "sh":
            need(shutil.which("curl"), "curl")
            # A message that is refused fails the test, although curl would not mind.
            strict = code.replace("curl ", "curl --fail-with-body -sS ")
            run(["bash", "-euo", "pipefail", "-c", strict.replace("--fail ", "")], folder)
            yield
        case "Python", "python":
            run([sys.executable, "-c", code], folder)
            yield
        case "Node.js", "js":
            node = request.getfixturevalue("node")
            (folder / "node_modules").symlink_to(HERE / "node_modules")
            (folder / "snippet.mjs").write_text(code)
            run([node, "snippet.mjs"], folder)
            yield
        case "An app for Jira or Confluence", "js":
            node = request.getfixturevalue("node")
            prefix = request.getfixturevalue("prefix")
            installed_in = f"ari:cloud:jira::site/{prefix}initech"
            context = json.dumps({"accountId": f"{prefix}ada", "installContext": installed_in})
            call = f"\nawait track({context}, 'Report_Created')\n"
            (folder / "snippet.mjs").write_text(code + call)
            run([node, "snippet.mjs"], folder)
            yield
        case "Browsers", "js":
            browser: Browser = request.getfixturevalue("browser")
            (folder / "node_modules").symlink_to(HERE / "node_modules")
            if "pagehide" in code:
                code += "location.href = '/left.html'"
            (folder / "snippet.mjs").write_text(code)
            site = Site(folder)
            (page,) = site.add(folder / "snippet.mjs")
            with site.served() as port, browser.page_open(port, page, {}):
                yield
        case _:
            pytest.fail(f"nobody knows how to run {snippet.language} of {snippet.section}")


@pytest.mark.parametrize("snippet", SNIPPETS, ids=[f"{s.section} {s.language}" for s in SNIPPETS])
def test_a_snippet_does_what_it_says(
    snippet: Snippet,
    service: Service,
    prefix: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    ada, initech = f"{prefix}ada", f"{prefix}initech"
    with at_work(snippet, snippet.for_service(service, prefix), tmp_path, request):
        if "/validate/" in snippet.code:
            # It records nothing, and curl shows the response.
            return
        if "identify" not in snippet.code:
            # Only the app's user is identified here: by the account that the message names.
            service.until_events(prefix, 1)
            if "installContext" in snippet.code:
                until(lambda: initech in service.accounts(prefix), "the account")
                assert [event[:3] for event in service.events(prefix)] == [
                    (ada, "Report_Created", initech)
                ]
            return
        service.until_events(prefix, 1)
        until(lambda: initech in service.accounts(prefix), "the account")
    assert service.users(prefix)[ada]["name"] == "Ada"
    assert service.accounts(prefix)[initech]["name"] == "Initech"
    assert [event[:3] for event in service.events(prefix)] == [(ada, "Report_Created", initech)]


def test_every_way_to_send_has_a_snippet() -> None:
    sections = {snippet.section for snippet in SNIPPETS}
    assert {"HTTP", "Python", "Node.js", "Browsers"} < sections
    assert "Segment or RudderStack as a destination" in sections
