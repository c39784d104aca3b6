"""The embedded PostgreSQL believes the kernel who connects, and no name that a client sends."""

import multiprocessing
import os
import pwd
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from config.local import peers
from config.local.postgres import DATABASE, ROLE, SUPERUSER, EmbeddedPostgres, stop_process
from tests.database import FAST, copy_migrated_cluster, superuser

pytestmark = pytest.mark.slow
NOBODY = 65534


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """On files that an older release made, which trusts everybody."""
    with tempfile.TemporaryDirectory(prefix="eds-peers-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        server = EmbeddedPostgres(folder / "postgres", FAST)
        copy_migrated_cluster(server.folder)
        assert "trust" in (server.folder / "pg_hba.conf").read_text()
        server.initialise()
        process = server.start_with_log(folder / "log")
        yield server
        stop_process(process, signal.SIGINT, timeout=30)


def connect(host: str, role: str) -> str:
    """What becomes of a connection: the role that it has, or why there is none."""
    try:
        with psycopg.connect(host=host, user=role, dbname=DATABASE) as connection:
            row = connection.execute("SELECT current_user").fetchone()
            return str(row and row[0])
    except psycopg.OperationalError as error:
        return str(error)


def _connect_as(user: int, host: str, role: str, results: Any) -> None:
    os.setgroups([])
    os.setuid(user)
    results.put(connect(host, role))


def test_who_started_it_may_connect_and_nothing_is_trusted(server: EmbeddedPostgres) -> None:
    host = str(server.socket_dir)
    assert [connect(host, role) for role in (ROLE, SUPERUSER)] == [ROLE, SUPERUSER]
    with superuser(server) as connection:
        rules = connection.execute("SELECT type, auth_method, error FROM pg_hba_file_rules")
        assert set(rules.fetchall()) == {("local", "peer", None)}
        errors = connection.execute("SELECT error FROM pg_ident_file_mappings")
        assert set(errors.fetchall()) == {(None,)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("role", [ROLE, SUPERUSER])
def test_another_user_is_nobody_even_with_the_socket_open(
    role: str, server: EmbeddedPostgres
) -> None:
    host = server.socket_dir
    (socket,) = host.glob(".s.PGSQL.*[0-9]")
    modes = [(path, path.stat().st_mode) for path in (host, socket)]
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    try:
        for path, _ in modes:
            path.chmod(0o777)
        child = fork.Process(target=_connect_as, args=(NOBODY, str(host), role, results))
        child.start()
        answer = results.get(timeout=60)
        child.join()
    finally:
        for path, mode in modes:
            path.chmod(mode & 0o777)
    assert "Peer authentication failed" in answer


def test_users_are_named_once_and_only_written_when_they_change(tmp_path: Path) -> None:
    options = peers.write_rules(tmp_path)
    assert options == {
        "hba_file": str(tmp_path / peers.RULES),
        "ident_file": str(tmp_path / peers.NAMES),
    }
    names = (tmp_path / peers.NAMES).read_text()
    assert names.count(f'"{pwd.getpwuid(os.geteuid()).pw_name}"') == 1 and '"root"' in names
    before = [(tmp_path / name).stat().st_ino for name in (peers.RULES, peers.NAMES)]
    peers.write_rules(tmp_path)
    assert before == [(tmp_path / name).stat().st_ino for name in (peers.RULES, peers.NAMES)]
    assert (tmp_path / peers.RULES).stat().st_mode & 0o777 == 0o600


def test_a_user_without_a_name_can_still_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(user: int) -> Any:
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert peers.write_rules(tmp_path) == {}
