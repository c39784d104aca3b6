"""docs/scaling.md names the tables that a cluster distributes, and those that each node has."""

import re

import pytest
from django.conf import settings

from config.distribution import TABLES, Kind

TABLE = re.compile(r"`([a-z]+_[a-z]+)`")


def tables_in_the_document(kind: Kind) -> set[str]:
    text = (settings.BASE_DIR / "docs" / "scaling.md").read_text()
    section = text.split("## Citus", 1)[1].split("\n## ", 1)[0]
    (row,) = [
        line for line in section.splitlines() if line.startswith((f"| {kind} ", f"| {kind}: "))
    ]
    return set(TABLE.findall(row.split("|")[2]))


@pytest.mark.parametrize("kind", [Kind.DISTRIBUTED, Kind.REFERENCE])
def test_the_document_names_the_tables(kind: Kind) -> None:
    placed = {table for table, placement in TABLES.items() if placement.kind is kind}
    assert tables_in_the_document(kind) == placed
