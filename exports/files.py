"""Files of an export: parts of a table as compressed CSV or as Parquet, made in memory.

A part is limited in rows and bytes, so memory is bounded however large the table is.
"""

import csv
import gzip
import io
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from exports.models import ScheduledExport
from exports.tables import Column, Row, format_value

# A part ends after the chunk that reaches one of these. Bytes are those of texts.
MAX_ROWS = 100_000
MAX_BYTES = 32 * 1024 * 1024
# A part's file is the same each time that it is written from the same rows.
_NO_TIME = 0


class FormatMissing(Exception):
    """The server cannot write this format. The text says what to install."""


class PartWriter(Protocol):
    def add(self, rows: Sequence[Row]) -> None: ...

    def finish(self) -> bytes:
        """The file."""
        ...


def has_parquet() -> bool:
    return find_spec("pyarrow") is not None


def suffix(file_format: str) -> str:
    return ".parquet" if file_format == ScheduledExport.Format.PARQUET else ".csv.gz"


def open_part(file_format: str, columns: Sequence[Column]) -> PartWriter:
    if file_format == ScheduledExport.Format.CSV:
        return CsvPart(columns)
    if not has_parquet():
        raise FormatMissing(
            "Parquet needs the package pyarrow. Ask the operator to install "
            "requirements-parquet.txt, or choose CSV."
        )
    return ParquetPart(columns)


def text_bytes(rows: Sequence[Row]) -> int:
    """About how long the texts of the rows are."""
    return sum(len(value) for row in rows for value in row if isinstance(value, str))


class CsvPart:
    """RFC 4180 in UTF-8 with a line of names, compressed."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._buffer = io.BytesIO()
        self._gzip = gzip.GzipFile(fileobj=self._buffer, mode="wb", mtime=_NO_TIME)
        self._text = io.TextIOWrapper(self._gzip, "utf-8", newline="")
        self._writer = csv.writer(self._text)
        self._writer.writerow([column.name for column in columns])

    def add(self, rows: Sequence[Row]) -> None:
        self._writer.writerows([format_value(value) for value in row] for row in rows)

    def finish(self) -> bytes:
        self._text.close()
        return self._buffer.getvalue()


class ParquetPart:
    """One row group for each chunk."""

    def __init__(self, columns: Sequence[Column]) -> None:
        # An optional package.
        import pyarrow
        from pyarrow import parquet

        types: dict[str, Any] = {
            "integer": pyarrow.int64(),
            "number": pyarrow.float64(),
            "text": pyarrow.string(),
            "json": pyarrow.string(),
            "boolean": pyarrow.bool_(),
            "time": pyarrow.timestamp("us", tz="UTC"),
            "day": pyarrow.date32(),
        }
        self._arrow = pyarrow
        self._schema = pyarrow.schema([(column.name, types[column.type]) for column in columns])
        self._buffer = io.BytesIO()
        self._writer = parquet.ParquetWriter(self._buffer, self._schema, compression="zstd")

    def add(self, rows: Sequence[Row]) -> None:
        columns = list(zip(*rows, strict=True)) or [()] * len(self._schema)
        arrays = [
            self._arrow.array(values, field.type)
            for values, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))

    def finish(self) -> bytes:
        self._writer.close()
        return self._buffer.getvalue()
