"""The examples under ``deploy/`` start what there is, with settings that there are."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import get_commands

from config.celery import app
from tests.house.test_packages import canonical, installed_for

DEPLOY = Path(settings.BASE_DIR) / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))


def words_of(unit: Path) -> list[str]:
    (line,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    return shlex.split(line.removeprefix("ExecStart="))


def test_every_role_has_a_unit() -> None:
    assert [unit.stem for unit in UNITS] == [
        "eds-beat",
        "eds-scoring",
        "eds-syncs",
        "eds-web",
        "eds-worker",
    ]


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


def test_no_example_listens_where_clients_get_past_the_proxy() -> None:
    """They would choose the address that stands for them."""
    hosts = [
        words[words.index("--host") + 1] for words in map(words_of, UNITS) if "--host" in words
    ]
    assert hosts == ["127.0.0.1"]
    published = re.findall(r"--publish (\S+)", BUILD)
    assert published and all(port.startswith("127.0.0.1:") for port in published)
    operating = (settings.BASE_DIR / "docs" / "operating.md").read_text()
    assert "chooses that address" in operating


def test_every_role_is_confined_alike() -> None:
    first, *others = (confinement(unit) for unit in UNITS)
    assert "NoNewPrivileges=true" in first
    assert all(other == first for other in others)


def confinement(unit: Path) -> list[str]:
    """The lines about what the service may do: all after those about how it stops."""
    lines = unit.read_text().splitlines()
    (stop,) = [at for at, line in enumerate(lines) if line.startswith("TimeoutStopSec=")]
    return lines[stop + 1 : lines.index("[Install]")]


def test_the_workers_together_read_every_queue() -> None:
    assert_every_queue_is_read(words_of(unit) for unit in UNITS)


def assert_every_queue_is_read(commands: Iterable[Sequence[str]]) -> None:
    read = {words[words.index("--queues") + 1] for words in commands if "--queues" in words}
    routed = {route["queue"] for route in app.conf.task_routes.values()}
    assert read == routed | {app.conf.task_default_queue}


def test_the_environment_file_names_settings_that_the_docs_explain() -> None:
    described = (settings.BASE_DIR / "docs" / "settings.md").read_text()
    lines = (DEPLOY / "eds.env.example").read_text().splitlines()
    names = [line.partition("=")[0] for line in lines if line and not line.startswith("#")]
    assert names
    assert [name for name in names if f"| `{name}` |" not in described] == []


# --- The container ----------------------------------------------------------------------------

BUILD = (DEPLOY / "Containerfile").read_text()
# Loads all that the roles load, where the packages named by the arguments are not to be found.
ROLES = """
import sys
from importlib import import_module

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import_module("config.server.webworker")
import_module("config.wsgi")
import_module("config.celery").app.loader.import_default_modules()
from django.core.management import get_commands, load_command_class
for name, app in get_commands().items():
    load_command_class(app, name)
"""


def test_the_container_starts_the_web_role_and_hears_signals_from_the_beginning() -> None:
    assert '"manage.py", "serve"' in BUILD
    assert 'ENTRYPOINT ["tini", "--"]' in BUILD


@pytest.mark.slow
def test_the_container_has_the_packages_of_the_service_and_the_roles_load_with_them_alone() -> None:
    assert "COPY requirements.lock ./" in BUILD
    assert re.search(r"pip install .* --require-hashes -r requirements.lock$", BUILD, re.MULTILINE)
    requirements = installed_for("requirements.txt")
    others = [
        module
        for module, packages in packages_distributions().items()
        if not requirements.keys() & {canonical(package) for package in packages}
    ]
    assert "pytest" in others and "mypy" in others and "django" not in others
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    subprocess.run(
        [sys.executable, "-c", ROLES, *others], cwd=settings.BASE_DIR, env=environment, check=True
    )


def test_nothing_but_the_service_goes_into_the_container() -> None:
    rules = [
        rule
        for rule in (settings.BASE_DIR / ".dockerignore").read_text().splitlines()
        if not rule.startswith("#")
    ]
    apps = {app for app in settings.INSTALLED_APPS if (settings.BASE_DIR / app).is_dir()}
    # Of the harness, only what `up --demo` and its two commands need.
    demo = {f"harness/{name}" for name in ("__init__.py", "demo", "management", "marketplace")}
    assert rules[0] == "*"
    # The guides are pages of the service.
    files = {
        "manage.py",
        "requirements.txt",
        "requirements.lock",
        "constraints.txt",
        "LICENSE",
        "docs",
    }
    assert set(rules[1:]) == {
        *(f"!{name}" for name in (apps - {"harness"}) | demo | files),
        "**/__pycache__",
    }


@pytest.mark.slow
def test_the_container_has_what_the_demo_imports(tmp_path: Path) -> None:
    for rule in (settings.BASE_DIR / ".dockerignore").read_text().splitlines():
        if rule.startswith("!"):
            (tmp_path / rule[1:]).parent.mkdir(exist_ok=True)
            (tmp_path / rule[1:]).symlink_to(settings.BASE_DIR / rule[1:])
    load = (
        "import django; django.setup(); import harness.demo.start as start; print(start.__file__)"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    for command in (["-c", load], ["manage.py", "marketplace_simulator", "--help"]):
        process = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            check=True,
            text=True,
            capture_output=True,
        )
        assert process.stdout.startswith((str(tmp_path), "usage:"))
