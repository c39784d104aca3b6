"""Stamps what changed without being scored, for readers of ``changed_since``.

These are the users of an account whose name or traits changed, which their records and segments
show, and the subjects that a new day, an edited rule, or the scores of others alone move into or
out of a segment.
"""

from collections.abc import Mapping
from copy import copy
from datetime import date, datetime
from typing import Any, LiteralString, TypeAlias, cast

from django.db.models import Case, Q, QuerySet, Value, When
from django.db.models.lookups import Exact

from core.database import locks, nodes, sql
from core.jobs.kinds import Done, More, Outcome
from core.models import Job
from engagement import changes
from engagement.metric_names import MetricName, Scope
from engagement.models import (
    EditedRule,
    MovedThreshold,
    ScoreSet,
    Segment,
    SubjectChange,
    TurnedDay,
)
from engagement.rules.rules import Rule, parse_rule
from engagement.scopes import get_kind
from engagement.scores.rescore_queue import AccountChange
from engagement.segments import members

Kind = SubjectChange.Kind
Pending: TypeAlias = TurnedDay | EditedRule | MovedThreshold
# Subjects per transaction. The product is not scored meanwhile.
STEP = 20_000

# --- Users of changed accounts --------------------------------------------------------------

_USERS_OF: LiteralString = f"""
    SELECT u.id FROM engagement_user u
    WHERE u.product_id = %(product)s AND u.account_id = ANY(%(accounts)b::bigint[])
      AND u.is_identified AND u.joined_to_id IS NULL AND {sql.on_node("u")}
"""


def users_shown_otherwise(product_id: int, account_changes: Mapping[int, int]) -> set[int]:
    """The users whose records or segments show what changed of these accounts, by account id."""
    account_ids = [id for id, change in account_changes.items() if change == AccountChange.NAME]
    if len(account_ids) < len(account_changes) and _has_segments_on_accounts(product_id):
        account_ids = list(account_changes)
    if not account_ids:
        return set()
    parameters = {"product": product_id, "accounts": account_ids}
    return {id for (id,) in sql.fetch(_USERS_OF, parameters)}


def _has_segments_on_accounts(product_id: int) -> bool:
    """Whether a segment of users has a condition on their accounts' traits."""
    condition = [{"kind": "account_trait"}]
    segments = Segment.objects.filter(workspace__product=product_id, scope="user")
    edited = EditedRule.objects.filter(score_set__product=product_id, kind=Kind.USER)
    return (
        segments.filter(conditions__contains=condition).exists()
        or edited.filter(before__conditions__contains=condition).exists()
    )


# --- The turn of the day, edited rules, and moved thresholds --------------------------------


def note_turned_day(score_set: ScoreSet, before: date, day: date) -> None:
    """Have the set's subjects stamped whose segments the new day changes, in the background.

    Readers of a set that is being built start again when it is published.
    """
    if score_set.state == ScoreSet.State.CURRENT:
        TurnedDay.objects.bulk_create(
            TurnedDay(score_set=score_set, kind=kind, before=before, day=day) for kind in Kind
        )


def note_moved_thresholds(before: ScoreSet, after: ScoreSet) -> None:
    """Have the set's subjects stamped, in the background, whom a segment that compares them with
    others got or lost between the two states.

    The caller keeps edits of segments away until its transaction ends.
    """
    if before.state != ScoreSet.State.CURRENT:
        return
    MovedThreshold.objects.bulk_create(
        MovedThreshold(
            score_set=after, kind=kind, metric=metric, low=values.start, high=values.stop
        )
        for kind in Kind
        for metric, values in _moved_values(before, after, kind)
    )


def _moved_values(before: ScoreSet, after: ScoreSet, kind: Kind) -> set[tuple[str, range]]:
    """Metrics with the values that met a condition before, or meet it now, but not both."""
    return {
        moved
        for rule in _known_rules(after, kind)
        for moved in members.moved_values(rule, before, after)
    }


