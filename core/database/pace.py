"""Steps of bounded time: of moving rows, so that others get their turn, and of scoring, so that a
bad query plan costs a minute and not a day."""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

from core.database import sql, statistics

logger = logging.getLogger(__name__)

MAX_SUBJECTS_PER_STATEMENT = 5_000
# A scoring statement that takes longer is stopped, and retried with half of its subjects.
STATEMENT_SECONDS = 60.0
# After a step that took less than this share of STATEMENT_SECONDS, the next may be twice as large.
SPEED_UP_BELOW_SHARE = 0.25

# A step that moves rows should take this long, and is adapted within these sizes.
STEP_SECONDS = 0.2
MIN_ROWS_PER_STEP, MAX_ROWS_PER_STEP = 500, 5_000
# The pause after such a step, as a share of its time. PostgreSQL does not give a row lock to who
# has waited longest. Without the pause the next step would mostly take it again before the waiting
# worker wakes up.
PAUSE_SHARE = 0.2

ChunkResult = TypeVar("ChunkResult")
_chunk_size = MAX_SUBJECTS_PER_STATEMENT


class Steps:
    """The size of one process's background steps, which lock what others wait for.

    It follows how long they take, for a busy machine takes many times as long as an idle one.
    """

    def __init__(self) -> None:
        self.size = MAX_ROWS_PER_STEP

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Fit the size to the time that the block takes, which is a step."""
        started = time.monotonic()
        yield
        factor = min(2.0, STEP_SECONDS / max(time.monotonic() - started, 0.001))
        self.size = max(MIN_ROWS_PER_STEP, min(MAX_ROWS_PER_STEP, int(self.size * factor)))


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
