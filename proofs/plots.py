"""Plots of proofs for the documents, as SVG that is readable in light and dark."""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from outcomes.statistics.estimates import Estimate

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.quiet { fill: #59636e; }
.band { fill: #ddf4ff; }
.line { stroke: #8c959f; stroke-dasharray: 4 3; }
.frame { stroke: #d1d9e0; fill: none; }
.own { stroke: #0969da; stroke-width: 2; }
circle.own { fill: #0969da; stroke: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .quiet { fill: #9198a1; }
  .band { fill: #0c2d6b; }
  .line { stroke: #656c76; }
  .frame { stroke: #3d444d; }
  .own { stroke: #4493f8; }
  circle.own { fill: #4493f8; }
}
"""


class Panel(NamedTuple):
    """What was expected (0 to 1), and what was observed of it."""

    title: str
    points: Sequence[tuple[float, Estimate]]


class Row(NamedTuple):
    """A share with its interval. ``group`` is a heading above the first row that has it."""

    group: str
    name: str
    share: Estimate


# --- Expected and observed --------------------------------------------------------------------

_SIDE, _GAP, _LEFT, _TOP = 165, 46, 56, 34


def write_calibration(path: Path, title: str, panels: Sequence[Panel]) -> None:
    """A square for each panel: across what was expected, up what was observed. On the dashed line,
    both are the same."""
    width = _LEFT + len(panels) * (_SIDE + _GAP)
    parts: list[str] = []
    for number, panel in enumerate(panels):
        parts += _panel(panel, _LEFT + number * (_SIDE + _GAP), is_first=not number)
    middle = _LEFT + (width - _LEFT - _GAP) / 2
    parts.append(_text(middle, _TOP + _SIDE + 44, "chance that was told", "quiet", "middle"))
    side = f'transform="rotate(-90 14 {_TOP + _SIDE / 2})"'
    parts.append(_text(14, _TOP + _SIDE / 2, "share that was good", "quiet", "middle", side))
    _write(path, title, width, _TOP + _SIDE + 56, parts)


def _panel(panel: Panel, start: float, *, is_first: bool) -> Iterator[str]:
    bottom = _TOP + _SIDE
    yield _text(start, _TOP - 12, panel.title)
    yield f'<rect class="frame" x="{start}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}"/>'
    yield _line("line", start, bottom, start + _SIDE, _TOP)
    for share in (0.0, 0.5, 1.0):
        place = start + share * _SIDE
        yield _text(place, bottom + 18, f"{share:.0%}", "quiet", "middle")
        if is_first:
            yield _text(start - 6, bottom - share * _SIDE + 4, f"{share:.0%}", "quiet", "end")
    for expected, observed in panel.points:
        x, ends = start + expected * _SIDE, (observed.low, observed.high)
        yield _line("own", x, *(bottom - ends[0] * _SIDE, x, bottom - ends[1] * _SIDE))
        yield f'<circle class="own" cx="{x:.1f}" cy="{bottom - observed.value * _SIDE:.1f}" r="3"/>'


# --- Shares that were covered -----------------------------------------------------------------

_NAMES, _WIDTH, _ROW, _FROM = 330, 380, 22, 0.6


def write_coverage(
    path: Path, title: str, rows: Sequence[Row], promised: float, bars: tuple[float, float]
) -> None:
    """A line for each row: the share that was covered, with its interval, beside the promised one.
    The background has the shares between both bars."""
    places, y, group = [], 20.0, ""
    for row in rows:
        y += _ROW * (1 + (row.group != group) * 1.2)
        group = row.group
        places.append(y)
    bottom = y + 14
    parts = [
        f'<rect class="band" x="{_at(bars[0]):.1f}" y="12" '
        f'width="{_at(bars[1]) - _at(bars[0]):.1f}" height="{bottom - 12:.1f}"/>',
        _line("line", _at(promised), 12, _at(promised), bottom),
    ]
    group = ""
    for row, y in zip(rows, places, strict=True):
        if row.group != group:
            group = row.group
            parts.append(_text(8, y - _ROW, group, "quiet"))
        parts.append(_text(8, y + 4, row.name))
        parts.append(_line("own", _at(row.share.low), y, _at(row.share.high), y))
        parts.append(f'<circle class="own" cx="{_at(row.share.value):.1f}" cy="{y:.1f}" r="4"/>')
    for share in (_FROM, bars[0], promised, bars[1], 1.0):
        parts.append(_text(_at(share), bottom + 18, f"{share:.0%}", "quiet", "middle"))
    _write(path, title, _NAMES + _WIDTH + 24, bottom + 30, parts)


def _at(share: float) -> float:
    return _NAMES + (max(share, _FROM) - _FROM) / (1 - _FROM) * _WIDTH


# --- SVG --------------------------------------------------------------------------------------


def _line(name: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{name}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(
    x: float, y: float, text: str, name: str = "", anchor: str = "start", more: str = ""
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{name}" text-anchor="{anchor}" {more}>'
        f"{escape(text)}</text>"
    )


def _write(path: Path, title: str, width: float, height: float, parts: Sequence[str]) -> None:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        *parts,
        "</svg>",
    ]
    path.write_text("\n".join(lines) + "\n")
