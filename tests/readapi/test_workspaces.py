"""GET /v2/workspaces and /v2/workspaces/{id}."""

from datetime import UTC, timedelta
from typing import Any

from django.utils import timezone

from engagement.models import Account, Product, ScoreSet, User, Workspace
from engagement.rescoring.rescore import rescore
from engagement.scores.formula import UNITS_PER_POINT
from tests.engagement.alarms.rows import alarm, night
from tests.engagement.history import NOON, identify, tell, track
from tests.engagement.planted_nights import SILENT, a_fall, add_nights
from tests.engagement.rows import account as account_row
from tests.readapi.conftest import Reads
from tests.readapi.rows import SPRING, make_account, make_user, scores_of


def test_a_workspace_has_every_key(acme_reads: Reads, acme: Product, workspace: Workspace) -> None:
    ScoreSet.objects.update(user_benchmark=208.2)
    workspace.refresh_from_db()
    response = acme_reads(f"/v2/workspaces/{workspace.id}")
    assert response.headers["Content-Type"] == "application/json"
    root = "http://testserver/v2"
    assert response.json() == {
        "data": {
            "id": workspace.id,
            "name": "Default",
            "product": {"id": acme.id, "name": "Acme"},
            "lookback_days": 7,
            "half_life_days": None,
            "benchmarks": {"users": 208.2, "accounts": None},
            "updated_at": workspace.updated_at.isoformat().replace("+00:00", "Z"),
            "_links": {
                "self": f"{root}/workspaces/{workspace.id}",
                "users": f"{root}/users?workspace_id={workspace.id}",
                "accounts": f"{root}/accounts?workspace_id={workspace.id}",
                "segments": f"{root}/segments?workspace_id={workspace.id}",
            },
        },
        "_expansions": [],
    }


def test_a_benchmark_has_one_decimal(acme_reads: Reads, workspace: Workspace) -> None:
    for raw, rounded in ((11.899999999999999, 11.9), (499.9000000000002, 499.9), (7.0, 7.0)):
        ScoreSet.objects.update(user_benchmark=raw, account_benchmark=raw)
        benchmarks = acme_reads(f"/v2/workspaces/{workspace.id}").json()["data"]["benchmarks"]
        assert benchmarks == {"users": rounded, "accounts": rounded}


def test_one_decimal_of_a_benchmark_is_exact(acme_reads: Reads, acme: Product) -> None:
    for user in range(7):
        tell(acme, identify(f"u-{user}"), *(track(f"u-{user}") for _ in range(user * user + 1)))
    rescore(NOON)
    scores = ScoreSet.objects.get(state="current")
    assert scores.user_benchmark is not None
    [listed] = acme_reads("/v2/workspaces").json()["data"]
    # Of 1, 2, 5, 10, 17, 26 and 37, at 5.4 steps from the first.
    assert listed["benchmarks"]["users"] == 30.4 == round(scores.user_benchmark, 9)


def test_a_half_life_and_its_benchmarks_in_points_of_today(
    acme_reads: Reads, workspace: Workspace
) -> None:
    scores = workspace.scores
    assert scores is not None and scores.scored_day is not None
    scores.half_life_days, scores.lookback_days = 10, 30
    scores.reference_day = scores.scored_day - timedelta(days=20)
    # Two half-lives after the reference day, an event that counted 4 then counts 1.
    scores.user_benchmark = 4.0 * UNITS_PER_POINT
    scores.save()
    make_user(workspace, "busy", raw=8 * UNITS_PER_POINT)
    body = acme_reads(f"/v2/workspaces/{workspace.id}").json()["data"]
    assert (body["lookback_days"], body["half_life_days"]) == (30, 10)
    assert body["benchmarks"]["users"] == 1
    users = f"/v2/users?workspace_id={workspace.id}&expand=metrics"
    (user,) = acme_reads(users).json()["data"]
    assert (user["score"], user["metrics"]["raw_score"]) == (99.0, 2)


def test_the_list_contains_only_the_products_workspaces(
    acme_reads: Reads, acme: Product, workspace: Workspace, globex: Product
) -> None:
    second = Workspace.objects.create(product=acme, name="Monthly", lookback_days=30)
    body = acme_reads("/v2/workspaces").json()
    assert [row["id"] for row in body["data"]] == [workspace.id, second.id]
    assert body["pagination"] == {"limit": 20, "offset": 0, "has_more": False}
    assert body["_links"] == {"self": "http://testserver/v2/workspaces"}


