"""What docs/notifications.md and docs/clients.md show works when it is copied."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from django.conf import settings
from django.utils import timezone

from engagement.models import Product
from harness.threads import serving
from notifications import verification
from notifications.delivery import signing
from notifications.models import Delivery
from tests.clients.conftest import HERE
from tests.clients.service import Service
from tests.notifications.conftest import receiver
from tests.notifications.receiver import Receiver
from tests.notifications.rows import a_destination

__all__ = ["receiver"]

DOCS = Path(settings.BASE_DIR) / "docs"
DELIVERED, REFUSED = Delivery.Outcome.DELIVERED, Delivery.Outcome.REFUSED


def snippet(document: str, language: str, containing: str = "") -> str:
    """The code block of the document in this language that contains the text."""
    pattern = rf"^```{language}\n(.*?)^```$"
    blocks = re.findall(pattern, (DOCS / document).read_text(), re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if containing in block]
    return str(block)


# --- Receivers of webhooks ------------------------------------------------------------------


@contextmanager
def flask_app(code: str) -> Iterator[str]:
    from werkzeug.serving import make_server

    names: dict[str, Any] = {"__name__": "__main__"}
    exec(code, names)
    server = make_server("127.0.0.1", 0, names["app"])
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}/hook"


@contextmanager
def node_program(node: str, code: str, folder: Path) -> Iterator[str]:
    (folder / "node_modules").symlink_to(HERE / "node_modules")
    own_port = "server.listen(0, () => console.log(server.address().port))"
    assert "server.listen(8000)" in code
    (folder / "receiver.mjs").write_text(code.replace("server.listen(8000)", own_port))
    command = [node, "receiver.mjs"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/hook"
        finally:
            process.terminate()


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_documented_receiver_takes_what_is_signed_and_nothing_else(
    language: str,
    acme: Product,
    receiver: Receiver,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    secret = signing.generate_secret()
    code = snippet("notifications.md", language).replace("YOUR_SIGNING_SECRET", secret)
    running = (
        flask_app(code)
        if language == "python"
        else node_program(request.getfixturevalue("node"), code, tmp_path)
    )
    with running as url:
        for signed_with, outcome in ((secret, DELIVERED), (signing.generate_secret(), REFUSED)):
            destination = a_destination(acme, url, name=outcome, signing_secrets=signed_with)
            result = verification.send_test(destination.pk, timezone.now())
            assert result.outcome == outcome, result.error


# --- Scripts and assistants -----------------------------------------------------------------


@pytest.fixture
def filled_in(service: Service, prefix: str) -> Any:
    """Fills in an address, a token, and the id of an account that is scored."""
    headers = {"Authorization": f"Basic {service.key}"}
    traits = {"name": "Initech", "plan": "pro"}
    for path, message in (
        ("group", {"groupId": f"{prefix}initech", "traits": traits}),
        ("identify", {"userId": f"{prefix}ada", "groupId": f"{prefix}initech"}),
        ("track", {"userId": f"{prefix}ada", "event": "Report_Created"}),
    ):
        url = f"{service.address}/v2/{path}"
        requests.post(url, json=message, headers=headers, timeout=10).raise_for_status()
    account = service.read_counted("account", f"{prefix}initech", {"Report_Created": 1})

    def fill(text: str) -> str:
        text = text.replace("http://127.0.0.1:8000", service.address)
        text = text.replace("eds_…", service.read_token).replace("python ", f"{sys.executable} ")
        return text.replace("get accounts 1 ", f"get accounts {account['id']} ")

    return fill


def bash(line: str, folder: Path) -> str:
    command = ["bash", "-euo", "pipefail", "-c", line]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_documented_lines_of_the_client_work(
    filled_in: Any, prefix: str, tmp_path: Path
) -> None:
    (tmp_path / "clients").symlink_to(Path(settings.BASE_DIR) / "clients")
    setting, *lines = snippet("clients.md", "sh", "eds.py").splitlines()
    # The last one watches until it is stopped.
    lines[-1] += " --once"
    printed = [bash(filled_in(f"{setting}\n{line}"), tmp_path) for line in lines]
    table, filtered, account, exported, watched = printed
    assert table.splitlines()[0].split()[:2] == ["id", "tracking_id"]
    assert f"{prefix}initech" in {json.loads(row)["tracking_id"] for row in filtered.splitlines()}
    assert json.loads(account)["traits"]["plan"] == "pro"
    assert not exported
    users = [json.loads(row) for row in (tmp_path / "users.jsonl").read_text().splitlines()]
    assert all(user["traits"].keys() == {"role", "email"} for user in users)
    assert f"{prefix}ada" in {user["tracking_id"] for user in users}
    changed = [json.loads(row)["changed"] for row in watched.splitlines()]
    assert f"{prefix}initech" in {account["tracking_id"] for account in changed}
    assert (tmp_path / "accounts.state").exists()


def test_the_documented_call_of_a_tool_works(filled_in: Any, tmp_path: Path) -> None:
    line = filled_in(snippet("clients.md", "sh", "/mcp").replace("curl ", "curl -sS "))
    result = json.loads(bash(line, tmp_path))["result"]
    assert not result.get("isError")
    assert "Initech" in {row["name"] for row in result["structuredContent"]["data"]}
