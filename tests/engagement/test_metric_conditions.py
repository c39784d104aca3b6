"""Each metric as a condition, with numbers computed by hand.

Under the benchmark of 100 a raw score of 60 shows 74.9, 61 shows 75.5 and 100 shows 90.0; under
50, as it was a day ago, 30 shows 74.9; under 200, as it was a period ago, 120 does.
"""

from typing import Any

import pytest

from engagement.metric_names import BOTH_SCOPES, METRICS, Scope
from engagement.models import DailyCount, EventName, ScoredEvent, ScoreSet, Segment, User
from engagement.models.activity import NO_ACCOUNT
from engagement.scores.formula import rounded_score
from engagement.segments import members as segments
from engagement.segments.metric_filters import _steps
from tests.cases import each
from tests.engagement.rows import MAKE, TODAY, account, ago, members, user

pytestmark = pytest.mark.django_db

# Conditions with the members that they select.
Cases = list[tuple[dict[str, Any], set[str]]]


def metric(name: str, operator: str, value: float, upper: float | None = None) -> dict[str, Any]:
    return {
        "kind": "metric",
        "metric": name,
        "operator": operator,
        "value": value,
        "upper": upper,
    }


def at_least(name: str, value: float) -> dict[str, Any]:
    return metric(name, "at_least", value)


def at_most(name: str, value: float) -> dict[str, Any]:
    return metric(name, "at_most", value)


def between(name: str, value: float, upper: float) -> dict[str, Any]:
    return metric(name, "between", value, upper)


# The numbers of each subject; the quantiles are 10, 20, 30 and 40, the scored names four.
SUBJECTS: dict[str, dict[str, Any]] = {
    "idle": {},
    "low": {"raw": 1, "event_count": 1, "active_days": 1, "name_count": 1, "raw_yesterday": 1},
    "sixty": {"raw": 60, "event_count": 9, "active_days": 3, "name_count": 2, "raw_yesterday": 30,
              "raw_last_period": 60, "raw_yesterday_last_period": 60},
    "sixty-one": {"raw": 61, "event_count": 10, "active_days": 4, "name_count": 3,
                  "raw_yesterday": 31, "raw_last_period": 122},
    "hundred": {"raw": 100, "event_count": 50, "active_days": 7, "name_count": 4,
                "raw_last_period": 200, "raw_yesterday_last_period": 100},
    # The release before wrote this row.
    "gone": {"raw_last_period": 10, "raw_yesterday": 5, "raw_yesterday_last_period": None},
}  # fmt: skip
ALL = set(SUBJECTS)
COMPLETE = "score_change_complete_days"
USERS_ONLY_YESTERDAY = [
    (at_least("score_yesterday", 74.9), {"sixty", "sixty-one"}),
    (at_least("score_yesterday", 75), {"sixty-one"}),
    (at_most("score_yesterday", 1), {"idle", "hundred"}),
    # Raw scores of 1 and 5 of 50 show 4.5 and 20.6.
    (between("score_yesterday", 4.5, 20.6), {"low", "gone"}),
    # Before, 60 and 100 of 100 showed 74.9 and 90.0. Then came 0, 4.5, 74.9, 76.0, and 0.
    (at_least(COMPLETE, 76), {"sixty-one"}),
    (at_least(COMPLETE, 76.1), set()),
    (at_least(COMPLETE, 4.5), {"low", "sixty-one"}),
    (between(COMPLETE, 0, 0), {"idle", "sixty"}),
    (at_most(COMPLETE, -90), {"hundred"}),
    (at_most(COMPLETE, -90.1), set()),
    (at_least(COMPLETE, -5000), ALL - {"gone"}),
    (at_most(COMPLETE, 5000), ALL - {"gone"}),
]


