"""Scores in steps of bounded time, so that a bad query plan costs a minute and not a day."""

import logging
import time
from collections.abc import Callable, Collection
from typing import TypeVar

from engagement.database import sql, statistics

logger = logging.getLogger(__name__)

MAX_SUBJECTS_PER_STATEMENT = 5_000
# A scoring statement that takes longer is stopped, and retried with half of its subjects.
STATEMENT_SECONDS = 60.0
# After a step that took less than this share of STATEMENT_SECONDS, the next may be twice as large.
SPEED_UP_BELOW_SHARE = 0.25

ChunkResult = TypeVar("ChunkResult")
_chunk_size = MAX_SUBJECTS_PER_STATEMENT


def score_in_chunks(
    ids: Collection[int], score: Callable[[list[int]], ChunkResult]
) -> list[ChunkResult]:
    """Call *score* with chunks of the ids, in the caller's transaction. Returns its results.

    A subject that cannot be scored in time even by itself keeps its metrics.
    """
    global _chunk_size
    waiting = sorted(ids)
    results: list[ChunkResult] = []
    while waiting:
        chunk = waiting[:_chunk_size]
        started = time.monotonic()
        try:
            with sql.statement_timeout(STATEMENT_SECONDS):
                results.append(score(chunk))
        except sql.StatementTimeout:
            if len(chunk) > 1:
                _chunk_size = len(chunk) // 2
                logger.warning(
                    "Scoring %d subjects took longer than %.0f seconds; scoring %d at a time now.",
                    len(chunk),
                    STATEMENT_SECONDS,
                    _chunk_size,
                )
                statistics.analyze()
                continue
            logger.error(
                "Scoring subject %d takes longer than %.0f seconds; its metrics stay as they are.",
                chunk[0],
                STATEMENT_SECONDS,
            )
        else:
            if time.monotonic() - started < STATEMENT_SECONDS * SPEED_UP_BELOW_SHARE:
                _chunk_size = min(MAX_SUBJECTS_PER_STATEMENT, 2 * _chunk_size)
        del waiting[: len(chunk)]
    return results
