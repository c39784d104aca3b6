"""The order of users and accounts by any column: live in small sets, stored for large ones."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from engagement.models import CachedCounts, OrderChunk, ScoreSet, StoredOrder
from engagement.orders import columns, pages, storage
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import deletion, forgetting
from engagement.removal.jobs import DELETE_PRODUCT, ERASE_FORGOTTEN
from engagement.rescoring.jobs import DELETE_RETIRED
from engagement.scopes import ACCOUNTS, USERS, SubjectKind
from engagement.segments import counts
from tests.engagement.history import NOON
from tests.engagement.rows import account, ago, moved, user
from tests.jobs import pretend_duration, refresh_orders, run_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def customers(scores: ScoreSet) -> ScoreSet:
    """Four accounts whose orders by name, score, change, renewal, and plan all differ."""
    account(
        scores,
        "globex",
        raw=50,
        raw_last_period=400,
        raw_yesterday=100,
        active_users=9,
        last_active_at=ago(3),
        traits={"name": "Globex", "am.maintenanceEndDate": "2026-12-01", "seats": 9, "mrr": 99},
    )
    account(
        scores,
        "acme",
        raw=900,
        raw_yesterday_last_period=9,
        active_users=2,
        last_active_at=ago(1),
        traits={
            "name": "acme",
            "am.maintenanceEndDate": "2027-01-31",
            "seats": "30",
            "mrr": "100.5",
        },
    )
    account(scores, "initech", traits={"seats": "many", "mrr": "a lot"}, first_seen_at=ago(40))
    account(
        scores,
        "umbrella",
        raw=1,
        raw_yesterday=1,
        traits={"name": "Zeta", "am.maintenanceEndDate": "soon"},
    )
    return scores


def order(
    score_set: ScoreSet,
    column: str,
    kind: SubjectKind = ACCOUNTS,
    offset: int = 0,
    limit: int = 10,
    **more: Any,
) -> list[str]:
    """The external ids of a page."""
    fresh = ScoreSet.objects.get(pk=score_set.pk)
    name = column.removeprefix("-")
    more = {"descending": column.startswith("-"), "now": NOON, **more}
    page = pages.read_page(fresh, kind, name, offset=offset, limit=limit, **more)
    rows = kind.engagement_rows(fresh).filter(**{f"{kind.id_column}__in": page.ids})
    names = dict(rows.values_list(kind.id_column, f"{kind.path}external_id"))
    return [names[id] for id in page.ids if id in names]


def make_large(monkeypatch: pytest.MonkeyPatch, score_set: ScoreSet) -> None:
    """Have the set be too large to sort live, in chunks of two, and compute its orders at once."""
    pretend_duration(monkeypatch, 0.0)
    monkeypatch.setattr(storage, "MAX_LIVE_ROWS", 0)
    for module in (storage, pages):
        monkeypatch.setattr(module, "CHUNK_SIZE", 2)
    monkeypatch.setattr(pages, "MAX_INDEXED_ROWS", 0)
    counts.recount(score_set, NOON)
    refresh()


def refresh(minutes: float = 0) -> None:
    """Compute all orders that are due, unless a job rests."""
    refresh_orders(NOON + timedelta(minutes=minutes))


ORDERS = {
    "score": ["initech", "umbrella", "globex", "acme"],
    "change": ["globex", "initech", "umbrella", "acme"],
    "change_complete_days": ["acme", "initech", "umbrella", "globex"],
    "active_users": ["initech", "umbrella", "acme", "globex"],
    "name": ["acme", "globex", "initech", "umbrella"],
    "first_seen": ["initech", "globex", "acme", "umbrella"],
}
# Initech and Umbrella have no value, and their order is that of their ids.
PARTLY = {
    "last_active": ["globex", "acme"],
    "renewal": ["globex", "acme"],
    "mrr": ["globex", "acme"],
}


@pytest.mark.parametrize("is_large", [False, True])
def test_every_column_sorts_both_ways(
    customers: ScoreSet, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    if is_large:
        make_large(monkeypatch, customers)
    for column, names in ORDERS.items():
        assert order(customers, column) == names, column
        assert order(customers, f"-{column}") == names[::-1], column
        assert order(customers, column, offset=1, limit=2) == names[1:3], column
        assert order(customers, f"-{column}", offset=3, limit=2) == names[:1], column
    for column, names in PARTLY.items():
        assert order(customers, column) == [*names, "initech", "umbrella"], column
        backwards = [*names[::-1], "umbrella", "initech"]
        assert order(customers, f"-{column}") == backwards, column
        assert order(customers, f"-{column}", offset=1, limit=2) == backwards[1:3], column
    if is_large:
        order(customers, "trait:seats")
        refresh()
    assert order(customers, "trait:seats") == ["globex", "acme", "initech", "umbrella"]
    assert order(customers, "-trait:seats") == ["initech", "acme", "globex", "umbrella"]
    assert is_large == StoredOrder.objects.filter(version=1, column="trait:seats").exists()


@pytest.mark.parametrize("is_large", [False, True])
def test_new_accounts_are_last_by_change(
    customers: ScoreSet, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    """The lookback is seven days, and nobody has a full period before it to compare with."""
    moved(customers, "newest", 1000, 0, first_seen_at=ago(0))
    moved(customers, "new", 90, 1000, raw_last_period=1000, first_seen_at=ago(13))
    moved(customers, "old", 1, 0, first_seen_at=ago(14))
    moved(customers, "moved here", 1000, 0, created_at=ago(300), first_seen_at=ago(0))
    if is_large:
        make_large(monkeypatch, customers)
    for column in ("change", "change_complete_days"):
        assert order(customers, column)[-2:] == ["newest", "new"]
        assert order(customers, f"-{column}")[0] == "moved here"
        assert order(customers, f"-{column}")[-2:] == ["new", "newest"]
        assert order(customers, f"-{column}", offset=6) == ["new", "newest"]


def test_rows_of_the_release_before_are_last_by_the_change_over_complete_days(
    customers: ScoreSet,
) -> None:
    account(customers, "unknown", raw_yesterday_last_period=None)
    for column in ("change_complete_days", "-change_complete_days"):
        assert order(customers, column)[-1] == "unknown"
    user(customers, "new user", raw=1000, first_seen_at=ago(0))
    user(customers, "old user", raw=10)
    assert order(customers, "-change", USERS)[0] == "new user"


def test_users_are_sorted_by_their_accounts(customers: ScoreSet) -> None:
    accounts = {row.account.external_id: row.account for row in ACCOUNTS.engagement_rows(customers)}
    for name, place in [("ann", "umbrella"), ("bob", "acme"), ("cyd", None)]:
        person = user(customers, name).user
        person.account = accounts[place] if place else None
        person.save(update_fields=["account"])
    assert order(customers, "account", USERS) == ["bob", "ann", "cyd"]
    assert order(customers, "-account", USERS) == ["ann", "bob", "cyd"]


@pytest.mark.parametrize(
    "column", ["", "raw", "trait:", "account", "trait:a\0b", "trait:" + "x" * 600]
)
def test_an_unknown_column_is_refused(scores: ScoreSet, column: str) -> None:
    with pytest.raises(columns.UnknownColumn):
        order(scores, column)


def test_a_stored_order_says_of_when_it_is_and_a_walk_keeps_to_it(
    customers: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_large(monkeypatch, customers)
    first = pages.read_page(
        customers, ACCOUNTS, "name", descending=False, offset=0, limit=1, now=NOON
    )
    assert (first.as_of, first.row_count, first.version) == (NOON, 4, 1)
    account(customers, "aaa", traits={"name": "AAA"})
    counts.invalidate([customers.pk])
    counts.recount(customers, NOON + timedelta(minutes=3))
    refresh(minutes=5)
    assert order(customers, "name", limit=2) == ["aaa", "acme"]
    assert order(customers, "name", limit=2, offset=1, version=1) == ["globex", "initech"]
    # The version of a walk that takes too long is gone.
    assert order(customers, "name", limit=2, offset=1, version=99) == ["acme", "globex"]


def test_an_order_is_computed_again_only_after_changes_and_within_its_share_of_time(
    customers: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_large(monkeypatch, customers)
    pretend_duration(monkeypatch, 6.0)
    computed: list[str] = []

    def compute(each: StoredOrder, now: datetime) -> bool:
        computed.append(each.column)
        return bool(StoredOrder.objects.filter(pk=each.pk).update(computed_at=now))

    monkeypatch.setattr(storage, "try_compute", compute)
    order(customers, "name")
    refresh(minutes=60)
    assert computed == []
    counts.invalidate([customers.pk])
    refresh(minutes=61)
    # One computation of six seconds in two minutes; used orders go first.
    assert computed == ["name"]
    refresh(minutes=62)
    assert computed == ["name"]
    refresh(minutes=63)
    assert computed == ["name", "name"]
    # Somebody waits for this one.
    order(customers, "trait:plan")
    refresh(minutes=64)
    assert computed == ["name", "name", "trait:plan"]
    # The others are not used, and computed once a day.
    for minute in range(0, 40, 2):
        refresh(minutes=25 * 60 + minute)
    assert computed[3:5] == ["name", "trait:plan"]
    assert set(computed[5:]) >= set(columns.standard_columns("account")) - {"name"}


def test_an_order_that_takes_too_long_is_told(
    customers: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "MAX_LIVE_ROWS", 0)
    counts.recount(customers, NOON)
    assert order(customers, "trait:seats")[0] == "globex"
    monkeypatch.setattr(pages, "LIVE_TIMEOUT_SECONDS", 0.001)
    monkeypatch.setattr(pages, "sorted_rows", lambda *_, **__: customers.pk and _Endless(customers))
    with pytest.raises(pages.OrderNotReady):
        order(customers, "trait:seats")


class _Endless:
    """Rows that take longer than the limit."""

    def __init__(self, score_set: ScoreSet) -> None:
        self.rows = ACCOUNTS.engagement_rows(score_set).extra(select={"s": "pg_sleep(1)::text"})

    def values_list(self, *names: str, **_: Any) -> Any:
        return self.rows.values_list("s")


def test_orders_of_traits_are_few_and_end_with_their_use(
    customers: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_large(monkeypatch, customers)
    monkeypatch.setattr(storage, "MAX_TRAIT_ORDERS", 1)
    order(customers, "trait:seats")
    assert order(customers, "trait:plan") == ["globex", "acme", "initech", "umbrella"]
    traits = StoredOrder.objects.filter(column__startswith="trait:")
    assert [each.column for each in traits] == ["trait:seats"]
    refresh(minutes=8 * 24 * 60)
    assert not traits.all().exists()
    assert set(OrderChunk.objects.values_list("order_id", flat=True)) == set(
        StoredOrder.objects.values_list("pk", flat=True)
    )


def test_a_forgotten_subject_leaves_no_id_in_any_order(
    customers: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_large(monkeypatch, customers)
    subject = SubjectRef(customers.product_id, SubjectScope.ACCOUNT, "globex")
    row = ACCOUNTS.engagement_rows(customers).get(account__external_id="globex")
    forgetting.forget(subject, NOON)
    assert order(customers, "name") == ["acme", "initech", "umbrella"]
    run_job(ERASE_FORGOTTEN, NOON)
    assert not OrderChunk.objects.filter(ids__contains=[row.account_id]).exists()
    # The page is shorter. The others keep their places.
    assert order(customers, "name", offset=1, limit=2) == ["initech"]


def test_orders_are_deleted_with_their_set_and_product(
    customers: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_large(monkeypatch, customers)
    assert OrderChunk.objects.exists()
    customers.workspace.scores = None
    customers.workspace.save()
    ScoreSet.objects.update(state=ScoreSet.State.RETIRED, retired_at=None)
    run_job(DELETE_RETIRED, NOON)
    assert not (StoredOrder.objects.exists() or OrderChunk.objects.exists())


@pytest.mark.django_db(transaction=True)
def test_deleting_a_product_deletes_its_orders(
    customers: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_large(monkeypatch, customers)
    deletion.request_deletion(customers.product_id, NOON)
    run_job(DELETE_PRODUCT, NOON)
    assert not (StoredOrder.objects.exists() or OrderChunk.objects.exists())
    assert not CachedCounts.objects.exists()
