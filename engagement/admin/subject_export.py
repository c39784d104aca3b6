"""A list of users or accounts as a CSV file, sent row by row while it is read."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.http import StreamingHttpResponse

# Read from the database at a time, through a cursor that the database keeps.
ROWS_PER_FETCH = 2000
# A spreadsheet takes a cell that begins with one of these for a formula. Some read the full-width
# signs as the others, and some look past white space.
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


class _Echo:
    """A file for the CSV writer that hands each line back."""

    def write(self, line: str) -> str:
        return line


def csv_response(
    name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]
) -> StreamingHttpResponse:
    """The rows as a download of the name."""
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
    """The value as a text that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text