BOTH: Cases = [
    (at_least("engagement_score", 0), ALL),
    (at_least("engagement_score", -5), ALL),
    (at_least("engagement_score", 0.1), {"low", "sixty", "sixty-one", "hundred"}),
    # A raw score of 1 would show 2.3.
    (at_least("engagement_score", 2.3), {"low", "sixty", "sixty-one", "hundred"}),
    (at_least("engagement_score", 2.31), {"sixty", "sixty-one", "hundred"}),
    (at_least("engagement_score", 74.9), {"sixty", "sixty-one", "hundred"}),
    (at_least("engagement_score", 74.91), {"sixty-one", "hundred"}),
    (at_least("engagement_score", 75), {"sixty-one", "hundred"}),
    (at_least("engagement_score", 90), {"hundred"}),
    (at_least("engagement_score", 90.1), set()),
    (at_least("engagement_score", 1e15), set()),
    (at_most("engagement_score", -0.1), set()),
    (at_most("engagement_score", 0), {"idle", "gone"}),
    (at_most("engagement_score", 74.8), {"idle", "gone", "low"}),
    (at_most("engagement_score", 74.9), {"idle", "gone", "low", "sixty"}),
    (at_most("engagement_score", 1000), ALL),
    (between("engagement_score", 74.9, 75.5), {"sixty", "sixty-one"}),
    (between("engagement_score", 75, 75.4), set()),
    (at_least("raw_score", 60), {"sixty", "sixty-one", "hundred"}),
    (at_least("raw_score", 60.5), {"sixty-one", "hundred"}),
    (at_most("raw_score", 60.5), {"idle", "gone", "low", "sixty"}),
    (between("raw_score", 1, 60), {"low", "sixty"}),
    (at_least("percentile", 100), {"sixty", "sixty-one", "hundred"}),
    (at_least("percentile", 0.1), {"sixty", "sixty-one", "hundred"}),
    (at_most("percentile", 0), {"idle", "gone", "low"}),
    # Changes: 0, 2.3, 74.9 - 49.9, 75.5 - 75.5, 90 - 90, and 0 - 10.9.
    (at_least("score_change", 25), {"sixty"}),
    (at_least("score_change", 25.1), set()),
    (at_least("score_change", 2.3), {"low", "sixty"}),
    (at_most("score_change", -10.9), {"gone"}),
    (at_most("score_change", -11), set()),
    (between("score_change", 0, 0), {"idle", "sixty-one", "hundred"}),
    (at_least("score_change", -100), ALL),
    (at_least("score_change", -5000), ALL),
    (at_most("score_change", 5000), ALL),
    (at_least("score_change", 5000), set()),
    ({"kind": "trend", "trend": "rising"}, {"sixty"}),
    ({"kind": "trend", "trend": "falling"}, {"gone"}),
    ({"kind": "trend", "trend": "steady"}, {"idle", "low", "sixty-one", "hundred"}),
    # 60, 122 and 200 of 200 show 49.9, 75.5 and 90.0, and 10 shows 10.9.
    (at_least("score_last_period", 49.9), {"sixty", "sixty-one", "hundred"}),
    (at_least("score_last_period", 50), {"sixty-one", "hundred"}),
    (between("score_last_period", 1, 10.9), {"gone"}),
    (at_least("frequency", 4), {"sixty-one", "hundred"}),
    (at_most("frequency", 0), {"idle", "gone"}),
    (between("frequency", 1, 3), {"low", "sixty"}),
    (at_least("adoption", 0.75), {"sixty-one", "hundred"}),
    (at_least("adoption", 0.76), {"hundred"}),
    (at_least("adoption", 1), {"hundred"}),
    (at_most("adoption", 0.25), {"idle", "gone", "low"}),
    (between("adoption", 0.26, 0.5), {"sixty"}),
    (at_least("recently_scored_events", 10), {"sixty-one", "hundred"}),
    (at_most("recently_scored_events", 9.9), {"idle", "gone", "low", "sixty"}),
    (between("recently_scored_events", 9, 10), {"sixty", "sixty-one"}),
    ({"kind": "active", "active": True}, {"low", "sixty", "sixty-one", "hundred"}),
    ({"kind": "active", "active": False}, {"idle", "gone"}),
]


@pytest.mark.parametrize("scope", BOTH_SCOPES)
def test_metrics_of_both(scores: ScoreSet, scope: Scope) -> None:
    for name, numbers in SUBJECTS.items():
        MAKE[scope](scores, name, **numbers)
    for condition, expected in BOTH:
        assert members(scores, scope, condition) == expected, condition


def test_scores_of_yesterday(scores: ScoreSet) -> None:
    for name, numbers in SUBJECTS.items():
        user(scores, name, **numbers)
    for condition, expected in USERS_ONLY_YESTERDAY:
        assert members(scores, "user", condition) == expected, condition


