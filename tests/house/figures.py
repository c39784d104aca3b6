"""Prints modules, rooms, floors, arrows, and lines of each package of a checkout, for
docs/decisions/house.md: `python -m tests.house.figures [FOLDER]`."""

import sys
from pathlib import Path

from tests.house.test_imports import ALLOWED, ROOT, arrows, floors, imported_rooms, lines, sources


def main(root: Path) -> None:
    for package in ALLOWED:
        if files := sources(root / package):
            rooms = imported_rooms(package, root)
            rooms.pop("__init__", None)
            count = sum(map(lines, files))
            figures = (len(files), len(rooms), floors(rooms), arrows(rooms), count)
            print(package, *figures)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT)
