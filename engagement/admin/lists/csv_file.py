"""CSV exports of users and accounts, streamed row by row."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.http import StreamingHttpResponse

# A spreadsheet treats a cell that starts with one of these as a formula. Some programs accept the
# full-width signs, too, and some skip leading whitespace.
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


class _Echo:
    """A file for the CSV writer that returns each line."""

    def write(self, line: str) -> str:
        return line


def csv_response(
    name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]
) -> StreamingHttpResponse:
    """A download of the rows, as ``<name>.csv``."""
    return StreamingHttpResponse(
        _lines(header, rows),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )


def _lines(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    write = csv.writer(_Echo()).writerow
    yield write(header)
    for row in rows:
        yield write([csv_cell(value) for value in row])


def csv_cell(value: object) -> str:
    """The value as text that no spreadsheet treats as a formula."""
    if isinstance(value, int | float):
        return str(value)
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text
