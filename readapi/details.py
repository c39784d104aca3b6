"""The metrics and expansions of one user or account. Each part loads when it is used."""

from collections.abc import Sequence
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

from access.trail.scoring_changes import scoring_changes
from access.work import accounts, alarms
from engagement.activity import reading
from engagement.metric_names import Scope
from engagement.models import AccountWork, Workspace
from engagement.rules import license_events
from engagement.scopes import get_kind
from engagement.scores import history, insights, metrics
from engagement.scores.history import EventPoints
from engagement.scores.metrics import AccountMetrics, Metrics
from engagement.segments import members
from engagement.segments.activation import steps_of
from engagement.segments.chances import chances_by_account
from engagement.segments.features import feature_uses
from readapi import queries, records, serializers
from readapi.serializers import score_set

if TYPE_CHECKING:
    from readapi.queries import RankedAccount, RankedUser


# A record of all event names of a user can have 22 MB.
MAX_EVENTS = 1_000
MAX_LICENSE_EVENTS = MAX_NOTES = 100


class SubjectDetails:
    """A subject of the workspace, given by its ranked row. ``trait_names`` limits the expanded
    traits."""

    scope: Scope

    def __init__(
        self, workspace: Workspace, row: Any, subject: Any, trait_names: list[str] | None
    ) -> None:
        self.workspace = workspace
        self.score_set = score_set(workspace)
        self.row = row
        self.subject = subject
        self.trait_names = trait_names

    def expand(self, names: Sequence[str]) -> dict[str, Any]:
        """The expansions with these names, by name."""
        expansions = {name: getattr(self, f"{name}_record")() for name in names}
        if "events" in expansions:
            expansions["events_total"] = len(self.current_events)
        if days := expansions.get("history"):
            first_day = date.fromisoformat(days[0]["day"])
            changes = scoring_changes(self.workspace, first_day)
            expansions["scoring_changes"] = list(map(serializers.scoring_change, changes))
        return expansions

    def traits_record(self) -> dict[str, Any]:
        return serializers.traits(self.subject, self.trait_names)

    def segments_record(self) -> list[records.SegmentName]:
        candidates = list(queries.segments(self.workspace, scope=self.scope))
        segments = members.segments_containing(self.score_set, candidates, self.row)
        return [serializers.segment_name(segment) for segment in segments]

    def events_record(self) -> list[records.EventPointsRecord]:
        return [serializers.event_points(event) for event in self.current_events[:MAX_EVENTS]]

    def history_record(self) -> list[records.DayScoreRecord]:
        days = history.score_history(self.score_set, self.row, self.counts.points_by_day)
        return [serializers.day_score(day) for day in days]

    def features_record(self) -> list[records.FeatureUseRecord]:
        today = self.score_set.scored_day or date.min
        kind, id = get_kind(self.scope), self.subject.pk
        uses = feature_uses(self.workspace.product_id, kind, [id], today)[id]
        return [serializers.feature_use(use) for use in uses]

    def activation_record(self) -> records.SubjectActivation | None:
        steps = steps_of(self.score_set, get_kind(self.scope), self.subject.pk)
        today = self.score_set.scored_day or date.min
        return serializers.activation(steps, today) if steps else None

    @cached_property
    def counts(self) -> history.CountSummary:
        return history.summarize_counts(self.score_set, self.scope, self.subject.pk)

    @cached_property
    def current_events(self) -> list[EventPoints]:
        return [event for event in self.counts.event_points if event.count or event.points]


class AccountDetails(SubjectDetails):
    scope = "account"

    def __init__(
        self,
        workspace: Workspace,
        row: "RankedAccount",
        trait_names: list[str] | None = None,
        shows_users: bool = True,
    ) -> None:
        super().__init__(workspace, row, row.account, trait_names)
        self.shows_users = shows_users

    @cached_property
    def metrics(self) -> AccountMetrics:
        return metrics.compute_account_metrics(
            self.row, self.score_set, self.counts.all_time, self.subject.traits
        )

    @cached_property
    def alarms(self) -> reading.AccountAlarms:
        account_id = self.subject.pk
        alarms = reading.alarms_by_account(self.score_set, [account_id])
        return alarms.get(account_id, reading.NO_ALARMS)

    @property
    def activity(self) -> reading.Activity:
        return self.alarms.activity(self.row.activity)

    @property
    def work(self) -> AccountWork:
        return accounts.work_of(self.workspace.product_id, [self.subject.pk])[self.subject.pk]

    def notes_record(self) -> list[records.NoteRecord]:
        notes = accounts.notes_of(self.workspace.product_id, [self.subject.pk])
        return [serializers.note(row) for row in notes[:MAX_NOTES]]

    def closed_alarms_record(self) -> list[records.ClosedAlarmRecord]:
        id, product = self.subject.pk, self.workspace.product
        closed = alarms.results_by_account(product, self.score_set, [id]).get(id, [])
        return list(map(serializers.closed_alarm, closed))

    def insights_record(self) -> list[records.InsightRecord]:
        account_insights = insights.account_insights(
            self.score_set, self.row, self.metrics, self.alarms, names_users=self.shows_users
        )
        return [serializers.insight(insight) for insight in account_insights]

    def chances_record(self) -> records.LowestChances:
        by_id = chances_by_account(self.score_set, [self.subject.pk])
        return serializers.chances(by_id.get(self.subject.pk, []))

    def license_events_record(self) -> list[records.LicenseEventRecord]:
        account = self.subject
        events = license_events.events_of(self.workspace.product_id)
        events = events.filter(cloud_id=account.external_id, withdrawn_at=None)
        latest = events.order_by(*license_events.LATEST_FIRST)
        return [
            serializers.license_event(event, license_events.describe(event), account)
            for event in latest[:MAX_LICENSE_EVENTS]
        ]


class UserDetails(SubjectDetails):
    """A user of the workspace."""

    scope = "user"

    def __init__(
        self, workspace: Workspace, row: "RankedUser", trait_names: list[str] | None = None
    ) -> None:
        super().__init__(workspace, row, row.user, trait_names)

    @cached_property
    def metrics(self) -> Metrics:
        return metrics.compute_user_metrics(self.row, self.score_set, self.counts.all_time)
