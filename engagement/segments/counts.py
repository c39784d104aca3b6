"""Counts of a score set: its subjects, the members of its segments, its top movers, its insights.

Counting reads every row of the set. Of a small set the counts are live and exact. Of a large set
they come from ``CachedCounts``, which the background refreshes every few minutes. A caller that
asks about many sets selects them with their ``cached_counts``.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, Q, QuerySet

from core.database import sql
from core.jobs import run
from core.jobs.kinds import Later, Outcome
from core.models import Job
from engagement.insight_kinds import INSIGHTS, InsightKind
from engagement.models import CachedCounts, ScoreSet, Segment
from engagement.scopes import ACCOUNTS, USERS, SubjectKind
from engagement.segments import attention, members, movers

logger = logging.getLogger(__name__)

# Limit of a statement that counts in the background.
STATEMENT_TIMEOUT_SECONDS = 60.0
# A set whose counts take longer is read from the cache, unless it has fewer users and accounts than
# a small set: then the machine was busy for a moment.
LIVE_COUNT_SECONDS, SMALL_SET = 0.1, 1000
# How often to check whether a small set has become a large one.
RECHECK_INTERVAL = timedelta(minutes=10)


class SubjectTotals(NamedTuple):
    """The number of subjects in a set, and of those active in its window."""

    users: int = 0
    active_users: int = 0
    accounts: int = 0
    active_accounts: int = 0


# --- Reading --------------------------------------------------------------------------------


def segment_counts(score_set: ScoreSet, segments: Sequence[Segment]) -> dict[int, int]:
    """The number of members of each of the workspace's *segments*, by the segment's id."""
    cached = _usable_cache(score_set)
    counts = _cached_segment_counts(cached, segments) if cached else {}
    missing = [segment for segment in segments if segment.pk not in counts]
    return counts | members.count_members_by_segment(score_set, missing)


def known_segment_counts(score_set: ScoreSet, segments: Sequence[Segment]) -> dict[int, int]:
    """``segment_counts`` for a page. Without those of a large set that the background has not
    counted since they were edited: counting one may take many seconds."""
    cached = _usable_cache(score_set)
    if cached is None:
        return members.count_members_by_segment(score_set, segments)
    return _cached_segment_counts(cached, segments)


def subject_totals(score_sets: Iterable[ScoreSet]) -> dict[int, SubjectTotals]:
    """The totals of the sets, by their ids."""
    score_sets = list(score_sets)
    caches = filter(None, map(_usable_cache, score_sets))
    totals = {cached.score_set_id: _cached_totals(cached) for cached in caches}
    return totals | _count_totals([each for each in score_sets if each.pk not in totals])


def counted_at(score_set: ScoreSet) -> datetime | None:
    """When the set's counts were counted; None if they are counted live."""
    cached = _usable_cache(score_set)
    return cached.counted_at if cached else None


def top_movers(score_set: ScoreSet) -> movers.Movers:
    """The accounts whose scores rose and fell most over one lookback."""
    cached = _usable_cache(score_set)
    if cached is None:
        return movers.find_movers(score_set)
    return movers.load_movers(score_set, cached.rising, cached.falling, cached.newest)


def accounts_needing_attention(score_set: ScoreSet) -> attention.Attention:
    """The number of accounts with each insight, and those that cost most."""
    cached = _usable_cache(score_set)
    if cached is None:
        ranking = attention.rank_insights(score_set)
    else:
        ranking = attention.Ranking(_in_order(cached.insights), cached.costliest)
    return attention.load_attention(score_set, ranking)


def cached_insight_count(score_set: ScoreSet, kind: str) -> int | None:
    """The number of accounts with the insight; None if it is to be counted live."""
    cached = _usable_cache(score_set)
    return int(cached.insights.get(kind, 0)) if cached else None


def last_insight_counts(score_set: ScoreSet) -> dict[InsightKind, int]:
    """The number of accounts with each insight when the set was last counted, of a small set up to
    ``RECHECK_INTERVAL`` ago. Costs nothing, for pages with many sets."""
    cached = _cached_counts(score_set)
    return _in_order(cached.insights) if cached else {}


def _in_order(insights: Mapping[str, int]) -> dict[InsightKind, int]:
    return {kind: insights[kind] for kind in INSIGHTS if kind in insights}


def _usable_cache(score_set: ScoreSet) -> CachedCounts | None:
    """The set's cached counts, if the set is too large to count live."""
    cached = _cached_counts(score_set)
    return cached if cached and cached.seconds > LIVE_COUNT_SECONDS else None


def _cached_counts(score_set: ScoreSet) -> CachedCounts | None:
    cached: CachedCounts | None = getattr(score_set, "cached_counts", None)
    return cached


def _cached_segment_counts(cached: CachedCounts, segments: Iterable[Segment]) -> dict[int, int]:
    """The cached counts of the segments whose rule has not changed since."""
    counts = {segment.pk: cached.members.get(_rule_key(segment)) for segment in segments}
    return {pk: count for pk, count in counts.items() if count is not None}


def _rule_key(segment: Segment) -> str:
    return f"{segment.pk} {segment.updated_at.isoformat()}"


def _cached_totals(cached: CachedCounts) -> SubjectTotals:
    return SubjectTotals(cached.users, cached.active_users, cached.accounts, cached.active_accounts)


