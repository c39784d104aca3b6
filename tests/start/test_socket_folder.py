"""The embedded PostgreSQL's socket in the temporary folder is nobody else's."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.local.postgres import EmbeddedPostgres, EmbeddedPostgresError

STRANGER = 65534


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    """A cluster whose path is too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="eds-socket-") as folder:
        Path(folder).chmod(0o711)
        server = EmbeddedPostgres(Path(folder) / ("x" * 90) / "postgres")
        assert server.socket_dir.parent == Path(tempfile.gettempdir())
        try:
            yield server
        finally:
            _remove(server.socket_dir)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        path.rmdir()


def open_to_everybody(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def link(path: Path) -> None:
    target = path.with_name(path.name + "-target")
    target.mkdir(mode=0o700, exist_ok=True)
    path.symlink_to(target)


def strangers(path: Path) -> None:
    path.mkdir(mode=0o700)
    os.chown(path, STRANGER, STRANGER)


def file(path: Path) -> None:
    path.touch(mode=0o600)


# Only root may give a folder away.
FOREIGN = [open_to_everybody, link, file, *([strangers] if os.geteuid() == 0 else [])]


@pytest.mark.parametrize("make_folder", FOREIGN)
def test_a_folder_of_another_user_is_refused_and_unchanged(
    server: EmbeddedPostgres, make_folder: Callable[[Path], None]
) -> None:
    make_folder(server.socket_dir)
    before = server.socket_dir.stat()
    try:
        with pytest.raises(EmbeddedPostgresError, match="another user of this machine may control"):
            server.initialise()
        with pytest.raises(EmbeddedPostgresError, match="another user of this machine may control"):
            server.accepts_connections()
        after = server.socket_dir.stat()
        assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)
    finally:
        _remove(server.socket_dir.with_name(server.socket_dir.name + "-target"))


def test_the_folder_is_private_and_reusable(server: EmbeddedPostgres) -> None:
    for _ in range(2):
        server.initialise()
        status = server.socket_dir.lstat()
        assert stat.S_IMODE(status.st_mode) == 0o700
        assert status.st_uid == server.folder.stat().st_uid
