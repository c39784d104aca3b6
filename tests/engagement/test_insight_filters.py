"""The filter of an insight keeps exactly the accounts that have the insight on their page."""

from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.activity import reading
from engagement.models import AccountEngagement, Product, ScoreSet, Segment
from engagement.scores.insights import account_facts, apply_rules
from engagement.segments import members as segments
from engagement.segments.insight_filters import INSIGHT_KINDS, insight_filter
from tests.cases import examples, leaves_no_rows
from tests.engagement.alarms.rows import alarm
from tests.engagement.history import NOON
from tests.engagement.rows import TODAY, account

pytestmark = pytest.mark.django_db


def matching(score_set: ScoreSet) -> dict[str, set[str]]:
    """The accounts that the filter of each kind keeps, and a list by the kind."""
    rows = AccountEngagement.objects.filter(
        product_id=score_set.product_id, score_set_id=score_set.pk
    ).values_list("account__external_id", flat=True)
    filters = {kind: insight_filter(kind, score_set) for kind in INSIGHT_KINDS}
    for kind, own in filters.items():
        listed = rows.filter(own, reading.listed_insight_filter(score_set, kind))
        assert set(listed) == set(rows.filter(own))
    return {kind: set(rows.filter(own)) for kind, own in filters.items()}


def on_pages(score_set: ScoreSet) -> dict[str, set[str]]:
    """The accounts that have the insight of each kind on their page."""
    rows = AccountEngagement.objects.filter(score_set_id=score_set.pk).select_related("account")
    kinds = dict[str, set[str]]({kind: set() for kind in INSIGHT_KINDS})
    for row in rows:
        alarms = reading.alarms_by_account(score_set, [row.account_id])
        own = alarms.get(row.account_id, reading.NO_ALARMS)
        for insight in apply_rules(account_facts(score_set, row, alarms=own)):
            kinds[insight.kind].add(row.account.external_id)
    return kinds


def assert_conditions_agree(score_set: ScoreSet, expected: dict[str, set[str]]) -> None:
    """Segments with a condition on an insight have the same accounts, or all others."""
    own = [
        Segment(
            pk=number,
            scope="account",
            conditions=[{"kind": "insight", "insight": kind, "has": has}],
        )
        for number, (kind, has) in enumerate(product(INSIGHT_KINDS, (True, False)))
    ]
    rows = list(AccountEngagement.objects.filter(score_set=score_set).select_related("account"))
    names = {row.account.external_id for row in rows}
    assert segments.count_members_by_segment(score_set, own) == {
        each.pk: len(expected[kind] if has else names - expected[kind])
        for each, (kind, has) in zip(own, product(INSIGHT_KINDS, (True, False)), strict=True)
    }
    for row in rows:
        assert segments.segments_containing(score_set, own, row) == [
            each
            for each, (kind, has) in zip(own, product(INSIGHT_KINDS, (True, False)), strict=True)
            if (row.account.external_id in expected[kind]) == has
        ]


# --- Any accounts ---------------------------------------------------------------------------

