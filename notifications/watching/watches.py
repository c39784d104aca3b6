"""Watches: which set a subscription needs, and the filter that selects its members."""

from functools import cached_property
from typing import Any

from django.db.models import Q, Value

from engagement.activity.reading import last_replay
from engagement.insight_kinds import ABOUT_SEATS
from engagement.metric_names import Scope
from engagement.models import ScoreSet, Workspace
from engagement.rules.rules import (
    ActivationCondition,
    ActivityCondition,
    ChanceCondition,
    InsightCondition,
    MetricCondition,
    Rule,
    rule_to_json,
)
from engagement.scopes import SubjectKind, get_kind
from engagement.scores.activation import current
from engagement.segments import members
from engagement.segments.insight_filters import insight_filter
from notifications.models import Subscription, Watch
from notifications.triggers import ACTIVATION, CHANCES, TRIGGERS, Trigger
from notifications.watching.insights import BY_ALARMS, SIGNALS, insight_kind


def assign_watch(subscription: Subscription) -> None:
    """Set the subscription's watch, which other subscriptions to the same set share. Saves it.

    The next sweep stores the members and sends nothing, whatever the subscription was about
    before.
    """
    watch, _ = Watch.objects.get_or_create(
        product_id=subscription.product_id,
        key=_watch_key(subscription),
        defaults={
            "workspace_id": subscription.workspace_id,
            "segment_id": subscription.segment_id,
        },
    )
    # The next sweep starts the subscription. It comes soon, even if no scores change.
    Watch.objects.filter(pk=watch.pk).update(is_stale=True)
    subscription.watch = watch
    subscription.started_at = None
    Subscription.objects.filter(pk=subscription.pk).update(watch=watch, started_at=None)


def _watch_key(subscription: Subscription) -> str:
    """What two subscriptions to the same set have in common."""
    match subscription.trigger:
        case Trigger.SEGMENT_ENTERED | Trigger.SEGMENT_LEFT:
            return f"segment {subscription.segment_id}"
        case Trigger.INSIGHT_STARTED | Trigger.INSIGHT_ENDED:
            return f"insight {subscription.workspace_id} {subscription.insight}"
        case Trigger.SCORE_CROSSED:
            place = f"{subscription.workspace_id} {subscription.scope}"
            return f"score {place} {subscription.threshold:g}"
        case Trigger.SCORE_MOVED:
            place = f"{subscription.workspace_id} {subscription.scope}"
            return f"moved {place} {subscription.direction} {subscription.threshold:g}"
        case trigger if trigger in CHANCES:
            chance = CHANCES[Trigger(trigger)]
            return f"chance {subscription.workspace_id} {chance} {subscription.threshold:g}"
        case trigger if trigger in ACTIVATION:
            return f"{trigger} {subscription.workspace_id} {subscription.scope}"
        case Trigger.ACCOUNT_FIRST_EVENT:
            return f"first event {subscription.workspace_id}"
    threshold = "" if subscription.threshold is None else f" {subscription.threshold:g}"
    return f"{subscription.trigger}{threshold}"


class WatchedSet:
    """The set that a watch is about, in the workspace's scores of this moment.

    ``definition`` changes with the rule and with the score set, which a change of weights replaces.
    Of a set by seats, it changes with whom they are for, and of one by activation with the steps.
    Of a set by alarms, it also changes with the level of the alarms, and when a replay decides them
    again. But a replay changes nothing about an insight that tells of one alarm: its alarms say
    whether they are news (``told_to_nobody``).
    """

    def __init__(self, watch: Watch, subscription: Subscription, score_set: ScoreSet) -> None:
        self.score_set = score_set
        self.kind: SubjectKind = get_kind(_scope(subscription))
        rule = _rule(watch, subscription, self.kind.scope)
        self.definition = f"{score_set.pk} {_text(rule) if rule else watch.key}"
        self.definition += _alarms_version(score_set, rule, subscription)
        self.definition += _seats_version(score_set, rule, subscription)
        self.definition += _steps_version(score_set, rule)
        self._rule, self._subscription = rule, subscription

    def rows(self) -> Any:
        """The engagement rows of the members."""
        return self.kind.engagement_rows(self.score_set).filter(self._filter)

    @cached_property
    def _filter(self) -> Q:
        if self._rule is not None:
            return members.members_filter(self.score_set, self._rule)
        if self._subscription.insight:
            kind = insight_kind(self._subscription.insight)
            return insight_filter(kind, self.score_set) if kind else Q(Value(False))
        return Q(last_active_at__isnull=False)


