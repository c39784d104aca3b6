"""Other users of the machine find nothing in the data folder, and cannot hold the service up."""

import logging
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from config import environment
from config.local import data_folder
from config.local.postgres import EmbeddedPostgres
from tests.start.running import manage

# A command that starts the database, and creates it if there is none.
USES_THE_DATABASE = ("shell", "-c", "pass")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that PostgreSQL's own user can reach."""
    with tempfile.TemporaryDirectory(prefix="eds-private-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def test_a_new_data_folder_and_its_lock_are_the_owners_alone(tmp_path: Path) -> None:
    for folder in (tmp_path / "by the settings", tmp_path / "by the lock"):
        if folder.name == "by the settings":
            environment.local_secrets(folder)
        with data_folder.lock_data_dir(folder):
            assert mode(folder / "up.lock") == 0o600
            assert not mode(folder) & 0o077


def test_open_permissions_are_removed_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environment.local_secrets(tmp_path)
    (tmp_path / "up.lock").touch()
    for name, open_mode in ((".", 0o755), ("secrets.json", 0o644), ("up.lock", 0o644)):
        (tmp_path / name).chmod(open_mode)
    with caplog.at_level(logging.WARNING), data_folder.lock_data_dir(tmp_path):
        assert not mode(tmp_path) & 0o067
        assert mode(tmp_path / "secrets.json") == mode(tmp_path / "up.lock") == 0o600
    # Not those of another test's tracebacks that were left out.
    records = [record for record in caplog.records if record.name == data_folder.__name__]
    messages = [record.getMessage() for record in records]
    assert [str(tmp_path) in line and "open to other users" in line for line in messages] == [
        True
    ] * 2
    caplog.clear()
    with data_folder.lock_data_dir(tmp_path):
        assert caplog.records == []


def test_a_shared_folder_stays_as_it_is(tmp_path: Path) -> None:
    shared = tmp_path / "like tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    data_folder.restrict_permissions(shared)
    assert mode(shared) == 0o777 | stat.S_ISVTX


def test_a_private_folder_stays_private_with_a_database_in_it(reachable: Path) -> None:
    data = reachable / "data"
    assert manage(data, *USES_THE_DATABASE).returncode == 0
    assert not mode(data) & 0o067
    with data_folder.lock_data_dir(data):
        assert manage(data, *USES_THE_DATABASE).returncode == 0
    assert not mode(data) & 0o067


def test_only_postgresqls_user_reaches_its_files(reachable: Path) -> None:
    data = reachable / "data"
    data.mkdir(mode=0o700)
    server = EmbeddedPostgres(data / "postgres")
    server.initialise()
    status = data.stat()
    if os.geteuid() == 0:
        assert status.st_gid == server.folder.stat().st_gid
        assert subprocess.run(["ls", data], user=65534, group=65534, extra_groups=[]).returncode
    assert not stat.S_IMODE(status.st_mode) & 0o067