def _count_totals(score_sets: Sequence[ScoreSet]) -> dict[int, SubjectTotals]:
    """Counts the totals of the sets with two queries."""
    if not score_sets:
        return {}
    users, accounts = (_count_rows(kind, score_sets) for kind in (USERS, ACCOUNTS))
    return {
        score_set.pk: SubjectTotals(
            *users.get(score_set.pk, (0, 0)), *accounts.get(score_set.pk, (0, 0))
        )
        for score_set in score_sets
    }


def _count_rows(kind: SubjectKind, score_sets: Sequence[ScoreSet]) -> dict[int, tuple[int, int]]:
    """All rows and those with points, by the set's id."""
    rows = kind.engagement_model._default_manager.filter(
        product_id__in={score_set.product_id for score_set in score_sets},
        score_set__in=score_sets,
    )
    active = Q(raw__gt=0) & (Q(score_set__half_life_days=None) | Q(event_count__gt=0))
    counts = rows.values_list("score_set_id").annotate(
        total=Count("raw"), active=Count("raw", filter=active)
    )
    return {pk: (total, active) for pk, total, active in counts}


# --- Refreshing -----------------------------------------------------------------------------


def refresh(job: Job, score_set: ScoreSet, now: datetime) -> Outcome:
    """Count a current set, as a step of its job."""
    seconds = recount(score_set, now, partial(run.holding, job))
    return Later() if seconds > LIVE_COUNT_SECONDS else Later(now + RECHECK_INTERVAL)


def recount(
    score_set: ScoreSet,
    now: datetime,
    begin: Callable[[], AbstractContextManager[Any]] = transaction.atomic,
) -> float:
    """Count the set, and cache the result in the transaction that *begin* begins; return the
    seconds that counting took. What takes too long keeps its last result."""
    # Cleared first: a change during the count makes the counts stale again.
    ScoreSet.objects.filter(pk=score_set.pk).update(cached_counts_stale=False)
    totals, seconds = _count(score_set)
    if totals.get("users", SMALL_SET) + totals.get("accounts", 0) < SMALL_SET:
        seconds = min(seconds, LIVE_COUNT_SECONDS)
    totals |= {"counted_at": now, "seconds": seconds}
    with begin():
        if "users" in totals:
            CachedCounts.objects.update_or_create(score_set=score_set, defaults=totals)
        else:
            CachedCounts.objects.filter(score_set=score_set).update(**totals)
    return seconds


def _count(score_set: ScoreSet) -> tuple[dict[str, Any], float]:
    """What could be counted in time, and the seconds that it took."""
    started = time.monotonic()
    totals: dict[str, Any] = {}
    for name, count in _PARTS.items():
        if name in _WITHOUT_ACCOUNTS and totals.get("accounts") == 0:
            totals |= _WITHOUT_ACCOUNTS[name]
            continue
        try:
            with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
                totals |= count(score_set)
        except sql.StatementTimeout:
            logger.warning("Counting the %s of score set %d took too long.", name, score_set.pk)
    return totals, time.monotonic() - started


def _totals(score_set: ScoreSet) -> dict[str, Any]:
    return _count_totals([score_set])[score_set.pk]._asdict()


def _members(score_set: ScoreSet) -> dict[str, Any]:
    segments = list(Segment.objects.filter(workspace=score_set.workspace_id))
    counts = members.count_members_by_segment(score_set, segments)
    return {"members": {_rule_key(segment): counts[segment.pk] for segment in segments}}


def _movers(score_set: ScoreSet) -> dict[str, Any]:
    movers_found = movers.find_movers(score_set)
    return {
        "rising": [mover.account.pk for mover in movers_found.rising],
        "falling": [mover.account.pk for mover in movers_found.falling],
        "newest": [mover.account.pk for mover in movers_found.new],
    }


def _insights(score_set: ScoreSet) -> dict[str, Any]:
    ranking = attention.rank_insights(score_set)
    return {"insights": ranking.counts, "costliest": ranking.account_ids}


# Each reads every row of the set.
_PARTS: dict[str, Callable[[ScoreSet], dict[str, Any]]] = {
    "subjects": _totals,
    "members of segments": _members,
    "movers": _movers,
    "insights": _insights,
}
# What these parts are if there are no accounts.
_WITHOUT_ACCOUNTS: dict[str, dict[str, Any]] = {
    "movers": {"rising": [], "falling": [], "newest": []},
    "insights": {"insights": {}, "costliest": {}},
}


def invalidate(score_set_ids: Iterable[int]) -> None:
    """Mark the sets' cached counts and watches as stale, in the caller's transaction or its own."""
    unmarked = Q(cached_counts_stale=False) | Q(watches_stale=False)
    _mark(ScoreSet.objects.filter(unmarked, pk__in=score_set_ids))


def invalidate_scored(score_set_ids: Iterable[int]) -> None:
    """As ``invalidate``, in the transaction that scored. Also locks sets that are marked already: a
    sweep that clears the mark must wait for this transaction, to see what it wrote."""
    _mark(ScoreSet.objects.filter(pk__in=score_set_ids))


def _mark(score_sets: QuerySet[ScoreSet]) -> None:
    score_sets.update(cached_counts_stale=True, watches_stale=True)
