"""Scoring in steps of bounded time: a plan that goes wrong costs a minute, and not the day."""

import logging
import time
from collections.abc import Callable, Collection
from typing import TypeVar

from engagement.database import sql, statistics

logger = logging.getLogger(__name__)

# So many subjects are scored by one statement at most.
MAX_SUBJECTS_PER_STATEMENT = 5_000
# A statement of rescoring that takes longer is stopped, and tried again with half of its subjects.
STATEMENT_SECONDS = 60.0
# After a step that took less than this share of the time, the next one may be twice as large.
SPEED_UP_BELOW_SHARE = 0.25

ChunkResult = TypeVar("ChunkResult")
_at_once = MAX_SUBJECTS_PER_STATEMENT


def score_in_chunks(
    ids: Collection[int], score: Callable[[list[int]], ChunkResult]
) -> list[ChunkResult]:
    """Call *score* with some of the ids at a time, in the caller's transaction; what it returned.

    A subject that cannot be scored in time even by itself keeps its numbers.
    """
    global _at_once
    waiting = sorted(ids)
    done: list[ChunkResult] = []
    while waiting:
        some = waiting[:_at_once]
        started = time.monotonic()
        try:
            with sql.statement_timeout(STATEMENT_SECONDS):
                done.append(score(some))
        except sql.StatementTimeout:
            if len(some) > 1:
                _at_once = len(some) // 2
                logger.warning(
                    "Scoring %d subjects took longer than %.0f seconds: now %d at a time.",
                    len(some),
                    STATEMENT_SECONDS,
                    _at_once,
                )
                statistics.analyze()
                continue
            logger.error(
                "Scoring subject %d takes longer than %.0f seconds: its numbers stay as they are.",
                some[0],
                STATEMENT_SECONDS,
            )
        else:
            if time.monotonic() - started < STATEMENT_SECONDS * SPEED_UP_BELOW_SHARE:
                _at_once = min(MAX_SUBJECTS_PER_STATEMENT, 2 * _at_once)
        del waiting[: len(some)]
    return done