def test_without_a_benchmark_everybody_scores_0(scores: ScoreSet) -> None:
    for name, numbers in SUBJECTS.items():
        account(scores, name, **numbers)
    scores.account_benchmark_yesterday = scores.account_benchmark_yesterday_last_period = None
    # Points without a benchmark: the release before computed the benchmarks.
    with_values = {"idle", "low", "sixty-one"}
    assert members(scores, "account", at_most(COMPLETE, 0)) == with_values
    assert members(scores, "account", at_least(COMPLETE, 0)) == with_values
    assert members(scores, "account", at_most("score_yesterday", 0)) == ALL
    assert members(scores, "account", at_least("score_yesterday", 0)) == ALL
    assert members(scores, "account", at_least("score_yesterday", 0.1)) == set()
    scores.account_benchmark, scores.account_quantiles = None, []
    assert members(scores, "account", at_least("engagement_score", 0.1)) == set()
    # The scores of a period ago were those of 60, 122, 200 and 10 under 200.
    falling = {"sixty", "sixty-one", "hundred", "gone"}
    assert members(scores, "account", at_most("score_change", -10)) == falling
    assert members(scores, "account", at_most("percentile", 0)) == ALL


def test_without_scored_names_there_is_no_adoption(scores: ScoreSet) -> None:
    user(scores, "ann")
    scores.scored_event_name_count = 0
    for name in ("adoption", "adoption_all_time"):
        assert members(scores, "user", at_most(name, 1)) == set()
        assert members(scores, "user", at_least(name, 0)) == set()


# --- Metrics of all time --------------------------------------------------------------------


def did(score_set: ScoreSet, name: str, event: str, *counts: tuple[int, int], by: str = "") -> None:
    """Record *times* events of the subject, *ago* days ago."""
    product = score_set.product_id
    event_name, _ = EventName.objects.get_or_create(product_id=product, name=event)
    person = User.objects.get(product_id=product, external_id=by or name)
    in_account = score_set.product.account_set.filter(external_id=name).first() if by else None
    for days, count in counts:
        DailyCount.objects.create(
            product_id=product,
            user=person,
            account_id=in_account.pk if in_account else NO_ACCOUNT,
            event_name=event_name,
            day=ago(days).date(),
            count=count,
            last_at=ago(days),
        )


ALL_TIME: Cases = [
    (at_least("overall_scored_events", 5), {"both", "often"}),
    (at_least("overall_scored_events", 6), {"often"}),
    (at_most("overall_scored_events", 5), {"both", "never"}),
    (at_most("overall_scored_events", 0), {"never"}),
    (between("overall_scored_events", 1, 5.5), {"both"}),
    # Of four scored names.
    (at_least("adoption_all_time", 0.5), {"both"}),
    (at_most("adoption_all_time", 0.25), {"often", "never"}),
    (between("adoption_all_time", 0.2, 0.3), {"often"}),
]
LISTED_ONLY: Cases = [
    (at_least("overall_scored_events", 1), {"both"}),
    (at_most("overall_scored_events", 2), {"both", "often", "never"}),
    (at_least("adoption_all_time", 0.25), {"both"}),
]


@pytest.mark.parametrize("scope", BOTH_SCOPES)
@pytest.mark.parametrize(("default_weight", "cases"), [(1, ALL_TIME), (0, LISTED_ONLY)])
def test_metrics_of_all_time(
    scores: ScoreSet,
    scope: Scope,
    default_weight: int,
    cases: Cases,
) -> None:
    by = "" if scope == "user" else "ann"
    if by:
        user(scores, by)
    for name in ("both", "often", "never"):
        MAKE[scope](scores, name)
    did(scores, "both", "opened", (0, 1), (300, 2), by=by)
    did(scores, "both", "paid", (90, 2), by=by)
    did(scores, "often", "opened", (1, 60), by=by)
    scores.default_weight = default_weight
    scores.save(update_fields=["default_weight"])
    paid = EventName.objects.get(name="paid")
    ScoredEvent.objects.create(score_set=scores, event_name=paid, weight=3)
    for condition, expected in cases:
        # The user who did it all has a row as well, but is no account.
        assert members(scores, scope, condition) == expected, condition


def test_an_account_counts_only_identified_users(scores: ScoreSet) -> None:
    account(scores, "initech")
    user(scores, "ann")
    stranger = user(scores, "stranger", is_identified=False).user
    did(scores, "initech", "opened", (0, 2), by="ann")
    did(scores, "initech", "opened", (0, 2), by="stranger")
    condition = {"kind": "event", "event": "opened", "operator": "done"}
    assert members(scores, "account", {**condition, "times": 2}) == {"initech"}
    assert members(scores, "account", {**condition, "times": 3}) == set()
    assert members(scores, "account", at_least("overall_scored_events", 3)) == set()
    # With an audience, those who have a row in it.
    scores.audience = {"match": "all", "conditions": [{"kind": "trait"}]}
    assert members(scores, "account", {**condition, "times": 4}) == {"initech"}
    stranger.engagements.all().delete()
    assert members(scores, "account", {**condition, "times": 3}) == set()


