"""What docs/scaling.md says about distributing by product is what the database's catalogue says."""

import re
from typing import LiteralString

import pytest
from django.conf import settings
from django.db import connection

from engagement.database import sql

APPS = ("engagement", "ingestion", "readapi", "marketplace")
TABLE = re.compile(rf"\b(?:{'|'.join(APPS)})_[a-z]+\b")

LARGE = {
    f"engagement_{name}"
    for name in (
        *("user", "account", "membership", "event", "dailycount"),
        *("userengagement", "accountengagement"),
    )
}
# Distributed by Citus, a table needs product_id in each of its unique keys.
_WITHOUT_PRODUCT: LiteralString = """
    SELECT DISTINCT t.relname
    FROM pg_index i
    JOIN pg_class t ON t.oid = i.indrelid
    WHERE i.indisunique AND NOT t.relispartition AND t.relnamespace = 'public'::regnamespace
      AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = t.oid
                      AND a.attname = 'product_id' AND a.attnum = ANY (i.indkey))
"""


def named_in_the_table() -> set[str]:
    text = (settings.BASE_DIR / "docs" / "scaling.md").read_text()
    section = text.split("## Citus", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return set(TABLE.findall(" ".join(rows)))


@pytest.mark.django_db
def test_the_tables_with_a_key_that_lacks_the_product_are_named() -> None:
    ours = {name for (name,) in sql.fetch(_WITHOUT_PRODUCT) if TABLE.fullmatch(name)}
    assert named_in_the_table() == ours


@pytest.mark.django_db
def test_the_large_tables_are_not_among_them() -> None:
    tables = set(connection.introspection.table_names())
    assert tables >= LARGE
    assert not LARGE & named_in_the_table()