def test_stats_count_all_and_active_subjects(
    acme_reads: Reads, acme: Product, workspace: Workspace
) -> None:
    make_user(workspace, "busy", raw=5)
    make_user(workspace, "idle")
    make_account(workspace, "initech", raw=5)
    User.objects.create(
        product=acme, external_id="stranger", first_seen_at=SPRING, last_seen_at=SPRING
    )
    Account.objects.create(
        product=acme, external_id="unnamed", first_seen_at=SPRING, last_seen_at=SPRING
    )
    expected = {"total_users": 2, "total_accounts": 1, "active_users": 1, "active_accounts": 1}

    single = acme_reads(f"/v2/workspaces/{workspace.id}", expand="stats").json()
    assert single["data"]["stats"] == expected
    assert single["_expansions"] == ["stats"]
    [listed] = acme_reads("/v2/workspaces", expand="stats").json()["data"]
    assert listed["stats"] == expected


def test_stats_of_an_empty_workspace_are_zero(acme_reads: Reads, workspace: Workspace) -> None:
    stats = acme_reads(f"/v2/workspaces/{workspace.id}", expand="stats").json()["data"]["stats"]
    assert set(stats.values()) == {0}


def test_the_activity_of_the_whole_product(
    acme_reads: Reads, acme: Product, workspace: Workspace
) -> None:
    young = Workspace.objects.create(product=acme, name="Young")
    yesterday = timezone.now().astimezone(UTC).date() - timedelta(days=1)
    add_nights(workspace, a_fall(20), yesterday)
    add_nights(young, SILENT, yesterday)
    first, second = acme_reads("/v2/workspaces", expand="product_activity").json()["data"]
    activity = first["product_activity"]
    assert (activity["state"], activity["decided_for"]) == ("falling", yesterday.isoformat())
    assert activity["observed"] < 0.8 * activity["expected"] and activity["p"] < 0.001
    assert second["product_activity"] is None
    assert "product_activity" not in acme_reads(f"/v2/workspaces/{workspace.id}").json()["data"]


def test_workspaces_are_paged(acme_reads: Reads, acme: Product, workspace: Workspace) -> None:
    for number in range(4):
        Workspace.objects.create(product=acme, name=f"No. {number}")
    ids = []
    address: str | None = "/v2/workspaces?limit=2"
    while address:
        body = acme_reads(address).json()
        ids += [row["id"] for row in body["data"]]
        address = body["_links"].get("next")
    assert ids == list(Workspace.objects.order_by("id").values_list("id", flat=True))


def test_a_workspace_says_how_many_of_its_alarms_came_to_nothing(
    acme_reads: Reads, workspace: Workspace
) -> None:
    def false_alarms() -> Any:
        address = f"/v2/workspaces/{workspace.pk}"
        return acme_reads(address, expand="false_alarms").json()["data"]["false_alarms"]

    nobody = {"measured": None, "came_to_nothing": 0, "alarms": 0}
    assert false_alarms() == {"allowed": 0.05, **nobody, "rising": nobody}
    today = timezone.now().date()
    since = today - timedelta(days=100)
    night(workspace, since, accounts=91 * 20)
    scores = scores_of(workspace)
    rows = [account_row(scores, name) for name in ("recovered", "late", "settled", "open")]
    recovered, late, settled, _ = rows
    for row in rows[3:]:
        alarm(row, since=since)
    alarm(recovered, since=since, outcome="recovered", ended_on=since + timedelta(days=84))
    alarm(late, since=since, outcome="recovered", ended_on=since + timedelta(days=85))
    alarm(settled, since=since, outcome="settled", ended_on=since + timedelta(days=91))
    alarm(settled, "rise", since=since, outcome="recovered", ended_on=since)
    # Too late to count, and decided again.
    alarm(recovered, since=today - timedelta(days=50), outcome="recovered", ended_on=today)
    alarm(late, since=since + timedelta(days=1), outcome="replaced", ended_on=since)
    rate = {"measured": 0.05, "came_to_nothing": 1}
    assert false_alarms() == {
        "allowed": 0.05,
        **rate,
        "alarms": 4,
        "rising": {**rate, "alarms": 1},
    }
