"""Charts for pages, made on the server as SVG: a line, stacked bars, a sparkline.

They work under the strict content security policy (no inline style, no script), follow the
admin's light and dark colours, keep their text at reading size on a phone, and say in words and
in a table what they show. ``engagement/charts.css`` goes with them; each page of a
``ProductScopedAdmin`` has it already.

    from engagement import charts

    context["curve"] = charts.line(
        "Score of the last 90 days",
        [charts.day(one.day) for one in history],
        [charts.Series("Score", [one.score for one in history])],
        top=100,
    )
    context["drops"] = charts.bars(
        "Dropped messages per day",
        [charts.day(day) for day in days],
        [charts.Series("Unknown key", [3, 0, 7], url="?reason=unknown_key")],
    )
    context["trend"] = charts.sparkline("Score of the last 30 days", [12.5, None, 80.0])

In the template it is ``{{ curve }}``. A value that is None is a gap: nothing is known, which is not
the same as zero. Titles are unique on a page, because they name the chart to screen readers.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.text import slugify

# So many labels stand side by side on a phone.
MAX_LABELS = 5
# A chart has so many colours of its own; the stylesheet knows them as tone-1 and so on.
TONE_COUNT = 8
# The part of its place that a bar takes; the rest keeps it apart from the next one.
BAR_WIDTH_SHARE = 0.78

ChartValue = float | None


@dataclass(frozen=True)
class Series:
    """One line, or one part of every bar. *tone* is its colour from 1 to ``TONES``; None for the
    next one in turn. With *url* its name in the legend is a link."""

    name: str
    values: Sequence[ChartValue]
    tone: int | None = None
    url: str = ""


def line(
    title: str, labels: Sequence[str], series: Sequence[Series], *, top: float | None = None
) -> SafeString:
    """A line for each series, from zero to *top* (by default a round number above the highest)."""
    frame = _Frame(title, labels, series, top or _round_top(_known(series)))
    lines = [_Line.of(one, frame) for one in frame.series]
    return frame.rendered("line", lines=lines, hits=list(_hits(frame)), desc=_span(frame))


def bars(title: str, labels: Sequence[str], series: Sequence[Series]) -> SafeString:
    """A bar for each label, made of the values of all series one above the other."""
    sums = _sums(labels, series)
    frame = _Frame(title, labels, series, _round_top(sums), is_bars=True)
    return frame.rendered(
        "bars", parts=list(_parts(frame)), hits=list(_hits(frame)), desc=_total(frame, sums)
    )


def sparkline(title: str, values: Sequence[ChartValue]) -> SafeString:
    """A line as small as a word, for a table's cell; *title* is what it says without being seen."""
    top = max([value for value in values if value is not None], default=0) or 1
    known = [value for value in values if value is not None]
    said = (
        f"{title}: {format_number(known[0])} to {format_number(known[-1])}"
        if known
        else f"{title}: nothing"
    )
    context = {"said": said, "paths": [_path(run) for run in _runs(values, top)]}
    return _render("sparkline", context)


def day_label(of: date) -> str:
    """A day as the charts' labels write it."""
    return f"{of.day} {of:%b}"


def format_number(value: ChartValue) -> str:
    """A number as people read it: whole, or with one decimal; "–" where there is none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


# --- What both kinds share ------------------------------------------------------------------


@dataclass(frozen=True)
class _Tick:
    """A label at an axis; *at* is a percentage of the axis."""

    text: str
    at: float
    anchor: str = "middle"


@dataclass(frozen=True)
class _Hit:
    """What is said where somebody points at a place of the x axis."""

    x: float
    width: float
    said: str


class _Frame:
    """The axes, the legend and the table around a drawing. Places are percentages."""

    def __init__(
        self,
        title: str,
        labels: Sequence[str],
        series: Sequence[Series],
        top: float,
        is_bars: bool = False,
    ) -> None:
        self.title, self.labels, self.top, self.is_bars = title, labels, top, is_bars
        self.series = [
            Series(one.name, one.values, one.tone or index % TONE_COUNT + 1, one.url)
            for index, one in enumerate(series)
        ]

    def x(self, index: int) -> float:
        """Where the middle of a label's place is."""
        count = len(self.labels)
        if self.is_bars:
            return 100 * (index + 0.5) / count
        return 100 * index / (count - 1) if count > 1 else 50.0

    def height(self, value: float) -> float:
        return 100 * min(value, self.top) / self.top

    def rendered(self, kind: str, **drawing: object) -> SafeString:
        known = _known(self.series)
        context = {
            "id": f"chart-{slugify(self.title)}",
            "title": self.title,
            "series": self.series,
            "is_empty": not any(known) if self.is_bars else not known,
            "across": list(self._across()),
            "upwards": [
                _Tick(format_number(self.top * part), 100 - 100 * part) for part in (0, 0.5, 1)
            ],
            "rows": [
                (label, [format_number(one.values[index]) for one in self.series])
                for index, label in enumerate(self.labels)
            ],
            **drawing,
        }
        return _render(kind, context)

    def _across(self) -> Iterator[_Tick]:
        last = len(self.labels) - 1
        step = max(1, math.ceil(last / (MAX_LABELS - 1)))
        # Counted from the end, because the newest is what people look for.
        for index in range(last, -1, -step):
            at = self.x(index)
            anchor = "end" if at > 95 else "start" if at < 5 else "middle"
            yield _Tick(self.labels[index], at, anchor)


