"""Writes a product as lines that ``import_messages`` reads back to the same state.

docs/bulk-data.md describes the lines for people.
"""

from collections.abc import Iterator

import msgspec

from engagement import export
from ingestion.doors import lines

_encode = msgspec.json.Encoder().encode


def export_lines(product_id: int) -> Iterator[bytes]:
    """The product's lines, each with its newline."""
    for statement, source in export.stream_statements(product_id):
        yield _encode(lines.as_line(statement, source)) + b"\n"
