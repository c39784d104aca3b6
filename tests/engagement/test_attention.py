"""The accounts that need attention, and how many have each insight."""

from datetime import timedelta
from typing import Any

import pytest

from engagement.models import Account, AccountEngagement, Alarm, CachedCounts, ScoreSet
from engagement.segments import counts
from engagement.segments.attention import ACCOUNTS_PER_KIND, NO_ATTENTION, Attention
from tests.engagement.alarms.rows import alarm
from tests.engagement.history import NOON
from tests.engagement.rows import TODAY, account, ago

pytestmark = pytest.mark.django_db

SOON = (TODAY + timedelta(days=30)).isoformat()


def attention(scores: ScoreSet) -> Attention:
    return counts.accounts_needing_attention(ScoreSet.objects.get(pk=scores.pk))


def named(attention: Attention) -> dict[str, list[str]]:
    return {
        kind: [alert.account.external_id for alert in alerts]
        for kind, alerts in attention.alerts.items()
    }


def stopped(scores: ScoreSet, name: str, seats: Any = None, **numbers: Any) -> AccountEngagement:
    traits = {"am.tier.number": seats, **numbers.pop("traits", {})}
    row = account(scores, name, last_active_at=ago(20), traits=traits, **numbers)
    alarm(row, is_stopped=True)
    return row


def make_large(scores: ScoreSet) -> None:
    counts.recount(scores, NOON)
    CachedCounts.objects.update(seconds=6.0)


def test_the_accounts_that_cost_most_come_first(scores: ScoreSet) -> None:
    stopped(scores, "few points", total_users=5, raw_yesterday_last_period=5)
    stopped(scores, "seats as text", seats="9000", total_users=4)
    stopped(scores, "many users", total_users=6)
    stopped(scores, "many seats", seats=10)
    stopped(scores, "most seats", seats=500)
    stopped(scores, "many points", total_users=5, raw_yesterday_last_period=9)
    order = ["most seats", "many seats", "many users", "many points", "few points", "seats as text"]
    for first in range(len(order)):
        names = named(attention(scores))
        assert names == {"activity_stopped": order[first : first + ACCOUNTS_PER_KIND]}
        AccountEngagement.objects.filter(account__external_id=order[first]).delete()


def test_what_an_account_pays_counts_before_its_seats(scores: ScoreSet) -> None:
    stopped(scores, "many seats", seats=500)
    stopped(scores, "pays little", seats=400, traits={"mrr": 100})
    stopped(scores, "pays much", seats=1, traits={"mrr": "123400"})
    stopped(scores, "pays in words", seats=9, traits={"mrr": "a lot"})
    alerts = attention(scores).alerts["activity_stopped"]
    assert [(alert.account.external_id, alert.insight.numbers.get("mrr")) for alert in alerts] == [
        ("pays much", 123400),
        ("pays little", 100),
        ("many seats", None),
    ]
    assert alerts[0].insight.text.endswith(" MRR: 1,234.00.")
    assert "MRR" not in alerts[2].insight.text


def test_an_account_is_named_once_and_counted_for_each_insight(scores: ScoreSet) -> None:
    stopped(scores, "leaving", traits={"am.maintenanceEndDate": SOON})
    stopped(scores, "asleep")
    alarm(account(scores, "growing", raw=90, first_seen_at=ago(90)), "rise")
    account(scores, "young", raw=90, first_seen_at=ago(3))
    for _ in ("live", "cached"):
        accounts = attention(scores)
        assert list(accounts.counts.items()) == [
            ("renewal_at_risk", 1),
            ("activity_stopped", 2),
            ("new_account", 1),
            ("trend_up", 1),
        ]
        assert named(accounts) == {"renewal_at_risk": ["leaving"], "activity_stopped": ["asleep"]}
        (alert,) = accounts.alerts["renewal_at_risk"]
        assert alert.insight.text == (
            "The license is up for renewal in 30 days (24 Oct 2026), and activity has stopped."
        )
        make_large(scores)


def test_a_cached_alert_that_is_over_is_left_out(scores: ScoreSet) -> None:
    for name in ("back", "gone", "asleep"):
        stopped(scores, name)
    make_large(scores)
    back = Alarm.objects.filter(account__external_id="back")
    back.update(ended_on=TODAY, outcome=Alarm.Outcome.RECOVERED)
    AccountEngagement.objects.filter(account__external_id="gone").delete()
    Account.objects.filter(external_id="gone").delete()
    assert named(attention(scores)) == {"activity_stopped": ["asleep"]}


def test_the_last_counts_of_a_set_cost_nothing(
    scores: ScoreSet, django_assert_num_queries: Any
) -> None:
    stopped(scores, "asleep")
    counts.recount(scores, NOON)
    score_set = ScoreSet.objects.select_related("cached_counts").get(pk=scores.pk)
    with django_assert_num_queries(0):
        assert counts.last_insight_counts(score_set) == {"activity_stopped": 1}


def test_a_set_without_scores_needs_no_attention(scores: ScoreSet) -> None:
    ScoreSet.objects.update(scored_day=None)
    assert attention(scores) == NO_ATTENTION
    assert counts.last_insight_counts(scores) == {}
