"""The examples under ``deploy/`` start what there is, with settings that there are."""

import shlex
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import get_commands

from config.celery import app

DEPLOY = Path(settings.BASE_DIR) / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))


def words_of(unit: Path) -> list[str]:
    (line,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    return shlex.split(line.removeprefix("ExecStart="))


def test_every_role_has_a_unit() -> None:
    assert [unit.stem for unit in UNITS] == ["eds-beat", "eds-syncs", "eds-web", "eds-worker"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_that_exists(unit: Path) -> None:
    program, *rest = words_of(unit)
    if Path(program).name == "python":
        assert (settings.BASE_DIR / rest[0]).exists()
        assert rest[1] in get_commands()
    else:
        assert Path(program).name == "celery"
        assert rest[:2] == ["-A", "config"]
        assert rest[2] in ("worker", "beat")


def test_the_workers_together_read_every_queue() -> None:
    commands = [words_of(unit) for unit in UNITS]
    read = {words[words.index("--queues") + 1] for words in commands if "--queues" in words}
    routed = {route["queue"] for route in app.conf.task_routes.values()}
    assert read == routed | {app.conf.task_default_queue}


def test_the_environment_file_names_settings_that_the_readme_explains() -> None:
    readme = (settings.BASE_DIR / "README.md").read_text()
    lines = (DEPLOY / "eds.env.example").read_text().splitlines()
    names = [line.partition("=")[0] for line in lines if line and not line.startswith("#")]
    assert names
    assert [name for name in names if f"| `{name}` |" not in readme] == []


def test_the_container_starts_the_web_role() -> None:
    assert '"manage.py", "serve"' in (DEPLOY / "Containerfile").read_text()
