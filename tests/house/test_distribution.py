"""Which tables a Citus cluster distributes, and that one server notices nothing of it."""

from io import StringIO
from typing import LiteralString

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from config.database import distribution as placements
from config.database.distribution import TABLES, Kind
from core.database import distribution, sql
from engagement.models import Product, ScoredEvent
from tests.database import needs_citus

DISTRIBUTED = [table for table, placement in TABLES.items() if placement.kind is Kind.DISTRIBUTED]


def test_each_table_of_a_model_has_its_place_and_a_reason() -> None:
    models = apps.get_models(include_auto_created=True)
    tables = {model._meta.db_table for model in models if model._meta.managed}
    assert set(TABLES) == tables
    assert all(placement.reason for placement in TABLES.values())


# The unique keys other than the primary key, which distributing extends by the product.
_KEYS_WITHOUT_PRODUCT: LiteralString = """
    SELECT i.indexrelid::regclass::text FROM pg_index i
    WHERE i.indisunique AND NOT i.indisprimary AND i.indrelid = %(table)s::regclass
      AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = i.indrelid
                      AND a.attname = 'product_id' AND a.attnum = ANY (i.indkey))
"""


@pytest.mark.django_db
@pytest.mark.parametrize("table", DISTRIBUTED)
def test_a_distributed_table_has_the_product_in_its_keys(table: str) -> None:
    with connection.cursor() as cursor:
        columns = connection.introspection.get_table_description(cursor, table)
    assert "product_id" in {column.name for column in columns}
    assert sql.fetch(_KEYS_WITHOUT_PRODUCT, {"table": table}) == []


@pytest.mark.django_db
def test_the_condition_for_the_node_is_none_on_one_server(acme: Product) -> None:
    statement: LiteralString = f"""
        EXPLAIN SELECT FROM engagement_user u
        WHERE u.id = ANY(%(ids)b::bigint[]) AND {sql.on_node("u")}
    """
    if distribution.is_distributed():
        pytest.skip("This database is a cluster.")
    assert "product_id" not in str(sql.fetch(statement, {"product": acme.pk, "ids": [1]}))


@pytest.mark.django_db
def test_distributing_one_server_says_what_is_missing() -> None:
    if placements.has_extension():
        pytest.skip("This database has the extension.")
    with pytest.raises(CommandError, match="CREATE EXTENSION citus"):
        call_command("distribute", "--yes")


@needs_citus
@pytest.mark.django_db
def test_migrate_has_distributed_the_tables() -> None:
    assert distribution.is_distributed()
    assert placements.remaining_steps() == []
    output = StringIO()
    call_command("distribute", "--yes", stdout=output)
    assert output.getvalue() == "All tables are where they belong.\n"


@needs_citus
@pytest.mark.django_db
def test_distributing_says_what_it_will_do_and_continues_after_an_interruption(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["notifications_watchedmember", "engagement_scoredevent"]
    scored = ScoredEvent.objects.create(score_set_id=1, event_name_id=1, weight=5)
    with connection.cursor() as cursor:
        for name in names:
            cursor.execute("SELECT undistribute_table(%s)", [name])
    steps = placements.remaining_steps()
    assert [step.table for step in steps] == names
    monkeypatch.setattr("builtins.input", lambda _: "no")
    output = StringIO()
    with pytest.raises(CommandError, match="nothing was changed"):
        call_command("distribute", stdout=output)
    assert output.getvalue().splitlines() == list(placements.describe(steps))
    place = placements._execute_placing

    def interrupted(function: LiteralString, table: str) -> None:
        if table == names[1]:
            raise KeyboardInterrupt
        place(function, table)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(placements, "_execute_placing", interrupted)
        call_command("distribute", "--yes")
    assert [step.table for step in placements.remaining_steps()] == names[1:]
    output = StringIO()
    call_command("distribute", "--yes", stdout=output)
    assert "engagement_scoredevent: … reference after" in output.getvalue()
    assert placements.remaining_steps() == []
    assert ScoredEvent.objects.get() == scored
