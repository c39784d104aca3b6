"""``/metrics`` says which connections fail, since when, and what to do."""

from datetime import timedelta
from typing import Any

import pytest

from engagement.models import Product
from harness.marketplace.faults import Endpoint, ErrorStatus
from harness.marketplace.server import Simulator
from marketplace.models import Connection, SyncRun
from marketplace.status import prometheus
from tests.admin.rows import a_connection
from tests.marketplace.connections import DAY, HOUR, NOON, Kind, State, sync_now, work

pytestmark = pytest.mark.django_db


def samples(name: str) -> dict[tuple[str, ...], float]:
    """The metric's values by the values of its labels."""
    (metric,) = [metric for metric in prometheus.collect_metrics(NOON) if metric.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in metric.samples}


def states() -> dict[str, int]:
    return {state: int(count) for (state,), count in samples("eds_license_connections").items()}


def problems() -> dict[str, str]:
    """The sentences by level."""
    return {level: sentence for _, _, level, sentence in samples("eds_license_problem")}


def test_a_connection_that_fails_with_403_counts_as_failing(
    simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    assert states() == {"active": 1, "failing": 0, "requires_authentication": 0, "disconnected": 0}
    assert problems() == {}
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=403))
    sync_now(connection, NOON + HOUR)
    assert states() == {"active": 0, "failing": 1, "requires_authentication": 0, "disconnected": 0}
    assert "The last sync failed." in problems()["warning"]
    assert "Ask for this permission" in problems()["warning"], "what to do"
    simulator.clear_faults()
    sync_now(connection, NOON + 2 * HOUR)
    assert (states()["active"], problems()) == (1, {})


def test_a_rejected_token_is_its_own_state(simulator: Simulator, connection: Connection) -> None:
    simulator.expire_token()
    work(connection)
    assert states()["requires_authentication"] == 1
    assert "Create a new API token without scopes" in problems()["bad"]


def test_the_last_success_of_each_connection(acme: Product, globex: Product) -> None:
    first = a_connection(acme, last_success_at=NOON - DAY)
    second = a_connection(globex, last_success_at=None)
    a_connection(Product.create_with_workspace("Old"), state=State.DISCONNECTED, api_token=None)
    assert samples("eds_license_last_success_timestamp_seconds") == {
        (str(first.pk), "Acme"): (NOON - DAY).timestamp(),
        (str(second.pk), "Globex"): second.created_at.timestamp(),
    }


def test_a_token_that_ends_soon_is_a_problem(acme: Product) -> None:
    connection = a_connection(acme, token_expires_on=(NOON + 6 * DAY).date())
    midnight = NOON.replace(hour=0) + 6 * DAY
    assert samples("eds_license_token_expires_timestamp_seconds") == {
        (str(connection.pk), "Acme"): midnight.timestamp()
    }
    assert problems()["bad"].startswith("The API token expires in 6 days")


def test_a_full_sync_that_failed_is_a_problem_while_changes_arrive(acme: Product) -> None:
    connection = a_connection(acme, last_success_at=NOON)
    SyncRun.objects.create(
        connection=connection,
        generation=1,
        kind=Kind.FULL,
        state=SyncRun.State.FAILED,
        requested_at=NOON,
        due_at=NOON,
        started_at=NOON,
        finished_at=NOON,
        error="Page 41 failed 6 times in a row.",
    )
    assert "The last full sync failed. Page 41" in problems()["warning"]


def test_the_number_of_samples_and_queries_is_bounded(
    acme: Product, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    monkeypatch.setattr(prometheus, "MAX_CONNECTIONS", 3)
    for number in range(6):
        product = Product.create_with_workspace(f"P{number}")
        a_connection(
            product,
            last_success_at=NOON - timedelta(days=number),
            last_error_at=NOON,
            last_error="No.",
        )
    with django_assert_max_num_queries(7):
        problem_samples = samples("eds_license_problem")
    assert [product for _, product, _, _ in problem_samples] == ["P5", "P4", "P3"], (
        "the oldest successes"
    )
    assert states()["failing"] == 5
