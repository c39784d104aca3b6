"""A deleted product leaves no row in any table, and other products keep theirs."""

from collections import Counter
from functools import partial
from itertools import pairwise
from typing import LiteralString

import pytest
from django.db import connection
from django.test import Client

from core.database import sql
from core.jobs import run
from engagement import tasks
from engagement.models import EventName, Product, RescoreRequest
from engagement.removal import deletion
from engagement.removal.jobs import DELETE_PRODUCT
from engagement.rescoring.rescore import rescore
from ingestion.models import DroppedMessage, IngestionKey
from readapi.models import ApiToken
from tests.admin.rows import Rows, fill
from tests.engagement.history import NOON, alias, group, identify, state, tell, track
from tests.jobs import run_job, step_job
from tests.pipeline.waiting import (
    Eventually,
    at_once,
    counts,
    drain,
    dropped,
    somebody_else,
    until_somebody_waits_for_a_lock,
    wait,
)

pytestmark = pytest.mark.django_db

_PRODUCT_COLUMNS: LiteralString = """
    SELECT c.table_name FROM information_schema.columns c
    JOIN information_schema.tables t USING (table_schema, table_name)
    WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'
      AND c.column_name = 'product_id'
"""


def rows_of(product_id: int) -> dict[str, int]:
    """The number of the product's rows in each table that has any."""
    counts: Counter[str] = Counter()
    with connection.cursor() as cursor:
        for (table,) in sql.fetch(_PRODUCT_COLUMNS):
            cursor.execute(f'SELECT count(*) FROM "{table}" WHERE product_id = %s', [product_id])
            counts[table] = cursor.fetchone()[0]
    return {table: count for table, count in counts.items() if count}


def add_to(rows: Rows) -> None:
    """Add rows of the product to every table that has a column for it."""
    product = rows.product
    wait(rows.key.secret, identify("ada", group="initech", plan="pro"), track("ada"))
    wait(rows.key.secret, track("bob", group="initech"))
    drain()
    tell(product, group("hooli"), *[track(f"user {place}") for place in range(20)])
    tell(product, alias("user 1", "user 2"))


def delete(product: Product) -> int:
    deletion.request_deletion(product.pk, NOON)
    counts = [0]
    run.finish(DELETE_PRODUCT, product.pk, lambda: NOON, lambda more: counts.append(more.progress))
    return counts[-1]


def test_no_table_has_rows_left(acme: Product, globex: Product) -> None:
    for rows in (fill(acme, 1), fill(globex, 2)):
        add_to(rows)
    rescore(NOON)
    for product in (acme, globex):
        # An hour later, because the inbox and these tests number arrivals independently.
        tell(product, track("ada", hours=1))
    before, elsewhere = rows_of(acme.pk), rows_of(globex.pk)
    assert before.keys() == elsewhere.keys()
    # This test covers every large table.
    assert before.keys() >= {
        "engagement_account",
        "engagement_accountengagement",
        "engagement_alias",
        "engagement_dailycount",
        "engagement_event",
        "engagement_eventname",
        "engagement_membership",
        "engagement_scoreset",
        "engagement_stalemark",
        "engagement_user",
        "engagement_userengagement",
        "engagement_workspace",
        "ingestion_droppedmessage",
        "ingestion_hourcount",
        "ingestion_ingestionkey",
        "ingestion_quarantinedmessage",
        "readapi_apitoken",
    }
    assert delete(acme) > sum(before.values())
    assert rows_of(acme.pk) == {}
    assert not Product.objects.filter(pk=acme.pk).exists()
    assert rows_of(globex.pk) == elsewhere


def test_each_transaction_deletes_a_bounded_number_of_rows(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "ROWS_PER_TRANSACTION", 10)
    monkeypatch.setattr(deletion, "NAMES_PER_TRANSACTION", 3)
    tell(acme, *[track(f"user {place}", f"event {place % 9}") for place in range(40)])
    counts = [0]
    deletion.request_deletion(acme.pk, NOON)
    assert run.finish(
        DELETE_PRODUCT, acme.pk, lambda: NOON, lambda more: counts.append(more.progress)
    )
    rows = [after - before for before, after in pairwise(counts)]
    # The last transaction deletes the product with its workspace.
    assert max(rows[:-1]) <= 10
    assert sum(rows) > 130
    assert not EventName.objects.exists()


