"""How many: the totals of a set of scores, the members of its segments, and its extremes.

Counting reads every row of the set. Where that is quick it is done when somebody asks, and what is
answered is exact; of a large set people get what the background counted last, which is at most some
minutes old. Whoever asks about many sets selects them with their ``tally``.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, Q

from engagement.database import sql
from engagement.models import (
    AccountEngagement,
    CachedCounts,
    ScoreSet,
    Segment,
    UserEngagement,
)
from engagement.segments import members as segments
from engagement.segments import movers

logger = logging.getLogger(__name__)

# A statement that counts in the background is stopped after so many seconds.
STATEMENT_TIMEOUT_SECONDS = 60.0
# Seconds of counting that somebody who asks may wait for.
LIVE_COUNT_SECONDS = 0.1
# Counting a large set may take up to this share of the time.
MAX_TIME_SHARE = 0.05
# A small set is looked at so often to see whether it has become a large one.
RECHECK_INTERVAL = timedelta(minutes=10)


class SubjectTotals(NamedTuple):
    """How many subjects a set scores, and how many of them were active in its window."""

    users: int = 0
    active_users: int = 0
    accounts: int = 0
    active_accounts: int = 0


# --- Asked for ------------------------------------------------------------------------------


def segment_counts(score_set: ScoreSet, asked: Sequence[Segment]) -> dict[int, int]:
    """How many members each of the segments of the set's workspace has, by its id."""
    tally = _kept(score_set)
    known = _counted(tally, asked) if tally else {}
    others = [segment for segment in asked if segment.pk not in known]
    return known | segments.count_members_by_segment(score_set, others)


def subject_totals(score_sets: Iterable[ScoreSet]) -> dict[int, SubjectTotals]:
    """The totals of the sets, by their ids."""
    asked = list(score_sets)
    tallies = [tally for tally in map(_kept, asked) if tally]
    known = {tally.score_set_id: _totals_of(tally) for tally in tallies}
    return known | _count_totals([one for one in asked if one.pk not in known])


def top_movers(score_set: ScoreSet) -> movers.Movers:
    """The accounts whose scores rose and fell most over one lookback."""
    tally = _kept(score_set)
    if tally is None:
        return movers.find_movers(score_set)
    return movers.load_movers(score_set, tally.rising, tally.falling)


def _kept(score_set: ScoreSet) -> CachedCounts | None:
    """The set's tally, if it is too large to be counted on the spot."""
    tally = _taken(score_set)
    return tally if tally and tally.seconds > LIVE_COUNT_SECONDS else None


def _taken(score_set: ScoreSet) -> CachedCounts | None:
    tally: CachedCounts | None = getattr(score_set, "cached_counts", None)
    return tally


def _counted(tally: CachedCounts, asked: Iterable[Segment]) -> dict[int, int]:
    """The counts of those of the segments whose rule is still the one that was counted."""
    of_rule = {segment.pk: tally.members.get(_rule_key(segment)) for segment in asked}
    return {pk: count for pk, count in of_rule.items() if count is not None}


def _rule_key(segment: Segment) -> str:
    return f"{segment.pk} {segment.updated_at.isoformat()}"


def _totals_of(tally: CachedCounts) -> SubjectTotals:
    return SubjectTotals(tally.users, tally.active_users, tally.accounts, tally.active_accounts)


def _count_totals(score_sets: Sequence[ScoreSet]) -> dict[int, SubjectTotals]:
    """The totals of the sets with two queries."""
    if not score_sets:
        return {}
    users, accounts = (_per_set(model, score_sets) for model in (UserEngagement, AccountEngagement))
    nobody = (0, 0)
    return {
        one.pk: SubjectTotals(*users.get(one.pk, nobody), *accounts.get(one.pk, nobody))
        for one in score_sets
    }


def _per_set(
    model: type[UserEngagement] | type[AccountEngagement], score_sets: Sequence[ScoreSet]
) -> dict[int, tuple[int, int]]:
    rows = model._default_manager.filter(
        product_id__in={one.product_id for one in score_sets}, score_set__in=score_sets
    )
    counted = rows.values_list("score_set_id").annotate(
        every=Count("raw"), active=Count("raw", filter=Q(raw__gt=0))
    )
    return {pk: (every, active) for pk, every, active in counted}


# --- Taken in the background ----------------------------------------------------------------


def refresh_due(now: datetime) -> None:
    """Count the current sets whose scores or segments changed, where they are due again."""
    stale = ScoreSet.objects.filter(cached_counts_stale=True, state=ScoreSet.State.CURRENT)
    for score_set in stale.select_related("cached_counts"):
        if _is_due(_taken(score_set), now):
            try_recount(score_set, now)


def _is_due(tally: CachedCounts | None, now: datetime) -> bool:
    if tally is None:
        return True
    if tally.seconds > LIVE_COUNT_SECONDS:
        return now >= tally.counted_at + timedelta(seconds=tally.seconds / MAX_TIME_SHARE)
    return now >= tally.counted_at + RECHECK_INTERVAL


def try_recount(score_set: ScoreSet, now: datetime) -> None:
    """Count the set as it is now, unless a statement of that takes too long. What was counted
    before is then kept, and the next try is as far away as after a count of that length."""
    try:
        recount(score_set, now)
    except sql.StatementTimeout:
        logger.warning("Score set %d was not counted: it took too long.", score_set.pk)
        CachedCounts.objects.filter(score_set=score_set).update(
            counted_at=now, seconds=STATEMENT_TIMEOUT_SECONDS
        )


def recount(score_set: ScoreSet, now: datetime) -> None:
    """Count the set as it is now. Raises sql.TookTooLong."""
    # Cleared first: what changes while this counts makes it stale again.
    ScoreSet.objects.filter(pk=score_set.pk).update(cached_counts_stale=False)
    started = time.monotonic()
    own = list(Segment.objects.filter(workspace=score_set.workspace_id))
    with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        counts = segments.count_members_by_segment(score_set, own)
        total = _count_totals([score_set])[score_set.pk]
        found = movers.find_movers(score_set)
    CachedCounts.objects.update_or_create(
        score_set=score_set,
        defaults={
            **total._asdict(),
            "members": {_rule_key(segment): counts[segment.pk] for segment in own},
            "rising": [mover.account.pk for mover in found.rising],
            "falling": [mover.account.pk for mover in found.falling],
            "counted_at": now,
            "seconds": time.monotonic() - started,
        },
    )


def invalidate(score_sets: Iterable[int]) -> None:
    """Have the sets counted again, in the caller's transaction or its own."""
    ScoreSet.objects.filter(pk__in=score_sets, cached_counts_stale=False).update(
        cached_counts_stale=True
    )
