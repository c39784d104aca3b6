"""deploy/compose.yaml starts what exists, with settings that exist, and shows no secret."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command, get_commands
from pytest_django import Settings

from config import environment, main
from core.version import VERSION
from tests.config.test_deploy import assert_every_queue_is_read

DEPLOY = settings.BASE_DIR / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}


def test_every_service_of_ours_runs_a_command_that_exists_without_privileges() -> None:
    assert set(OURS) == {"secrets", "install", "web", "worker", "scoring", "syncs", "beat"}
    for service in OURS.values():
        program, *rest = service["command"]
        if program == "python":
            assert rest[0] == "manage.py" and rest[1] in get_commands()
        else:
            assert (program, *rest[:2]) == ("celery", "-A", "config")
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert service["image"].endswith(f":{VERSION}}}")
        assert not service.get("ports")


def test_the_workers_together_read_every_queue() -> None:
    assert_every_queue_is_read(service["command"] for service in OURS.values())


def test_the_roles_wait_for_the_tables_and_these_for_the_database() -> None:
    for name in ("web", "worker", "scoring", "syncs", "beat"):
        after = SERVICES[name]["depends_on"]
        assert after == {"install": {"condition": "service_completed_successfully"}}
    assert SERVICES["install"]["depends_on"]["postgres"]["condition"] == "service_healthy"


def test_its_settings_exist_and_secrets_come_from_files() -> None:
    described = (settings.BASE_DIR / "docs" / "settings.md").read_text()
    for service in OURS.values():
        for name in service["environment"]:
            assert f"| `{name.removesuffix('_FILE')}` |" in described
    secret_names = {"DATABASE_URL", "EDS_SECRET_KEY", "EDS_ENCRYPTION_KEYS"}
    files = {name for name in SERVICES["web"]["environment"] if name.endswith("_FILE")}
    assert files == {f"{name}_FILE" for name in secret_names}


def test_a_cluster_knows_its_nodes_before_it_has_tables() -> None:
    services = yaml.safe_load((DEPLOY / "compose.citus.yaml").read_text())["services"]
    assert services.keys() - SERVICES.keys() == {"node1", "node2", "cluster"}
    servers = {"postgres", "node1", "node2"}
    for name in servers:
        assert "-cshared_preload_libraries=citus" in services[name]["command"]
        assert f"'{name}', 5432" in services["cluster"]["command"][0]
    assert services["cluster"]["depends_on"].keys() == servers
    assert services["install"]["depends_on"].keys() == {"cluster"}


def test_caddy_passes_everything_to_the_web_role() -> None:
    caddyfile = (DEPLOY / "Caddyfile").read_text()
    words = SERVICES["web"]["command"]
    assert f"reverse_proxy web:{words[words.index('--port') + 1]}" in caddyfile
    assert "./Caddyfile:/etc/caddy/Caddyfile:ro" in SERVICES["caddy"]["volumes"]
    assert "/healthz" in json.dumps(SERVICES["web"]["healthcheck"])


# --- The secrets ----------------------------------------------------------------------------


def test_secrets_are_written_once_and_read_from_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.run_command(["manage.py", "generate_secrets", str(tmp_path)])
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(texts) == {"database_password", "database_url", "secret_key", "encryption_keys"}
    assert texts["database_password"] in texts["database_url"]
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o400
    main.run_command(["manage.py", "generate_secrets", str(tmp_path)])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == texts
    mounted = re.findall(r"/secrets/(\w+)", str(SERVICES["postgres"]) + str(SERVICES["web"]))
    assert set(mounted) == set(texts)
    monkeypatch.delenv("EDS_SECRET_KEY", raising=False)
    monkeypatch.setenv("EDS_SECRET_KEY_FILE", str(tmp_path / "secret_key"))
    assert environment.text("EDS_SECRET_KEY") == texts["secret_key"]
    monkeypatch.setenv("EDS_SECRET_KEY", "its own")
    assert environment.text("EDS_SECRET_KEY") == "its own"


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDS_METRICS_TOKEN_FILE", str(tmp_path / "missing"))
    with pytest.raises(ImproperlyConfigured, match="EDS_METRICS_TOKEN_FILE names a file"):
        environment.text("EDS_METRICS_TOKEN")


@pytest.mark.django_db
def test_install_creates_a_login_once_and_shows_it_where_asked(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.DATA_DIR = tmp_path
    call_command("install", "--address=https://eds.example.com", "--show-credentials")
    password = json.loads((tmp_path / "credentials.json").read_text())["admin_password"]
    printed = capsys.readouterr().out
    assert password in printed and "https://eds.example.com/admin/" in printed
    call_command("install", "--show-credentials")
    assert password not in capsys.readouterr().out
