"""Files of lines, and importing them."""

import gzip
import hashlib
import io
import json
from pathlib import Path
from typing import Any

from django.core.management import call_command

from engagement.models import Product
from ingestion.bulk import importing
from ingestion.bulk.files import LineReader
from ingestion.bulk.importing import Problem
from ingestion.models import ImportedFile
from tests.engagement.history import NOON


def json_lines(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def events(count: int, user: str = "ada", **more: Any) -> bytes:
    """So many different events of the user, one a second."""
    return json_lines(
        *(
            {
                "type": "track",
                "userId": user,
                "event": "opened",
                "timestamp": f"2026-09-01T10:{place // 60 % 60:02}:{place % 60:02}Z",
                **more,
            }
            for place in range(count)
        )
    )


def import_bytes(product: Product, content: bytes) -> list[Problem]:
    """Import the content as a file of its own; the lines that could not be used."""
    digest = hashlib.sha256(content).digest()
    start = importing.start_or_resume(product.pk, digest, "some file", NOON, again=False)
    return go_on(start, content)


def opened(content: bytes) -> Any:
    """A file that holds this, as ``open`` gives it."""
    return io.BufferedReader(io.BytesIO(content))


def go_on(imported: ImportedFile, content: bytes) -> list[Problem]:
    problems: list[Problem] = []
    source = LineReader(opened(content), imported.position, imported.lines)
    importing.run_import(imported, source, problems.extend, lambda: NOON)
    return problems


class Folder:
    """The current folder, and the command run in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, content: bytes) -> str:
        packed = gzip.compress(content) if name.endswith(".gz") else content
        (self.path / name).write_bytes(packed)
        return str(self.path / name)

    def text(self, name: str) -> str:
        return (self.path / name).read_text()

    def names(self) -> set[str]:
        return {path.name for path in self.path.iterdir()}

    def run(self, *arguments: object) -> str:
        output = io.StringIO()
        call_command(*map(str, arguments), stdout=output)
        return output.getvalue()
