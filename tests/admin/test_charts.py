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
    assert table(html)[1] == ["2 Nov", "74.9"]


def test_a_bar_chart_has_a_text_description_and_omits_zeros() -> None:
    html = charts.bars(
        "Drops", ["a", "b"], [Series("Duplicate", [1, 0]), Series("Unknown key", [3, 1200])]
    )
    assert described(html) == ("1,204 in total: Duplicate 1, Unknown key 1,203. Most on b: 1,200.")
    assert table(html)[1] == ["b", "0", "1,200"]


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
    assert "Usual range</li>" in html


def test_the_axis_has_room_for_the_band() -> None:
    html = charts.line("Days", DAYS, [Series("Days", [1, 2, 3, 4, 5])], band=USUAL)
    assert ticks(html)[2] == "40"


def test_marks_stand_where_something_began_or_ended_and_are_said_in_words() -> None:
    marks = [charts.Mark(1, "Falling since 2 Nov"), charts.Mark(4, "back to usual", is_end=True)]
    html = charts.line("Days", DAYS, [Series("Days", [1, 2, 3, 4, 5])], marks=marks)
    assert re.findall(r'class="(eds-chart-mark.*?)" x="(.*?)"', html) == [
        ("eds-chart-mark", "25.00%"),
        ("eds-chart-mark eds-chart-end", "100.00%"),
    ]
    assert described(html).endswith("2 Nov: Falling since 2 Nov. 5 Nov: back to usual.")
    assert [row[2] for row in table(html)] == ["", "Falling since 2 Nov", "", "", "back to usual"]
    assert re.findall(r"<b>(.*?)</b> (.*?)</li>", html) == [
        ("2 Nov", "Falling since 2 Nov"),
        ("5 Nov", "back to usual"),
    ]


@each("kind", ["alarm", "license", "weights", "release"])
def test_each_kind_of_mark_has_a_glyph_of_its_own(kind: charts.MarkKind) -> None:
    def glyph(kind: charts.MarkKind) -> str:
        html = charts.line(
            "Days", DAYS, [Series("Days", [1] * 5)], marks=[charts.Mark(1, "", kind=kind)]
        )
        match = re.search(r'y2="100%"/><g>(.*?)</g>', html)
        assert match and f"{match[1]}</svg><b>2 Nov</b>" in html
        return match[1]

    others = {"alarm", "license", "weights", "release"} - {kind}
    assert glyph(kind) not in {glyph(other) for other in others}  # type: ignore[arg-type]


def test_marks_of_one_day_stand_below_each_other_and_the_latest_are_said() -> None:
    marks = [charts.Mark(1, f"change {number}", kind="weights") for number in range(8)]
    html = charts.line("Days", DAYS, [Series("Days", [1] * 5)], marks=marks)
    assert re.findall(r"translate\(0 (\d+)\)", html) == [str(12 * above) for above in range(1, 8)]
    assert re.findall(r"</b> (.*?)</li>", html) == [f"change {number}" for number in range(2, 8)]
    assert "<li>2 earlier in the table</li>" in html and "change 0; change 1" in table(html)[1][2]


def test_the_period_before_is_dotted_in_the_color_of_the_present() -> None:
    series = [
        Series("Accounts", [5, 6, 7, 8, 9]),
        Series("30 days before", [4, 4, 4, 4, 4], is_dotted=True),
        Series("Users", [1, 2, 3, 4, 5]),
    ]
    html = charts.line("Active", DAYS, series)
    assert re.findall(r'eds-chart-line (eds-\w+ tone-\d)" d=', html) == [
        "eds-solid tone-1",
        "eds-dotted tone-1",
        "eds-solid tone-3",
    ]
    # The end of the period before is not now, so it has no point.
    assert numbers(html, "cy", "tone-1") == [10]
    assert "30 days before: 4 on 5 Nov" in described(html)


def test_two_scales_are_told_apart_by_a_name_and_a_pattern() -> None:
    series = [
        Series("Score", [10, 20, 30, 40, 50]),
        Series("Before", [1] * 5, is_dotted=True),
        Series("Active users", [1, 2, 3, 4, 5], on_right=True),
    ]
    html = charts.line("Score and active users", DAYS, series, top=100)
    axes = html.split('<g class="eds-chart-axes">')[1].split("</g>")[0]
    assert re.findall(r">([^<]+)</text>", axes) == ["Score", "Active users"]
    assert 'class="eds-chart-line eds-dashed tone-3"' in html
    alone = charts.line("Score", DAYS, series[:1])
    assert "eds-chart-axes" not in alone and "eds-dashed" not in alone


def test_other_times_are_links_and_the_present_one_is_marked() -> None:
    ranges = [("30 days", "?days=30", False), charts.Range("90 days", "?days=90&x=1", True)]
    for html in (
        charts.line("Score", DAYS, [Series("Score", [1] * 5)], ranges=ranges),
        charts.bars("Score", DAYS, [Series("Score", [1] * 5)], ranges=ranges),
    ):
        assert '<a href="?days=30">30 days</a>' in html
        assert '<a href="?days=90&amp;x=1" aria-current="true">90 days</a>' in html
    assert "eds-chart-ranges" not in charts.line("Score", DAYS, [Series("Score", [1] * 5)])


def test_the_script_finds_colors_patterns_and_scales_in_the_table() -> None:
    series = [Series("Score", [1] * 5), Series("Users", [1200] * 5, on_right=True)]
    html = charts.line("Score", DAYS, series, top=100)
    assert re.findall(
        r'<th scope="col" class="(.*?)" data-stroke="(.*?)" data-top="(.*?)"', html
    ) == [
        ("tone-1", "solid", "100"),
        ("tone-2", "dashed", "2000"),
    ]
    # What nothing is to be read in takes no focus.
    assert html.count('tabindex="0"') == 2
    assert "aria-labelledby" in html and charts.bars("x", [], []).count('tabindex="0"') == 1


@each(
    ("values", "path"),
    [
        ([0, 0, 0], "M0 40h2"),
        ([0, 50, 100, 100], "M0 40l1 -20l1 -20h1"),
        ([100, None, 0, 25], "M0 0M2 40l1 -10"),
        ([None, None], ""),
        ([], ""),
    ],
)
def test_a_spark_is_as_short_as_possible(values: list[float | None], path: str) -> None:
    html = charts.spark(values, top=100)
    assert f'<path d="{path}"/>' in html and 'aria-hidden="true"' in html


def test_a_spark_without_a_top_ends_at_a_round_number() -> None:
    assert '<path d="M0 40l1 -20l1 -20"/>' in charts.spark([0, 5, 10])