# --- Metrics of accounts --------------------------------------------------------------------

ACCOUNTS: dict[str, dict[str, Any]] = {
    "empty": {},
    "one of two": {"active_users": 1, "total_users": 2, "traits": {"am.tier.number": 2}},
    "two of three": {"active_users": 2, "total_users": 3, "traits": {"am.tier.number": 1}},
    "all ten": {"active_users": 10, "total_users": 10, "traits": {"am.tier.number": 100}},
    "text": {"active_users": 1, "total_users": 100, "traits": {"am.tier.number": "10"}},
    "none": {"active_users": 1, "total_users": 100, "traits": {"am.tier.number": 0}},
    "tiny": {"active_users": 1, "total_users": 100, "traits": {"am.tier.number": 5e-324}},
    "huge": {"active_users": 1, "total_users": 100, "traits": {"am.tier.number": 1e308}},
    "unlimited": {"active_users": 1, "total_users": 100, "traits": {"am.tier.number": True}},
}
WITHOUT_SEATS = {"empty", "text", "none", "tiny", "huge", "unlimited"}


OF_ACCOUNTS: Cases = [
    (at_least("active_users", 2), {"two of three", "all ten"}),
    (at_most("active_users", 0), {"empty"}),
    (between("active_users", 2, 2), {"two of three"}),
    (at_most("total_users", 3), {"empty", "one of two", "two of three"}),
    (between("total_users", 2, 3), {"one of two", "two of three"}),
    (at_least("active_share", 0.5), {"one of two", "two of three", "all ten"}),
    (at_least("active_share", 2 / 3), {"two of three", "all ten"}),
    (at_least("active_share", 0.6667), {"all ten"}),
    (at_most("active_share", 0.01), {"text", "none", "tiny", "huge", "unlimited"}),
    (at_most("active_share", 0), set()),
    (between("active_share", 0.1, 0.5), {"one of two"}),
    (at_least("license_utilization", 0.5), {"one of two", "two of three"}),
    (at_least("license_utilization", 2), {"two of three"}),
    (at_most("license_utilization", 0.1), {"all ten"}),
    (between("license_utilization", 0.1, 0.5), {"one of two", "all ten"}),
    (at_least("license_utilization", 0), set(ACCOUNTS) - WITHOUT_SEATS),
]


def test_metrics_of_accounts(scores: ScoreSet) -> None:
    for name, numbers in ACCOUNTS.items():
        account(scores, name, **numbers)
    for condition, expected in OF_ACCOUNTS:
        assert members(scores, "account", condition) == expected, condition


def test_seats_are_not_compared_with_the_users_of_an_audience(scores: ScoreSet) -> None:
    account(scores, "two of three", **ACCOUNTS["two of three"])
    condition = at_least("license_utilization", 0)
    assert members(scores, "account", condition) == {"two of three"}
    scores.audience = {"match": "all", "conditions": [{"kind": "first_seen"}]}
    assert members(scores, "account", condition) == set()


# --- Age ------------------------------------------------------------------------------------


TENURE: Cases = [
    (at_least("tenure_days", 0), {"today", "yesterday", "tomorrow", "ancient"}),
    (at_least("tenure_days", 1), {"yesterday", "ancient"}),
    (at_least("tenure_days", 0.5), {"yesterday", "ancient"}),
    (at_least("tenure_days", 2), {"ancient"}),
    # The first of January of the year 1 is 739,882 days before.
    (at_least("tenure_days", 739882), {"ancient"}),
    (at_least("tenure_days", 739883), set()),
    (at_least("tenure_days", 1e15), set()),
    (at_most("tenure_days", 1e15), {"today", "yesterday", "tomorrow", "ancient"}),
    (at_most("tenure_days", 0), {"today", "tomorrow"}),
    (at_most("tenure_days", 1.9), {"today", "yesterday", "tomorrow"}),
    (at_most("tenure_days", -1), set()),
    (between("tenure_days", 0.5, 1), {"yesterday"}),
]


@pytest.mark.parametrize("scope", BOTH_SCOPES)
def test_tenure(scores: ScoreSet, scope: Scope) -> None:
    assert (TODAY - TODAY.replace(year=1, month=1, day=1)).days == 739882
    MAKE[scope](scores, "today", first_seen_at=ago(0.5))
    MAKE[scope](scores, "yesterday", first_seen_at=ago(0.6))
    MAKE[scope](scores, "tomorrow", created_at=ago(-1))
    MAKE[scope](scores, "ancient", created_at=ago(739882))
    for condition, expected in TENURE:
        assert members(scores, scope, condition) == expected, condition


