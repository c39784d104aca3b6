"""Segments, lists, and mirrors follow what syncs and the job write of licenses."""

import pytest

from engagement.models import (
    AccountEngagement,
    Product,
    ScoreSet,
    Segment,
    SubjectChange,
    Workspace,
)
from engagement.rescoring.rescore import rescore
from engagement.segments import counts, members
from harness.marketplace.server import Simulator
from marketplace.models import Connection, LicenseEvent
from tests.marketplace.ledger.examples import day, row
from tests.marketplace.ledger.test_through_syncs import a_record, noon, sync_on
from tests.marketplace.ledger.test_through_syncs import connection as connection

pytestmark = pytest.mark.django_db


@pytest.fixture
def lost(acme: Product) -> Segment:
    """Accounts that churned in the last 30 days."""
    workspace = Workspace.objects.get(product=acme)
    condition = {
        "kind": "license_event", "event": "churned", "operator": "happened", "within_days": 30,
    }  # fmt: skip
    return Segment.objects.create(
        workspace=workspace, scope="account", name="Lost", conditions=[condition]
    )


class Watching:
    """Somebody who reads the segment, and asks what changed."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment

    def score(self, on: str) -> set[str]:
        """Rescore on that day; return the members."""
        for _ in range(3):
            rescore(noon(day(on)))
        scores = self.scores
        rule = members.segment_rule(self.segment)
        rows = AccountEngagement.objects.filter(product=scores.product, score_set=scores)
        own = rows.filter(members.members_filter(scores, rule)).select_related("account")
        for each in rows.select_related("account"):
            own_segments = members.segments_containing(scores, [self.segment], each)
            assert (own_segments == [self.segment]) == (each in own)
        assert counts.segment_counts(scores, [self.segment]) == {self.segment.pk: len(own)}
        return {each.account.external_id for each in own}

    @property
    def scores(self) -> ScoreSet:
        return ScoreSet.objects.get(workspace=self.segment.workspace_id, state="current")

    def is_told(self) -> bool:
        """Whether something is to be swept and counted, and a mirror would read the account."""
        has_stamp = SubjectChange.objects.filter(kind=SubjectChange.Kind.ACCOUNT).exists()
        scores = self.scores
        return has_stamp and scores.watches_stale and scores.cached_counts_stale

    def rest(self) -> None:
        """Nothing is left to be told."""
        SubjectChange.objects.all().delete()
        ScoreSet.objects.update(watches_stale=False, cached_counts_stale=False)


def test_members_follow_syncs_corrections_and_days(
    acme: Product, simulator: Simulator, connection: Connection, lost: Segment
) -> None:
    watching = Watching(lost)
    simulator.feed.add(a_record(simulator, "A", row("06-01 C a 06-01→07-01 10"), cloudId="site-1"))
    sync_on(connection, day("06-01"))
    assert watching.score("06-01") == set()
    watching.rest()

    simulator.feed.change(0, status="inactive", lastUpdated="2026-07-02")
    sync_on(connection, day("07-02"))
    assert watching.score("07-02") == {"site-1"} and watching.is_told()
    watching.rest()

    # It was paid late: the churn is withdrawn.
    simulator.feed.change(
        0,
        status="active",
        lastUpdated="2026-07-10",
        maintenanceStartDate="2026-07-01",
        maintenanceEndDate="2026-08-01",
    )
    sync_on(connection, day("07-10"))
    assert LicenseEvent.objects.get(type="churned").withdrawn_at
    assert watching.score("07-10") == set() and watching.is_told()

    simulator.feed.change(0, status="inactive", lastUpdated="2026-08-02")
    sync_on(connection, day("08-02"))
    assert watching.score("08-02") == {"site-1"}
    # Nothing happens any more, but time passes: August 1 is 30 days of which August 30 is the last.
    assert watching.score("08-30") == {"site-1"}
    watching.rest()
    assert watching.score("08-31") == set()
    scores = watching.scores
    assert scores.watches_stale and scores.cached_counts_stale
