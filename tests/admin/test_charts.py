"""Charts: their drawing and their text, under a strict content security policy."""

import re
from datetime import date

import pytest

from core import charts
from core.charts import Series
from tests.cases import each

DAYS = ["1 Nov", "2 Nov", "3 Nov", "4 Nov", "5 Nov"]


def numbers(html: str, attribute: str, of: str) -> list[float]:
    """The values of an attribute of the elements with the class *of*, without units."""
    bars = html.split('<ul class="eds-chart-legend">')[0]
    values = re.findall(rf'<\w+ class="{of}"[^>]*?\s{attribute}="([\d.]+)%?"', bars)
    return [float(value) for value in values]


def described(html: str) -> str:
    match = re.search(r"<desc[^>]*>(.*?)</desc>", html)
    assert match
    return match[1]


def table(html: str) -> list[list[str]]:
    """The body of the table with the chart's data."""
    body = html.split("<tbody>")[1].split("</tbody>")[0]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in body.split("</tr>")[:-1]]


def ticks(html: str) -> list[str]:
    grid = html.split('<g class="eds-chart-grid">')[1].split("</g>")[0]
    return re.findall(r"<text[^>]*>(.*?)</text>", grid)


def test_a_line_goes_from_edge_to_edge_and_from_zero_to_the_top() -> None:
    html = charts.line("Score", DAYS, [Series("Score", [0, 25, 50, 75, 100])], top=100)
    assert 'd="M0.0 1000.0L250.0 750.0L500.0 500.0L750.0 250.0L1000.0 0.0"' in html


def test_what_is_not_known_is_a_gap_and_not_a_zero() -> None:
    html = charts.line("Score", DAYS, [Series("Score", [100, 0, None, 50, 50])], top=100)
    assert re.findall(r' d="(.*?)"', html) == ["M0.0 0.0L250.0 1000.0", "M750.0 500.0L1000.0 500.0"]
    assert table(html)[2] == ["3 Nov", "–"]


def test_a_point_between_two_gaps_is_still_seen() -> None:
    html = charts.line("Score", DAYS, [Series("Score", [None, 50, None, None, 10])], top=100)
    assert " d=" not in html
    assert numbers(html, "cx", "tone-1") == [25, 100]
    assert numbers(html, "cy", "tone-1") == [50, 90]


def test_bars_stand_on_each_other_and_reach_their_sum() -> None:
    html = charts.bars("Drops", ["a", "b"], [Series("one", [1, 0]), Series("two", [3, 2])])
    assert numbers(html, "y", "tone-1") == [75]
    assert numbers(html, "height", "tone-1") == [25]
    # On top of the first series' 25%, and on the axis where the first series is zero.
    assert numbers(html, "y", "tone-2") == [0, 50]
    assert numbers(html, "height", "tone-2") == [75, 50]
    # Each point is in the middle of its half.
    assert numbers(html, "x", "tone-2") == [5.5, 55.5]


@each(
    ("highest", "top"),
    [
        (0, "2"),
        (1, "2"),
        (3, "4"),
        (10, "10"),
        (11, "20"),
        (21, "30"),
        (99.5, "100"),
        (420, "500"),
        (1_234_567, "2,000,000"),
    ],
)
def test_the_axis_ends_at_a_round_number_above_the_highest(highest: float, top: str) -> None:
    html = charts.line("Events", ["a", "b"], [Series("Events", [0, highest])])
    assert ticks(html)[2] == top


def test_few_labels_are_written_and_the_newest_is_among_them() -> None:
    labels = [str(number) for number in range(90)]
    html = charts.line("Score", labels, [Series("Score", [1] * 90)])
    assert ticks(html)[3:] == ["89", "66", "43", "20"]
    assert len(table(html)) == 90


def test_a_line_chart_has_a_text_description() -> None:
    html = charts.line("Score", DAYS, [Series("Score", [None, 74.94, 12.0, 80, 60.5])])
    assert described(html) == ("Score: 60.5 on 5 Nov, highest 80 on 4 Nov, lowest 12 on 3 Nov.")
    assert "<title>2 Nov: Score 74.9</title>" in html


