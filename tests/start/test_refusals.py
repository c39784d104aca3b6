"""What a person can get wrong is answered with one sentence and status 1."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command

from config import readiness
from config.failures import StartFailed
from engagement.models import Product
from tests.start.running import free_port, manage

SECRETS = {"EDS_SECRET_KEY": "s" * 60, "EDS_ENCRYPTION_KEYS": Fernet.generate_key().decode()}
PASSWORD = "pa55word"


def refusal(folder: Path, *arguments: str, **settings_given: str) -> str:
    """The sentence that the command ends with."""
    ended = manage(folder, *arguments, **settings_given)
    assert ended.returncode == 1, ended
    assert "Traceback" not in ended.stderr
    assert PASSWORD not in ended.stderr + ended.stdout
    assert ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def something_else() -> Iterator[int]:
    """The port of a server that is not PostgreSQL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        yield listener.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["up", "serve"])
def test_a_port_in_use(tmp_path: Path, taken_port: int, command: str) -> None:
    url = f"postgresql://eds:{PASSWORD}@127.0.0.1:{free_port()}/eds"
    said = refusal(tmp_path, command, "--port", str(taken_port), DATABASE_URL=url, **SECRETS)
    assert f"cannot listen on 127.0.0.1:{taken_port}" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "url",
    [f"mysql://eds:{PASSWORD}@127.0.0.1/eds", f"eds:{PASSWORD}", "postgresql://"],
)
def test_a_malformed_database_url(tmp_path: Path, url: str) -> None:
    assert "DATABASE_URL" in refusal(tmp_path, "up", DATABASE_URL=url, **SECRETS)


@pytest.mark.slow
def test_an_unreachable_database(tmp_path: Path) -> None:
    url = f"postgresql://eds:{PASSWORD}@127.0.0.1:{free_port()}/eds"
    said = refusal(tmp_path, "up", "--port", str(free_port()), DATABASE_URL=url, **SECRETS)
    assert "the database cannot be reached" in said


@pytest.mark.slow
def test_a_database_that_is_none(tmp_path: Path, something_else: int) -> None:
    url = f"postgresql://eds:{PASSWORD}@127.0.0.1:{something_else}/eds"
    said = refusal(tmp_path, "up", "--port", str(free_port()), DATABASE_URL=url, **SECRETS)
    assert "the database cannot be reached" in said


@pytest.mark.slow
@pytest.mark.parametrize("missing", sorted(SECRETS))
def test_a_missing_secret_with_a_database_of_ones_own(tmp_path: Path, missing: str) -> None:
    given = {name: value for name, value in SECRETS.items() if name != missing}
    url = f"postgresql://eds:{PASSWORD}@127.0.0.1/eds"
    assert f"{missing} is not set" in refusal(tmp_path, "up", DATABASE_URL=url, **given)


def test_a_database_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(ensure_connection=lambda: None, pg_version=150_004)
    monkeypatch.setattr(readiness, "connection", old)
    with pytest.raises(StartFailed, match="PostgreSQL 15; version 16 or newer is needed"):
        readiness.check_database()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["", "   ", "x" * 201, "nul\x00"])
def test_a_product_with_an_unfit_name(name: str) -> None:
    with pytest.raises(StartFailed, match="cannot have this name"):
        call_command("create_product", name)
    assert not Product.objects.exists()
