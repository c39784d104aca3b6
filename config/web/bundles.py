"""The style sheets and scripts that every page of the admin needs, as one file each.

Each small file would cost a request. WhiteNoise and collectstatic find the two like other files.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.contrib.staticfiles import finders
from django.core.files.storage import FileSystemStorage

BUNDLES = {
    "config/pages.css": (
        *("config/admin.css", "config/forms.css", "config/navigation.css", "config/lists.css"),
        *("engagement/charts.css", "config/search.css"),
    ),
    "config/pages.js": (
        *("config/menus.js", "engagement/charts.js", "config/zone.js", "config/regions.js"),
        *("config/search.js", "config/forms.js"),
    ),
}


class BundleFinder(finders.BaseFinder):
    """Writes the bundles to a folder of the process."""

    def __init__(self, app_names: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._folder = TemporaryDirectory(prefix="eds-static-")
        self._storage = FileSystemStorage(self._folder.name)

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path not in BUNDLES:
            return []
        file = str(self._write(path))
        return [file] if find_all else file

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Any]]:
        for name in BUNDLES:
            self._write(name)
            yield name, self._storage

    def _write(self, name: str) -> Path:
        parts = [Path(str(finders.find(part))).read_text() for part in BUNDLES[name]]
        file = Path(self._storage.path(name))
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(parts))
        return file
