"""``manage.py marketplace_simulator`` in a terminal."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from django.conf import settings

from tests.start.running import PATIENCE, clean_environment, free_port

pytestmark = pytest.mark.slow


def _obey_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def process(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "manage.py", "marketplace_simulator", "--licenses", "60"]
    started = subprocess.Popen(
        [*command, "--port", str(free_port())],
        cwd=settings.BASE_DIR,
        env=clean_environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # As at a terminal: what a shell starts in the background ignores Ctrl-C, and so would we.
        preexec_fn=_obey_ctrl_c,
    )
    with started:
        yield started
        started.kill()


def test_it_prints_the_details_and_runs_until_ctrl_c(
    process: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if "/behave" in line:
            break
    values = dict(
        re.findall(r"^  (User name|API token|Vendor ID|Product ID) +(\S+)$", printed, re.M)
    )
    url = re.findall(r"^  MARKETPLACE_API_URL=(\S+) python manage.py up$", printed, re.M)[0]
    answer = requests.get(
        f"{url}/marketplace/rest/3/developer-space/vendor/{values['Vendor ID']}",
        auth=(values["User name"], values["API token"]),
        timeout=10,
    )
    assert answer.status_code == 200
    assert "with 60 licenses" in printed
    assert not (tmp_path / "postgres").exists(), "it needs no database"

    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert "Traceback" not in process.stdout.read()