def _hits(frame: _Frame) -> Iterator[_Hit]:
    width = 100 / max(1, len(frame.labels))
    for index, label in enumerate(frame.labels):
        told = [
            f"{one.name} {format_number(one.values[index])}"
            for one in frame.series
            if one.values[index] or not frame.is_bars
        ]
        yield _Hit(frame.x(index) - width / 2, width, f"{label}: {', '.join(told) or 'none'}")


def _known(series: Sequence[Series]) -> list[float]:
    return [value for one in series for value in one.values if value is not None]


def _round_top(values: Sequence[float]) -> float:
    """A round number that no value exceeds and whose half is round, too."""
    highest = max(values, default=0)
    if highest <= 2:
        return 2
    unit: float = 10 ** math.floor(math.log10(highest))
    rounds = (unit * step for step in (1, 2, 3, 4, 5, 6, 8, 10))
    return next(one for one in rounds if one >= highest and one % 2 == 0)


def _render(kind: str, context: Mapping[str, object]) -> SafeString:
    return render_to_string(f"engagement/charts/{kind}.html", dict(context))


# --- Lines ----------------------------------------------------------------------------------

# A path's places cannot be percentages: it is drawn in a square of this size, which is stretched.
SQUARE = 1000


@dataclass(frozen=True)
class _Line:
    tone: int | None
    paths: list[str]
    # Percentages: points that have no neighbour to be joined to, and the last one.
    dots: list[tuple[float, float]]

    @classmethod
    def of(cls, series: Series, frame: _Frame) -> "_Line":
        runs = list(_runs(series.values, frame.top))
        dots = [run[0] for run in runs if len(run) == 1]
        if runs and len(runs[-1]) > 1:
            dots.append(runs[-1][-1])
        return cls(
            series.tone,
            [_path(run) for run in runs if len(run) > 1],
            [(x * 100 / SQUARE, y * 100 / SQUARE) for x, y in dots],
        )


def _runs(values: Sequence[ChartValue], top: float) -> Iterator[list[tuple[float, float]]]:
    """The points between two gaps, each in the square."""
    last = len(values) - 1
    points = [
        (
            SQUARE * index / last if last else SQUARE / 2,
            None if value is None else SQUARE * (1 - min(value, top) / top),
        )
        for index, value in enumerate(values)
    ]
    for is_gap, run in groupby(points, key=lambda point: point[1] is None):
        if not is_gap:
            yield [(x, y) for x, y in run if y is not None]


def _path(run: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in run)


def _span(frame: _Frame) -> str:
    """The lines in words."""
    if not _known(frame.series):
        return "Nothing is known yet."
    return " ".join(_in_words(one, frame.labels) for one in frame.series)


def _in_words(series: Series, labels: Sequence[str]) -> str:
    known = [
        (value, label)
        for value, label in zip(series.values, labels, strict=True)
        if value is not None
    ]
    if not known:
        return f"{series.name}: nothing is known yet."
    low, high = min(known, key=lambda one: one[0]), max(known, key=lambda one: one[0])
    return (
        f"{series.name}: {format_number(known[-1][0])} on {known[-1][1]}, "
        f"highest {format_number(high[0])} on {high[1]}, "
        f"lowest {format_number(low[0])} on {low[1]}."
    )


# --- Bars -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    tone: int | None
    x: float
    y: float
    width: float
    height: float


def _sums(labels: Sequence[str], series: Sequence[Series]) -> list[float]:
    return [sum(one.values[index] or 0 for one in series) for index in range(len(labels))]


def _parts(frame: _Frame) -> Iterator[_Part]:
    width = 100 / max(1, len(frame.labels)) * BAR_WIDTH_SHARE
    for index in range(len(frame.labels)):
        filled = 0.0
        for one in frame.series:
            height = frame.height(one.values[index] or 0)
            filled += height
            if height:
                yield _Part(one.tone, frame.x(index) - width / 2, 100 - filled, width, height)


def _total(frame: _Frame, sums: Sequence[float]) -> str:
    """The bars in words."""
    if not any(sums):
        return "None."
    parts = [
        f"{one.name} {format_number(sum(value or 0 for value in one.values))}"
        for one in frame.series
    ]
    most = max(range(len(sums)), key=lambda index: sums[index])
    return (
        f"{format_number(sum(sums))} in all: {', '.join(parts)}. "
        f"Most on {frame.labels[most]}: {format_number(sums[most])}."
    )
