"""docs/scaling.md names the tables that the database's catalog cannot distribute by product."""

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
# To distribute a table, Citus needs product_id in each of its unique keys.
_WITHOUT_PRODUCT: LiteralString = """
    SELECT DISTINCT t.relname
    FROM pg_index i
    JOIN pg_class t ON t.oid = i.indrelid
    WHERE i.indisunique AND NOT t.relispartition AND t.relnamespace = 'public'::regnamespace
      AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = t.oid
                      AND a.attname = 'product_id' AND a.attnum = ANY (i.indkey))
"""


def tables_in_the_document() -> set[str]:
    text = (settings.BASE_DIR / "docs" / "scaling.md").read_text()
    section = text.split("## Citus", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return set(TABLE.findall(" ".join(rows)))


@pytest.mark.django_db
def test_the_document_names_the_tables_with_a_key_without_the_product() -> None:
    ours = {name for (name,) in sql.fetch(_WITHOUT_PRODUCT) if TABLE.fullmatch(name)}
    assert tables_in_the_document() == ours


@pytest.mark.django_db
def test_the_large_tables_have_the_product_in_every_key() -> None:
    tables = set(connection.introspection.table_names())
    assert tables >= LARGE
    assert not LARGE & tables_in_the_document()
