"""Where a score moved by more than readers should miss."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engagement.scores.history import DayScore

# A score moves if it changes by this many points within this many days.
MOVE_POINTS, MOVE_DAYS = 20.0, 7


class ScoreMove(NamedTuple):
    """A time in which each day's score differs by a move from that of a week before, in one
    direction: from the first day that is compared to the last one."""

    since: DayScore
    until: DayScore
    noticed: DayScore

    @property
    def is_rise(self) -> bool:
        return self.noticed.score > self.since.score


def score_moves(days: Sequence[DayScore]) -> Iterator[ScoreMove]:
    """The moves within consecutive complete *days*, oldest first.

    The first day that can be compared begins no move: the one before it is not known.
    """
    move, before = None, None
    for earlier, now in zip(days, days[MOVE_DAYS:], strict=False):
        change = round(now.score - earlier.score, 1)
        direction = None if abs(change) < MOVE_POINTS else change > 0
        if move and direction == move.is_rise:
            move = move._replace(until=now)
        else:
            if move:
                yield move
            is_known = earlier is not days[0]
            is_first = direction is not None and direction != before and is_known
            move = ScoreMove(earlier, now, now) if is_first else None
        before = direction
    if move:
        yield move
