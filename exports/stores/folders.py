"""Files in a folder of the server, below the one that the operator has set."""

import os
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from core import durable_files
from exports.stores.errors import StoreError


def is_offered() -> bool:
    return bool(settings.EXPORT_FOLDER)


class FolderStore:
    """Each product has a folder of its own, so that none writes over the files of another one."""

    def __init__(self, product_id: int, folder: str) -> None:
        if not is_offered():
            raise StoreError(
                "The server has no folder for exports. Ask the operator to set EDS_EXPORT_FOLDER."
            )
        self._root = Path(settings.EXPORT_FOLDER)
        self._base = self._root / f"product-{product_id}" / folder

    def put(self, name: str, content: bytes, type: str = "") -> None:
        path = self._path(name)
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._require_below(path.parent)
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            durable_files.sync_folder(path.parent)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise _error("written to", error) from None

    def delete(self, name: str) -> None:
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise _error("cleaned up", error) from None

    def _path(self, name: str) -> Path:
        path = self._base / name
        self._require_below(path.parent)
        return path

    def _require_below(self, folder: Path) -> None:
        """A link in the folder may lead out of it."""
        if not folder.resolve().is_relative_to(self._root.resolve()):
            raise StoreError("The folder leads out of the one that the operator has set.")


def _error(verb: str, error: OSError) -> StoreError:
    return StoreError(f"The folder cannot be {verb}: {error.strerror or type(error).__name__}.")
