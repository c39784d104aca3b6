"""The score of the last days as a line in a row: SVG that is as short as possible."""

from collections.abc import Sequence
from itertools import groupby, pairwise

from django.utils.html import format_html
from django.utils.safestring import SafeString

HEIGHT = 40


def line(scores: Sequence[float]) -> SafeString:
    """A line from score to score, with 0 at the bottom and 100 at the top."""
    heights = [round(HEIGHT * score / 100) for score in scores]
    moves = [before - after for before, after in pairwise(heights)]
    steps = "".join(_step(move, len(list(run))) for move, run in groupby(moves))
    return format_html(
        '<svg viewBox="0 -2 {} {}" preserveAspectRatio="none" aria-hidden="true">'
        '<path d="M0 {}{}"/></svg>',
        len(scores) - 1,
        HEIGHT + 4,
        HEIGHT - heights[0],
        steps,
    )


def _step(move: int, count: int) -> str:
    """A number of equal moves, one to the right and *move* down."""
    return f"h{count}" if move == 0 else f"l1 {move}" * count