def _scope(subscription: Subscription) -> Scope:
    if subscription.segment is not None:
        return get_kind(subscription.segment.scope).scope
    return "user" if subscription.scope == "user" else "account"


def _rule(watch: Watch, subscription: Subscription, scope: Scope) -> Rule | None:
    threshold = subscription.threshold or 0
    match subscription.trigger:
        case Trigger.SEGMENT_ENTERED | Trigger.SEGMENT_LEFT:
            assert watch.segment is not None
            return members.segment_rule(watch.segment)
        case Trigger.SCORE_CROSSED:
            condition = MetricCondition("engagement_score", "at_least", threshold)
            return Rule(scope, "all", (condition,))
        case Trigger.SCORE_MOVED if subscription.direction == Subscription.Direction.UP:
            return Rule(scope, "all", (MetricCondition("score_change", "at_least", threshold),))
        case Trigger.SCORE_MOVED:
            return Rule(scope, "all", (MetricCondition("score_change", "at_most", -threshold),))
        case trigger if trigger in ACTIVATION:
            return Rule(scope, "all", (ActivationCondition(ACTIVATION[Trigger(trigger)]),))
        case trigger if trigger in CHANCES:
            low = ChanceCondition(CHANCES[Trigger(trigger)], "below", int(threshold))
            return Rule(scope, "all", (low,))
    return None


def _alarms_version(score_set: ScoreSet, rule: Rule | None, subscription: Subscription) -> str:
    level = score_set.workspace.alarm_level
    if subscription.insight in SIGNALS:
        return f" alarms {level}"
    conditions = rule.conditions if rule else ()
    if subscription.insight in BY_ALARMS or any(
        isinstance(each, InsightCondition | ActivityCondition) for each in conditions
    ):
        return f" alarms {level} {last_replay(score_set)}"
    return ""


def _seats_version(score_set: ScoreSet, rule: Rule | None, subscription: Subscription) -> str:
    conditions = rule.conditions if rule else ()
    is_by_seats = subscription.insight in ABOUT_SEATS or any(
        (isinstance(each, InsightCondition) and each.insight in ABOUT_SEATS)
        or (isinstance(each, MetricCondition) and each.metric == "license_utilization")
        for each in conditions
    )
    return f" seats {score_set.seats}" if is_by_seats else ""


def _steps_version(score_set: ScoreSet, rule: Rule | None) -> str:
    if rule and any(isinstance(each, ActivationCondition) for each in rule.conditions):
        steps = current(score_set.workspace_id, rule.scope)
        return f" steps {steps.pk if steps else 0}"
    return ""


def _text(rule: Rule) -> str:
    return str(rule_to_json(rule))


def tells_entered(subscription: Subscription) -> bool:
    """Whether the subscription is about subjects that enter the watched set, or that leave it."""
    match subscription.trigger:
        case Trigger.SEGMENT_LEFT | Trigger.INSIGHT_ENDED:
            return False
        case Trigger.SCORE_CROSSED:
            return subscription.direction == Subscription.Direction.UP
    return True


def is_about_product(subscription: Subscription) -> bool:
    return TRIGGERS[Trigger(subscription.trigger)].is_about_product


def current_scores(workspace: Workspace | None) -> ScoreSet | None:
    """The workspace's score set that readers see, if it has one."""
    scores = workspace.scores if workspace else None
    return scores if scores is not None and scores.scored_day is not None else None
