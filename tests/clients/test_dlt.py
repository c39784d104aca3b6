"""dlt, with its own package, keeps a copy of what the read API has."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import requests
from django.conf import settings

from tests.clients.conftest import HERE, need
from tests.clients.service import Service
from tests.start.running import manage, until

SOURCE = settings.BASE_DIR / "clients"
PROGRAM = HERE / "programs" / "dlt_rows.py"
# tests/clients/install makes it of the source's requirements.
PYTHON = HERE / ".dlt" / "bin" / "python"


@pytest.fixture
def copy(service: Service, tmp_path: Path) -> "Copy":
    need(PYTHON.exists(), "dlt")
    return Copy(service, tmp_path)


class Copy:
    """A copy in DuckDB, and what the read API has."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service, self.folder = service, folder
        self.read: dict[str, int] = {}

    def run(self, *last_step: str) -> "subprocess.CompletedProcess[str]":
        command = [str(PYTHON), str(PROGRAM), str(SOURCE), self.service.address]
        command += [self.service.read_token, str(self.service.workspace_id), *last_step]
        environment = {**os.environ, "RUNTIME__DLTHUB_TELEMETRY": "false", "HOME": str(self.folder)}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120
        )

    def die_after(self, step: str) -> None:
        """Let the pipeline be killed when it has done the step."""
        assert self.run(step).returncode == -signal.SIGKILL

    def load(self) -> dict[str, dict[int, list[Any]]]:
        """Run the pipeline. Returns the rows that the copy has then."""
        result = self.run()
        assert result.returncode == 0, result.stderr
        content = json.loads(result.stdout.splitlines()[-1])
        self.read = content["read"]
        return {
            name: {
                id: [tracking_id, score, json.loads(traits)]
                for id, tracking_id, score, traits in rows
            }
            for name, rows in content["rows"].items()
        }

    def listed(self) -> dict[str, dict[int, list[Any]]]:
        """What the read API lists now."""
        return {
            name: {
                row["id"]: [row["tracking_id"], row["score"], row["traits"]]
                for row in self.get(name, expand="traits")["data"]
            }
            for name in ("accounts", "users")
        }

    def get(self, name: str, **parameters: str) -> Any:
        query = {"workspace_id": self.service.workspace_id, "limit": 500, **parameters}
        answer = self.ask(f"{self.service.address}/v2/{name}?{urlencode(query)}")
        answer.raise_for_status()
        return answer.json()

    def ask(self, url: str) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.service.read_token}"}
        return requests.get(url, headers=headers, timeout=30)

    def manage(self, *command: str) -> None:
        up = self.service.up
        result = manage(up.data_dir, *command, **up.settings_given)
        assert result.returncode == 0, result.stderr

    def send(self, path: str, message: dict[str, Any]) -> None:
        headers = {"Authorization": f"Basic {self.service.key}"}
        url = f"{self.service.address}/{path}"
        requests.post(url, json=message, headers=headers, timeout=10).raise_for_status()

    def set_trait(self, user: str, number: int) -> None:
        """Send it, and wait until the read API has it."""
        before = self.listed()
        self.send("v2/identify", {"userId": user, "traits": {"n": number}})
        until(lambda: self.listed() != before, "the change", 60)

    def until_listed(self, prefix: str, number: int) -> None:
        def are_listed() -> bool:
            users = self.listed()["users"].values()
            return len([name for name, *_ in users if name.startswith(prefix)]) == number

        until(are_listed, f"{number} users", 60)


def test_the_copy_is_what_the_read_api_lists(copy: Copy, prefix: str) -> None:
    copy.send("v2/group", {"groupId": f"{prefix}a", "traits": {"plan": "pro", "tags": ["x", "y"]}})
    for number in range(4):
        message = {"userId": f"{prefix}{number}", "groupId": f"{prefix}a", "traits": {"n": number}}
        copy.send("v2/identify", message)
    copy.until_listed(prefix, 4)
    first = copy.load()
    assert first == copy.listed() and copy.read["users"] >= 4
    # Nothing changed, so nothing is read.
    assert copy.load() == first and copy.read["users"] == 0
    copy.set_trait(f"{prefix}0", 70)
    assert copy.load() == copy.listed() and copy.read["users"] == 1
    # What a run had read that died is not lost, and what came behind it is read after it.
    for number, step in enumerate(("extract", "normalize")):
        copy.set_trait(f"{prefix}0", 80 + number)
        copy.die_after(step)
        copy.set_trait(f"{prefix}1", 80 + number)
        assert copy.load() == copy.listed(), step
    # Who is forgotten, or joined to another user, vanishes.
    copy.manage("forget", "--product", "1", "--user", f"{prefix}1")
    copy.send("v1/alias", {"previousId": f"{prefix}2", "userId": f"{prefix}3"})
    copy.until_listed(prefix, 2)
    loaded = copy.load()
    assert loaded == copy.listed()
    names = {name for name, *_ in loaded["users"].values() if name.startswith(prefix)}
    assert names == {f"{prefix}0", f"{prefix}3"}
    # The workspace is scored again, as after an edit: nobody can say what changed since.
    changes = copy.get("users", changed_since="start")["_links"]["changes"]
    code = f"sets.request_score_set({copy.service.workspace_id})"
    copy.manage("shell", "-c", f"from engagement.rescoring import sets; {code}")
    until(lambda: copy.ask(changes).status_code == 400, "the new scores", 60)
    assert copy.load() == copy.listed() and copy.read["users"] == len(loaded["users"])