def test_an_interrupted_deletion_resumes(acme: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "ROWS_PER_TRANSACTION", 10)
    tell(acme, *[track(f"user {place}") for place in range(40)])
    deletion.request_deletion(acme.pk, NOON)
    for _ in range(2):
        assert step_job(DELETE_PRODUCT, NOON)
    acme.refresh_from_db()
    assert acme.deleted_rows == 20
    tasks.clear()
    assert rows_of(acme.pk) == {}


def test_a_product_without_a_request_is_not_deleted(acme: Product) -> None:
    assert run.finish(DELETE_PRODUCT, acme.pk, lambda: NOON)
    assert run_job(DELETE_PRODUCT, NOON) == 0
    assert Product.objects.filter(pk=acme.pk).exists()


def test_a_deletion_can_be_requested_twice(acme: Product) -> None:
    assert deletion.request_deletion(acme.pk, NOON)
    assert not deletion.request_deletion(acme.pk, NOON)
    assert not deletion.request_deletion(0, NOON)


# --- While it is being deleted --------------------------------------------------------------


def test_the_request_revokes_its_keys(acme: Product, acme_key: str) -> None:
    (early,) = wait(acme_key, track("ada"))
    deletion.request_deletion(acme.pk, NOON)
    (late,) = wait(acme_key, identify("ada", secret="planted"))
    drain()
    assert dropped() == [(early, "deleted_product"), (late, "deleted_product")]
    for message in DroppedMessage.objects.all():
        assert (message.product, message.user_external_id) == (None, "")
    assert not counts(acme)


def test_the_request_revokes_its_tokens(
    acme: Product, acme_token: str, globex_token: str, client: Client
) -> None:
    def status(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return client.get("/v2/workspaces", headers=headers).status_code

    assert (status(acme_token), status(globex_token)) == (200, 200)
    deletion.request_deletion(acme.pk, NOON)
    assert (status(acme_token), status(globex_token)) == (401, 200)


def test_a_key_created_during_the_deletion_records_nothing(acme: Product) -> None:
    deletion.request_deletion(acme.pk, NOON)
    wait(IngestionKey.create(acme, "late").secret, track("ada"))
    drain()
    assert [reason for _, reason in dropped()] == ["deleted_product"]


def test_messages_that_wait_with_its_keys_are_deleted(acme: Product, acme_key: str) -> None:
    wait(acme_key, *[track("ada")] * 3)
    (of_nobody,) = wait("edk_of_nobody", track("ada"))
    delete(acme)
    drain()
    assert dropped() == [(of_nobody, "unknown_key")]


@pytest.mark.django_db(transaction=True)
def test_deletion_waits_for_a_batch_that_is_under_way(acme: Product) -> None:
    with somebody_else() as other, other.transaction():
        other.execute("SELECT FROM engagement_product WHERE id = %s FOR KEY SHARE", [acme.pk])
        other.execute(
            "INSERT INTO engagement_stalemark (product_id, user_id) VALUES (%s, 1)", [acme.pk]
        )
        deleted = Eventually(partial(delete, acme))
        until_somebody_waits_for_a_lock()
    assert deleted.result()
    assert not RescoreRequest.objects.exists()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_concurrent_drains_scoring_and_deletions_leave_nothing(
    acme: Product, acme_key: str, globex: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "ROWS_PER_TRANSACTION", 50)
    globex_key = IngestionKey.create(globex, "test").secret
    for number in range(300):
        wait(acme_key, identify(f"user {number % 9}", number / 100, f"account {number % 4}"))
        wait(acme_key, track(f"user {number % 9}", hours=number / 100))
        wait(globex_key, track(f"user {number % 9}"))
    deletions = [partial(delete, acme)] * 2
    at_once(*[partial(drain, batch_size=40)] * 2, partial(rescore, NOON), *deletions)
    drain()
    rescore(NOON)
    run_job(DELETE_PRODUCT, NOON)
    assert rows_of(acme.pk) == {}
    assert sum(counts(globex).values()) == 300
    assert {reason for _, reason in dropped()} <= {"deleted_product", "unknown_key"}


def test_another_product_keeps_everything(acme: Product, globex: Product) -> None:
    for product in (acme, globex):
        tell(product, identify("ada", group="initech", plan="pro"), track("ada"))
    before = state(globex)
    ApiToken.create(globex, "test")
    delete(acme)
    assert state(globex) == before
    assert ApiToken.objects.get().revoked_at is None