@pytest.mark.parametrize("scope", BOTH_SCOPES)
@pytest.mark.parametrize(
    ("operator", "days", "expected"),
    [
        ("within_days", 1, {"today"}),
        ("within_days", 2, {"today", "yesterday"}),
        ("within_days", "window", {"today", "yesterday"}),
        ("more_than_days_ago", 1, {"yesterday", "long ago"}),
        ("more_than_days_ago", 2, {"long ago"}),
        ("more_than_days_ago", 41, set()),
        ("more_than_days_ago", "window", {"long ago"}),
    ],
)
def test_never_active_matches_neither_operator(
    scores: ScoreSet, scope: Scope, operator: str, days: int | str, expected: set[str]
) -> None:
    MAKE[scope](scores, "never")
    for name, then in (("today", 0), ("yesterday", 1), ("long ago", 40)):
        MAKE[scope](scores, name, last_active_at=ago(then))
    condition = {"kind": "last_active", "operator": operator, "days": days}
    assert members(scores, scope, condition) == expected


# --- Together -------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", BOTH_SCOPES)
def test_all_or_any_of_the_conditions(scores: ScoreSet, scope: Scope) -> None:
    for name, numbers in SUBJECTS.items():
        MAKE[scope](scores, name, **numbers)
    conditions = at_most("raw_score", 60), at_least("frequency", 3)
    assert members(scores, scope, *conditions) == {"sixty"}
    assert members(scores, scope, *conditions, match="any") == ALL
    nobody = at_least("raw_score", 1e15)
    assert members(scores, scope, nobody, conditions[1], match="any") == {
        "sixty", "sixty-one", "hundred"
    }  # fmt: skip


def test_every_metric_has_a_label_and_a_condition(scores: ScoreSet) -> None:
    for name, metric in METRICS.items():
        assert metric.label[0].isupper()
        for scope in metric.scopes:
            assert members(scores, scope, between(name, -1e15, 1e15)) == set()


HOSTILE = [
    "%",
    "_",
    "'",
    '"',
    "\\",
    "';--",
    "{}",
    "%s",
    "%(x)s",
    "{0}",
    "\x7f",
    "日本",
    "🦊",
    "1e999",
]


@pytest.mark.parametrize("scope", BOTH_SCOPES)
def test_no_condition_and_no_trait_makes_a_query_fail(scores: ScoreSet, scope: Scope) -> None:
    odd = [*HOSTILE, "now", "infinity", "NaN", "1" * 5000, 1e308, -5e-324, [], {}, [[["x"]]], False]
    for number, value in enumerate(odd):
        MAKE[scope](scores, str(number), traits={"x": value, "am.tier.number": value})
    conditions: list[dict[str, Any]] = []
    for text in HOSTILE:
        conditions += [
            {"kind": "trait", "trait": name, "operator": operator, "value": text}
            for operator in ("is", "is_not", "contains")
            for name in ("x", text)
        ]
        conditions.append({"kind": "event", "event": text, "operator": "done"})
    for operator, value in (
        ("at_least", 1e15), ("at_most", -1e15), ("at_least", 1e-300),
        ("before", "9998-12-31"), ("after", "1000-01-01"),
    ):  # fmt: skip
        conditions.append({"kind": "trait", "trait": "x", "operator": operator, "value": value})
    if scope == "account":
        conditions.append(at_least("license_utilization", 1e-300))
    for condition in conditions:
        members(scores, scope, condition)
    for chunk in (conditions[:20], conditions[-20:]):
        segment = Segment(pk=1, scope=scope, match="any", conditions=chunk)
        assert segments.count_members_by_segment(scores, [segment])[1] <= len(odd)


# --- Steps of the displayed score -----------------------------------------------------------


@each("benchmark", [1.0, 1.5, 7.9, 100.0, 208.2, 12345.678, 1e9, 3e14])
def test_steps_are_the_lowest_raw_scores_of_their_tenths(benchmark: float) -> None:
    steps = _steps(benchmark)
    assert len(steps) == 1000 and list(steps) == sorted(steps)
    for tenth, raw in enumerate(steps, 1):
        assert rounded_score(raw, benchmark) >= tenth / 10
        assert raw == 0 or rounded_score(raw - 1, benchmark) < tenth / 10