def test_a_bar_chart_has_a_text_description_and_omits_zeros() -> None:
    html = charts.bars(
        "Drops", ["a", "b"], [Series("Duplicate", [1, 0]), Series("Unknown key", [3, 1200])]
    )
    assert described(html) == ("1,204 in total: Duplicate 1, Unknown key 1,203. Most on b: 1,200.")
    assert "<title>b: Unknown key 1,200</title>" in html


@pytest.mark.parametrize("values", [[], [None, None], [0, 0]])
def test_nothing_to_show_is_no_failure(values: list[float | None]) -> None:
    labels = DAYS[: len(values)]
    series = [Series("Score", values)]
    for html in (
        charts.line("Score", labels, series),
        charts.bars("Drops", labels, series),
    ):
        assert "<svg" in html and "nan" not in html.lower()
    assert "Nothing to show yet" in charts.bars("Drops", labels, series)


def test_a_legend_names_several_series_and_links_where_it_can() -> None:
    alone = charts.line("Score", DAYS, [Series("Score", [1] * 5)])
    assert "eds-chart-legend" not in alone
    both = charts.bars(
        "Drops", DAYS, [Series("Duplicate", [1] * 5, url="?reason=duplicate"), Series("x", [1] * 5)]
    )
    assert '<a href="?reason=duplicate">Duplicate</a>' in both


def test_a_tone_can_be_chosen_and_otherwise_they_take_turns() -> None:
    series = [Series("one", [1]), Series("two", [1], tone=7), Series("three", [1])]
    html = charts.bars("Drops", ["a"], series)
    assert re.findall(r'<rect class="tone-(\d)" x=', html) == ["1", "7", "3"]


def test_names_are_text_and_never_markup() -> None:
    html = charts.bars("<b>", ["<i>"], [Series("<script>", [1])])
    assert "<b>" not in html and "<i>" not in html and "<script>" not in html


def test_no_chart_needs_inline_style_or_script() -> None:
    series = [Series("one", [1, None, 3, 4, 5]), Series("two", [1, 2, 3, 4, 5], url="?x")]
    for html in (
        charts.line("Score", DAYS, series),
        charts.bars("Drops", DAYS, series),
    ):
        assert "style=" not in html and "<style" not in html and "<script" not in html


def test_days_are_written_as_people_say_them() -> None:
    assert charts.day_label(date(2026, 11, 3)) == "3 Nov"


USUAL = charts.Band("Usual range", [None, 10, 20, 20, None], [None, 30, 40, 40, None])


def test_a_band_lies_behind_the_line_where_it_is_known() -> None:
    html = charts.line("Days", DAYS, [Series("Days", [1, 2, 3, 4, 5])], top=40, band=USUAL)
    assert re.findall(r'class="eds-chart-band" d="(.*?)"', html) == [
        "M250.0 250.0L500.0 0.0L750.0 0.0L750.0 500.0L500.0 500.0L250.0 750.0Z"
    ]
    assert html.index("eds-chart-band") < html.index("eds-chart-line")
    assert [row[2] for row in table(html)] == ["", "10–30", "20–40", "20–40", ""]
    assert "<title>2 Nov: Days 2 (usual range 10–30)</title>" in html
    assert "Usual range</li>" in html


def test_the_axis_has_room_for_the_band() -> None:
    html = charts.line("Days", DAYS, [Series("Days", [1, 2, 3, 4, 5])], band=USUAL)
    assert ticks(html)[2] == "40"


def test_marks_stand_where_something_began_or_ended_and_are_said_in_words() -> None:
    marks = [charts.Mark(1, "Falling since 2 Nov"), charts.Mark(4, "back to usual", is_end=True)]
    html = charts.line("Days", DAYS, [Series("Days", [1, 2, 3, 4, 5])], marks=marks)
    assert re.findall(r'class="(eds-chart-mark.*?)"><line x1="(.*?)"', html) == [
        ("eds-chart-mark", "25.00%"),
        ("eds-chart-mark eds-chart-end", "100.00%"),
    ]
    assert described(html).endswith("2 Nov: Falling since 2 Nov. 5 Nov: back to usual.")
    assert [row[2] for row in table(html)] == ["", "Falling since 2 Nov", "", "", "back to usual"]
    assert "<title>5 Nov: Days 5. back to usual</title>" in html
