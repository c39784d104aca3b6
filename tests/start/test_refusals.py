"""What a person can get wrong is answered with one sentence and status 1."""

import ast
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command

import manage as manage_py
from config import main
from config.management.commands import serve
from config.setup import preflight
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


@pytest.mark.parametrize("command", ["up", "serve"])
def test_a_port_in_use(tmp_path: Path, taken_port: int, command: str) -> None:
    url = f"postgresql://eds:{PASSWORD}@127.0.0.1:{free_port()}/eds"
    sentence = refusal(tmp_path, command, "--port", str(taken_port), DATABASE_URL=url, **SECRETS)
    assert f"cannot listen on 127.0.0.1:{taken_port}" in sentence


@pytest.mark.parametrize(
    "url",
    [f"mysql://eds:{PASSWORD}@127.0.0.1/eds", f"eds:{PASSWORD}", "postgresql://"],
)
def test_a_malformed_database_url(tmp_path: Path, url: str) -> None:
    assert "DATABASE_URL" in refusal(tmp_path, "up", DATABASE_URL=url, **SECRETS)


def test_a_malformed_address_of_a_replica(tmp_path: Path) -> None:
    sentence = refusal(tmp_path, "up", EDS_REPLICA_URL=f"mysql://eds:{PASSWORD}@127.0.0.1/eds")
    assert "EDS_REPLICA_URL must look like" in sentence


def test_an_unreachable_database(tmp_path: Path) -> None:
    url = f"postgresql://eds:{PASSWORD}@127.0.0.1:{free_port()}/eds"
    sentence = refusal(tmp_path, "up", "--port", str(free_port()), DATABASE_URL=url, **SECRETS)
    assert "the database cannot be reached" in sentence


def test_a_server_that_is_not_postgresql(tmp_path: Path, something_else: int) -> None:
    url = f"postgresql://eds:{PASSWORD}@127.0.0.1:{something_else}/eds"
    sentence = refusal(tmp_path, "up", "--port", str(free_port()), DATABASE_URL=url, **SECRETS)
    assert "the database cannot be reached" in sentence


@pytest.mark.parametrize("missing", sorted(SECRETS))
def test_a_missing_secret_with_a_database_of_ones_own(tmp_path: Path, missing: str) -> None:
    secrets = {name: value for name, value in SECRETS.items() if name != missing}
    url = f"postgresql://eds:{PASSWORD}@127.0.0.1/eds"
    assert f"{missing} is not set" in refusal(tmp_path, "up", DATABASE_URL=url, **secrets)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"EDS_WEB_WORKERS": "many"}, "EDS_WEB_WORKERS must be a whole number, not 'many'"),
        ({"EDS_CELERY_WORKERS": "0"}, "EDS_CELERY_WORKERS must be at least 1, not 0"),
        ({"EDS_DEBUG": "perhaps"}, "EDS_DEBUG must be true or false, not 'perhaps'"),
        ({"EDS_LOG_FORMAT": "xml"}, "EDS_LOG_FORMAT must be one of text, json, not 'xml'"),
        ({"EDS_ENCRYPTION_KEYS": PASSWORD}, "`python manage.py generate_key` prints a new one"),
        ({"MARKETPLACE_API_URL": "ftp:x"}, "MARKETPLACE_API_URL must look like https://host"),
        (
            {"CELERY_BROKER_URL": f"rabbit://eds:{PASSWORD}@broker"},
            "CELERY_BROKER_URL must look like redis://host:6379/0 or amqp://",
        ),
    ],
)
def test_an_invalid_setting(tmp_path: Path, environment: dict[str, str], message: str) -> None:
    assert message in refusal(tmp_path, "serve", **environment)


@pytest.mark.parametrize("command", ["up", "serve", "migrate", "create_product"])
def test_a_data_folder_that_cannot_be_written(tmp_path: Path, command: str) -> None:
    # Whoever runs the tests may be root, who may write everywhere but below a file.
    file = tmp_path / "file"
    file.touch()
    sentence = refusal(file / "data", command)
    assert "cannot be written" in sentence
    assert "set EDS_DATA_DIR to a folder that can" in sentence


def test_a_command_before_the_tables_are_there(tmp_path: Path) -> None:
    sentence = refusal(tmp_path, "create_product", "Acme")
    assert "run `python manage.py migrate` first" in sentence


@pytest.mark.parametrize("python_version", [(2, 7, 18), (3, 6, 9), (3, 10, 14)])
def test_a_python_too_old(python_version: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", python_version)
    version = ".".join(map(str, python_version))
    with pytest.raises(
        SystemExit, match=f"Python 3.11 or newer is needed; this is Python {version}"
    ):
        manage_py.main()


def test_an_old_python_can_parse_manage_py() -> None:
    ast.parse(Path(manage_py.__file__).read_text(), feature_version=(3, 6))


def test_a_database_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(ensure_connection=lambda: None, pg_version=150_004)
    monkeypatch.setattr(preflight, "connection", old)
    with pytest.raises(CommandError, match="PostgreSQL 15; version 16 or newer is needed"):
        preflight.check_database()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["", "   ", "x" * 201, "nul\x00"])
def test_a_product_with_an_invalid_name(name: str) -> None:
    with pytest.raises(CommandError, match="cannot have this name"):
        call_command("create_product", name)
    assert not Product.objects.exists()


def test_a_command_that_fails_prints_one_sentence_and_its_own_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise CommandError("interrupted; nothing was kept.", returncode=130)

    monkeypatch.setattr(serve.Command, "handle", interrupted)
    monkeypatch.setattr(main, "WITHOUT_DATABASE", {"serve"})
    with pytest.raises(SystemExit) as end:
        main.run_command(["manage.py", "serve", "--port", "8001"])
    assert end.value.code == 130
    assert capsys.readouterr().err == "error: interrupted; nothing was kept.\n"


def test_a_secret_key_that_can_be_guessed(tmp_path: Path) -> None:
    sentence = refusal(
        tmp_path,
        "serve",
        DATABASE_URL="postgresql://eds@127.0.0.1/eds",
        EDS_SECRET_KEY="abc",
        EDS_ENCRYPTION_KEYS=Fernet.generate_key().decode(),
    )
    assert "EDS_SECRET_KEY must have 32 random characters or more, not 3." in sentence
    assert "EDS_ENCRYPTION_KEYS and stays readable" in sentence
