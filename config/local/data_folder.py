"""The data folder: one service at a time uses it, and no other user of the machine."""

import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management.base import CommandError

logger = logging.getLogger(__name__)

# Files in it that only the service may read.
SECRET_FILES = ("secrets.json", "credentials.json")


@contextmanager
def lock_data_dir(data_dir: Path) -> Iterator[None]:
    """Lock the data folder for this process. Raise CommandError if another one holds it.

    The lock ends with the process, however it ends.
    """
    path = data_dir / "up.lock"
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w")
    except OSError as error:
        raise CommandError(
            f"the data folder {data_dir} cannot be written ({error.strerror}); "
            "set EDS_DATA_DIR to a folder that can."
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(
                f"the service already runs on the data folder {data_dir}; "
                "stop it first, or set EDS_DATA_DIR to another folder."
            ) from None
        os.fchmod(file.fileno(), 0o600)
        restrict_permissions(data_dir)
        yield


def restrict_permissions(data_dir: Path) -> None:
    """Deny other users the data folder and its secrets, as far as we own them.

    A folder that is open to all on purpose, such as /tmp, stays as it is.
    """
    # Root's PostgreSQL runs as another user, whose group passes through the folder.
    _restrict_mode(data_dir, 0o710 if os.geteuid() == 0 else 0o700)
    for name in SECRET_FILES:
        _restrict_mode(data_dir / name, 0o600)


def _restrict_mode(path: Path, max_mode: int) -> None:
    """Remove permissions beyond *max_mode* from the path, and log it."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    mode = stat.S_IMODE(status.st_mode)
    is_ours = status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode)
    if mode & ~max_mode and is_ours and not mode & stat.S_ISVTX:
        path.chmod(mode & max_mode)
        logger.warning(
            "%s was open to other users of this machine (mode %04o); it is now closed to them.",
            path,
            mode,
        )
