"""A worker that is killed in the middle of scoring's background work changes no result."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import Error, connection

from core.database import sql
from core.models import Job
from engagement.models import (
    Account,
    AccountEngagement,
    CachedCounts,
    DailyBenchmark,
    OrderChunk,
    Product,
    ScoreSet,
    StoredOrder,
    User,
    UserEngagement,
)
from engagement.orders import storage
from engagement.rescoring import jobs, ranges, sets
from engagement.rescoring.rescore import rescore
from engagement.scopes import ACCOUNTS
from engagement.scores import benchmarks, past_benchmarks
from engagement.segments import members
from tests.engagement.history import NOON, identify, tell, track

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)
# Any lease has ended, and the wait after a crash.
RESUMED = (NOON + 10 * MINUTE, NOON + 11 * MINUTE, NOON + 12 * MINUTE)
NUMBERS = ("raw", "raw_yesterday", "raw_last_period", "event_count", "active_days")
OF_SET = ("user_benchmark", "account_benchmark", "user_quantiles", "account_quantiles")
COMPARED = ("user_benchmark_yesterday", "account_benchmark_last_period", "scored_event_name_count")


def fill(product: Product) -> None:
    """Three users in two accounts, with events of the last forty days."""
    for place, (name, account) in enumerate([("ann", "x"), ("bob", "y"), ("cyd", "y")], 1):
        tell(product, identify(name, -1000, group=account))
        tell(product, *(track(name, hours=-24 * day) for day in range(0, 40, place)))


def results(product: Product) -> dict[str, Any]:
    """All that people read of the product's scores."""
    score_set = ScoreSet.objects.get(product=product, state=ScoreSet.State.CURRENT)
    users = UserEngagement.objects.filter(score_set=score_set)
    accounts = AccountEngagement.objects.filter(score_set=score_set)
    benchmarks = DailyBenchmark.objects.filter(score_set=score_set).order_by("day")
    segments = CachedCounts.objects.get(score_set=score_set).members
    return {
        "users": sorted(users.values_list("user__external_id", *NUMBERS)),
        "accounts": sorted(accounts.values_list("account__external_id", *NUMBERS)),
        "set": [getattr(score_set, name) for name in OF_SET + COMPARED],
        "days": list(benchmarks.values_list("day", "users", "accounts")),
        "members": sorted(segments.values()),
        "orders": orders(product),
    }


def orders(product: Product) -> dict[tuple[str, str], list[str]]:
    """The external ids in each stored order, in its last version."""
    names: dict[str, dict[int, str]] = {
        "user": dict(User.objects.filter(product=product).values_list("id", "external_id")),
        "account": dict(Account.objects.filter(product=product).values_list("id", "external_id")),
    }
    external_ids = {}
    for order in StoredOrder.objects.filter(product_id=product.pk, version__gt=0):
        chunks = OrderChunk.objects.filter(order=order, version=order.version).order_by("number")
        ids = [id for chunk in chunks for id in chunk.ids]
        external_ids[order.scope, order.column] = [names[order.scope][id] for id in ids]
    return external_ids


def kill_after(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, calls: int) -> None:
    """Have the server lose its client after so many calls of the function."""
    original, remaining = getattr(module, name), iter(range(calls - 1))

    def call(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        if next(remaining, None) is None:
            assert connection.connection is not None
            connection.connection.close()
        return result

    monkeypatch.setattr(module, name, call)


def assert_a_kill_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Product], None],
    module: Any,
    name: str,
    calls: int = 1,
) -> None:
    """Compare a product whose worker is killed, in its first run after *prepare*, with another."""
    acme = Product.create_with_workspace("Acme")
    prepare(acme)
    with monkeypatch.context() as patch:
        kill_after(patch, module, name, calls)
        with pytest.raises(Error):
            rescore(NOON)
    connection.close()
    outcome = _work_off(acme)
    globex = Product.create_with_workspace("Globex")
    prepare(globex)
    rescore(NOON)
    assert outcome == _work_off(globex)


def _work_off(product: Product) -> dict[str, Any]:
    for now in RESUMED:
        rescore(now)
    return results(product)


@pytest.mark.parametrize("calls", [1, 2])
def test_building_a_set_resumes(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Dies in the step of users, and in that of accounts."""
    monkeypatch.setattr(ranges, "IDS_PER_RANGE", 1_000_000_000)
    assert_a_kill_changes_nothing(monkeypatch, fill, sets, "_build_range", calls)


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_computing_past_benchmarks_resumes(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Dies in the first step of thirty days, in the second, and in the last."""

    def come_late(product: Product) -> None:
        fill(product)
        rescore(NOON - MINUTE)
        tell(product, *(track("ann", hours=-24 * day) for day in (3, 35, 70) for _ in range(9)))

    assert_a_kill_changes_nothing(monkeypatch, come_late, past_benchmarks, "_compute_days", calls)


def test_comparing_with_past_benchmarks_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    def come_late(product: Product) -> None:
        fill(product)
        rescore(NOON - MINUTE)
        tell(product, *(track("ann", hours=-24 * 7) for _ in range(9)))

    assert_a_kill_changes_nothing(monkeypatch, come_late, past_benchmarks, "compare_with_past")


@pytest.mark.parametrize("name", ["_percentiles", "_set_comparison_benchmarks"])
def test_computing_benchmarks_resumes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Dies while it reads, and while it writes."""

    def go_on(product: Product) -> None:
        fill(product)
        rescore(NOON - MINUTE)
        tell(product, *(track("ann") for _ in range(9)))

    assert_a_kill_changes_nothing(monkeypatch, go_on, benchmarks, name)


def test_counting_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    def grow(product: Product) -> None:
        fill(product)
        rescore(NOON - MINUTE)
        tell(product, identify("dan", -1, group="z"), track("dan"))

    assert_a_kill_changes_nothing(monkeypatch, grow, members, "count_members_by_segment")


@pytest.mark.parametrize("is_awaited", [True, False])
@pytest.mark.parametrize(("module", "name"), [(storage, "_sorted_ids"), (sql, "copy")])
def test_computing_orders_resumes(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, is_awaited: bool
) -> None:
    """Dies after it sorted, and after it wrote half of an order, which somebody awaits or not."""
    monkeypatch.setattr(storage, "MAX_LIVE_ROWS", 0)
    columns = {"account": [] if is_awaited else ["total_users"], "user": []}
    monkeypatch.setattr(storage, "standard_columns", columns.get)

    def need_order(product: Product) -> None:
        fill(product)
        rescore(NOON - 3 * MINUTE)
        score_set = ScoreSet.objects.get(product=product, state=ScoreSet.State.CURRENT)
        if is_awaited:
            storage.request_order(score_set, ACCOUNTS, "total_users", NOON)
        else:
            # Due at once, whenever it last looked.
            Job.objects.filter(kind=jobs.ORDERS).delete()
            StoredOrder.objects.filter(score_set=score_set).delete()

    assert_a_kill_changes_nothing(monkeypatch, need_order, module, name)
    assert orders(Product.objects.get(name="Acme")) == {("account", "total_users"): ["x", "y"]}
