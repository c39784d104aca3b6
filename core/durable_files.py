"""Files that a power cut leaves whole or not at all: their content and their names are on disk when
a function returns."""

import os
import secrets
from pathlib import Path


def create(path: Path, content: str) -> bool:
    """Create the file, readable by its owner only, unless there is one. Returns whether it did.

    Of several processes at a time one creates it, and nobody ever sees a part of it. Raises
    OSError.
    """
    temporary = _write_beside(path, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    sync_folder(path.parent)
    return True


def replace(path: Path, content: str) -> None:
    """Write the file, readable by its owner only, in place of the one that may be there. Raises
    OSError."""
    _write_beside(path, content).rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in the folder durable: creations, renames, and removals."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_beside(path: Path, content: str) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    return temporary