def stamp_pending(job: Job, now: datetime) -> Outcome:
    """A step of a job: stamp some whose segments changed with the day, their rules, or others'
    scores."""
    models: tuple[type[Pending], ...] = (TurnedDay, EditedRule, MovedThreshold)
    for model in models:
        rows: QuerySet[Any] = model.objects.order_by("pk").select_related("score_set")
        for pending in nodes.reachable(rows, "score_set__product_id"):
            if _stamp_some(pending):
                return More()
    return Done()


def _stamp_some(pending: Pending) -> bool:
    """Return False if another worker scores the product, or the rows wait for others."""
    if not locks.try_lock_scoring(pending.score_set.product_id):
        return False
    if isinstance(pending, EditedRule):
        days = TurnedDay.objects.filter(score_set=pending.score_set_id, kind=pending.kind)
        if days.exists():
            # It compares rules on one day, so the days come first.
            return False
    is_current = pending.score_set.state == ScoreSet.State.CURRENT
    moves = _moves(pending) if is_current else Q()
    last = _stamp_step(pending, moves) if moves else None
    if last is None:
        pending.delete()
    else:
        type(pending).objects.filter(pk=pending.pk).update(stamped_until=last)
    return True


def _stamp_step(pending: Pending, moves: Q) -> int | None:
    """Stamp those of the next subjects; return the id of the last one, None if no more follow."""
    score_set, scope = pending.score_set, _scope_of(pending.kind)
    kind = get_kind(scope)
    rows = kind.engagement_rows(score_set).filter(
        **{f"{kind.id_column}__gt": pending.stamped_until}
    )
    ids = rows.order_by(kind.id_column).values_list(kind.id_column, flat=True)
    last: int | None = ids[STEP - 1 : STEP].first()
    if last is not None:
        ids = ids.filter(**{f"{kind.id_column}__lte": last})
    changes.stamp(score_set.product_id, {scope: list(ids.filter(moves))})
    return last


def _scope_of(kind: int) -> Scope:
    return "user" if kind == Kind.USER else "account"


def _moves(pending: Pending) -> Q:
    """Whether a row meets a rule on one of two days only, meets one of two rules only, or lies
    where a threshold moved.

    Empty if no row can.
    """
    score_set, scope = pending.score_set, _scope_of(pending.kind)
    if isinstance(pending, MovedThreshold):
        metric = cast(MetricName, pending.metric)
        return members.metric_within(score_set, scope, metric, range(pending.low, pending.high))
    if isinstance(pending, EditedRule):
        before, after = (_parse(pending, stored) for stored in (pending.before, pending.after))
        return ~Q(Exact(_is_member(score_set, before), _is_member(score_set, after)))
    sets_by_day = [_on_day(score_set, day) for day in (pending.before, pending.day)]
    moves = Q()
    for rule in _known_rules(score_set, pending.kind):
        if not rule.uses_time and not (score_set.half_life_days and rule.uses_points):
            continue
        earlier, later = (_is_member(score_set, rule) for score_set in sets_by_day)
        moves |= ~Q(Exact(earlier, later))
    return moves


def _known_rules(score_set: ScoreSet, kind: int) -> list[Rule]:
    """The rules of the workspace's segments, also those that readers of an edited one know."""
    segments = Segment.objects.filter(workspace=score_set.workspace_id, scope=_scope_of(kind))
    rules = [members.segment_rule(segment) for segment in segments]
    for edited in EditedRule.objects.filter(score_set=score_set, kind=kind):
        rules += filter(None, (_parse(edited, stored) for stored in (edited.before, edited.after)))
    return rules


def _parse(edited: EditedRule, stored: Mapping[str, Any] | None) -> Rule | None:
    return parse_rule(stored, _scope_of(edited.kind)) if stored is not None else None


def _on_day(score_set: ScoreSet, day: date) -> ScoreSet:
    """The (unsaved) set as it is on that day."""
    score_set = copy(score_set)
    score_set.scored_day = day
    return score_set


def _is_member(score_set: ScoreSet, rule: Rule | None) -> Any:
    if rule is None:
        return Value(False)
    matches = members.members_filter(score_set, rule)
    return Case(When(matches, then=Value(True)), default=Value(False))