MIDNIGHT = NOON.replace(hour=0)
days_ago = st.one_of(
    st.sampled_from([-1, 0, 1, 2, 6, 7, 13, 14, 15, 29, 59, 60, 61, 89, 90, 91]),
    st.integers(0, 400),
)
times = st.builds(
    lambda days, hours: MIDNIGHT - timedelta(days=days) + timedelta(hours=hours),
    days_ago,
    st.sampled_from([0, 12, 23.999]),
)
# Around today, and around the ends of 14 and 60 days.
near_days = st.sampled_from([-1, 0, 1, 13, 14, 15, 59, 60, 61])
FORMATS = [
    "%Y-%m-%d", "%Y%m%d", " %Y-%m-%d ", "%Y-%m-%dT00:00:00Z", "%Y-%m-%dT23:59:59.999999999Z",
    "%Y-%m-%d 23:59:59,9999", "%Y-%m-%dT00:30:00+01:00", "%Y-%m-%dT23:30-0100", "%Y-%m-%dT12:00",
    "%Y-%m-%dt12:00", "%Y-%m-%dT12", "%Y-%m-%dT24:00", "%Y-%m-%dT23:59:60Z", "%Y-%m-%d\n",
    "%Y-%m-%dT12:00:00+15:59", "%Y-%m-%dT12:00:00+16", "%Y-%m-%dT12:00:00.5+02:30:15", "%G-W%V-%u",
    "%d %b %Y", "%d.%m.%Y", "0%Y-%m-%d", "%Y-%m-%dT12:00:00Z" + " " * 44, "%Y-%m-%d" + " " * 55,
]  # fmt: skip
license_dates = st.builds(
    lambda days, form: (MIDNIGHT + timedelta(days=days)).strftime(form),
    near_days,
    st.sampled_from(FORMATS),
)
unix_times = st.builds(
    lambda days, seconds, form: form(
        (MIDNIGHT + timedelta(days=days, seconds=seconds)).timestamp()
    ),
    near_days,
    st.sampled_from([0, -0.5, 86399.999]),
    st.sampled_from([float, str, lambda at: int(at * 1000), lambda at: f" {at * 1000:.0f}.5"]),
)
no_times = st.sampled_from([
    None, True, False, "", " ", "soon", "now", "today", "infinity", "-infinity", "epoch", "NaN",
    "2026-02-30", "2026-13-01", "20260230", "0000-01-01", "9999-12-31T23:00-05:00", "1e9", "é1",
    "99999999999999", "1" * 700, 0, -1, -1790208000, 1e300, 5e-324, 253402300800, 2534023008000000,
    {"day": "2026-09-24"}, ["2026-09-24"], [], {},
])  # fmt: skip
days = st.one_of(license_dates, unix_times, no_times)
# Terms of about 40 days, for ends that are near.
starts = st.one_of(days, st.builds(lambda days: str(TODAY + timedelta(days)), st.integers(-45, 25)))
license_types = st.sampled_from([
    "COMMERCIAL", "EVALUATION", "Evaluation", "evaluat\u0131on", "EVALUAT\u0130ON", "evaluation ",
    5, None, True, ["EVALUATION"], "NET_NEW_EVALUATION", "Upgrade_Evaluation", "_evaluation",
    "evaluations", "XEVALUATION",
])  # fmt: skip
statuses = st.sampled_from(["active", "cancelled", "Cancelled", "inactive", "cancelled ", 5, None])
seats = st.one_of(
    st.sampled_from([0, 1, 2.5, 10, 100, 10**9, 10**9 + 1, -5, "50", True, None, 1e300, [10]]),
    st.integers(1, 60),
)
traits = st.fixed_dictionaries(
    {},
    optional={
        "am.licenseType": license_types,
        "am.evaluationEndDate": days,
        "am.maintenanceEndDate": days,
        "am.latestMaintenanceStartDate": starts,
        "am.maintenanceStartDate": starts,
        "am.status": statuses,
        "am.tier.number": seats,
    },
)
points = st.one_of(st.integers(0, 12), st.integers(0, 300), st.just(10**12))
small = st.integers(0, 20)


rows = st.fixed_dictionaries({
    "raw": points,
    "raw_last_period": points,
    "top_user_points": points,
    "active_users": small,
    "total_users": small,
    "last_active_at": st.one_of(st.none(), times),
    "first_seen_at": times,
    "created_at": st.one_of(st.none(), times),
    "traits": traits,
    "alarms": st.dictionaries(
        st.sampled_from(list(reading.Signal)),
        st.fixed_dictionaries({
            "is_stopped": st.booleans(),
            "outcome": st.sampled_from(["", "", "settled", "recovered"]),
        }),
        max_size=3,
    ),
})  # fmt: skip
benchmarks = st.sampled_from([None, 1.0, 10.0, 37.5, 208.2, 1e9])


@examples(8)
@given(
    accounts=st.lists(rows, min_size=4, max_size=12),
    lookback=st.sampled_from([1, 7, 30]),
    now=benchmarks,
    before=benchmarks,
    audience=st.sampled_from([{}, {}, {"match": "all", "conditions": []}]),
)
@leaves_no_rows
def test_the_filter_of_an_insight_keeps_the_accounts_that_have_it(
    accounts: list[dict[str, Any]],
    lookback: int,
    now: float | None,
    before: float | None,
    audience: dict[str, Any],
) -> None:
    acme = Product.create_with_workspace("Acme")
    score_set = ScoreSet.objects.create(
        product=acme,
        workspace=acme.workspaces.get(),
        lookback_days=lookback,
        default_weight=1,
        audience=audience,
        scored_day=TODAY,
        account_benchmark=now,
        account_benchmark_last_period=before,
    )
    for number, values in enumerate(accounts):
        signals = values.pop("alarms")
        row = account(score_set, str(number), **values)
        for signal, fields in signals.items():
            alarm(row, signal, **fields)
    expected = on_pages(score_set)
    assert matching(score_set) == expected
    assert_conditions_agree(score_set, expected)
