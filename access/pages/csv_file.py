"""CSV exports of users and accounts, streamed row by row."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from unicodedata import category, normalize

from django.http import StreamingHttpResponse

# A spreadsheet treats a cell that starts with one of these as a formula. Some programs accept other
# forms of the signs, too, and some skip what is blank or invisible before them.
FORMULA_SIGNS = frozenset("=+-@\N{MINUS SIGN}")
# Some programs begin a new cell here.
_BREAKS = ("\t", "\r", "\n")
# Separators, controls, formats such as a byte order mark, and marks without a base.
_BLANK_CATEGORIES = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf", "Mn", "Me"))
# Letters and a symbol that show nothing: Hangul fillers, and the empty Braille pattern.
_BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800")


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
    yield write([csv_cell(name) for name in header])
    for row in rows:
        yield write([csv_cell(value) for value in row])


def csv_cell(value: object) -> str:
    """The value as text that no spreadsheet treats as a formula."""
    if isinstance(value, int | float):
        return str(value)
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_BREAKS) or _may_be_formula(text) else text


def _may_be_formula(text: str) -> bool:
    for char in text:
        if char not in _BLANKS and category(char) not in _BLANK_CATEGORIES:
            # As wide, small, or raised signs become the usual ones.
            return normalize("NFKC", char)[:1] in FORMULA_SIGNS
    return False
