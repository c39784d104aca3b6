"""Stamps what changed without being scored, for readers of ``changed_since``.

These are the users of an account whose name or traits changed, which their records and segments
show, and the subjects that a new day alone moves into or out of a segment.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from datetime import date
from typing import Any, LiteralString

from django.db import transaction
from django.db.models import Case, Q, Value, When
from django.db.models.lookups import Exact

from engagement import changes
from engagement.database import locks, sql
from engagement.metric_names import Scope
from engagement.models import ScoreSet, Segment, SubjectChange, TurnedDay
from engagement.rules.rules import Rule
from engagement.scopes import get_kind
from engagement.scores.rescore_queue import AccountChange
from engagement.segments import members

Kind = SubjectChange.Kind
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
    segments = Segment.objects.filter(workspace__product=product_id, scope="user")
    return segments.filter(conditions__contains=[{"kind": "account_trait"}]).exists()


# --- The turn of the day --------------------------------------------------------------------


def note_turned_day(score_set: ScoreSet, before: date, day: date) -> None:
    """Have the set's subjects stamped whose segments the new day changes, in the background.

    Readers of a set that is being built start again when it is published.
    """
    if score_set.state == ScoreSet.State.CURRENT:
        TurnedDay.objects.bulk_create(
            TurnedDay(score_set=score_set, kind=kind, before=before, day=day) for kind in Kind
        )


def stamp_turned_days(out_of_time: Callable[[], bool]) -> None:
    """Stamp whose segments changed with the day, step by step."""
    for pk in list(TurnedDay.objects.order_by("pk").values_list("pk", flat=True)):
        while not out_of_time() and _stamp_some(pk):
            pass


def _stamp_some(pk: int) -> bool:
    """One step. Return False if nothing is left or another worker scores the product."""
    with transaction.atomic(durable=True):
        turned_day = TurnedDay.objects.filter(pk=pk).select_related("score_set").first()
        if turned_day is None or not locks.try_lock_scoring(turned_day.score_set.product_id):
            return False
        scope: Scope = "user" if turned_day.kind == Kind.USER else "account"
        rules = _rules_on_time(turned_day.score_set, scope)
        if not rules or turned_day.score_set.state != ScoreSet.State.CURRENT:
            turned_day.delete()
            return False
        last = _stamp_step(turned_day, scope, rules)
        if last is None:
            turned_day.delete()
            return False
        TurnedDay.objects.filter(pk=pk).update(stamped_until=last)
        return True


def _stamp_step(turned_day: TurnedDay, scope: Scope, rules: Iterable[Rule]) -> int | None:
    """Stamp those of the next subjects; return the id of the last one, None if no more follow."""
    score_set, kind = turned_day.score_set, get_kind(scope)
    rows = kind.engagement_rows(score_set).filter(
        **{f"{kind.id_column}__gt": turned_day.stamped_until}
    )
    ids = rows.order_by(kind.id_column).values_list(kind.id_column, flat=True)
    last: int | None = ids[STEP - 1 : STEP].first()
    if last is not None:
        rows = rows.filter(**{f"{kind.id_column}__lte": last})
    moving_ids = rows.filter(_moves(turned_day, rules)).values_list(kind.id_column, flat=True)
    changes.stamp(score_set.product_id, {scope: list(moving_ids)})
    return last


def _rules_on_time(score_set: ScoreSet, scope: Scope) -> list[Rule]:
    segments = Segment.objects.filter(workspace=score_set.workspace_id, scope=scope)
    return [rule for rule in map(members.segment_rule, segments) if rule.uses_time]


def _moves(turned_day: TurnedDay, rules: Iterable[Rule]) -> Q:
    """Whether a row meets one of the rules on one of the two days only."""
    moves = Q()
    for rule in rules:
        before, after = (
            _is_member(turned_day, rule, day) for day in (turned_day.before, turned_day.day)
        )
        moves |= ~Q(Exact(before, after))
    return moves


def _is_member(turned_day: TurnedDay, rule: Rule, day: date) -> Any:
    # The (unsaved) set as it is on that day.
    score_set = copy(turned_day.score_set)
    score_set.scored_day = day
    matches = members.members_filter(score_set, rule)
    return Case(When(matches, then=Value(True)), default=Value(False))
