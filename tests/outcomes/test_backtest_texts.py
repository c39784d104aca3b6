"""What a backtest says in words."""

import re
from dataclasses import dataclass

import msgspec
import pytest

from outcomes.backtests import texts
from outcomes.backtests.results import Backtest, Horizon, Verdict
from outcomes.kinds import Exclusion, Kind
from outcomes.statistics.estimates import Estimate
from tests.outcomes.backtests import backtest


def of_60_days(result: Backtest) -> Horizon:
    return next(each for each in result.horizons if each.days == 60)


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        (Verdict.TOO_FEW, "Too few outcomes: 12 of 30 needed."),
        (
            Verdict.NO_BETTER_THAN_CHANCE,
            "The score predicts renewals no better than chance.",
        ),
        (
            Verdict.NO_BETTER_THAN_RECENCY,
            "The score predicts renewals better than chance, but no better than the days since the "
            "last activity do.",
        ),
        (
            Verdict.BETTER_THAN_BOTH,
            "The score predicts renewals: better than chance, and better than the days since the "
            "last activity do.",
        ),
    ],
)
def test_a_verdict_is_a_sentence(verdict: Verdict, sentence: str) -> None:
    horizon = of_60_days(backtest(Kind.RENEWAL, verdict))
    assert texts.verdict_sentence(Kind.RENEWAL, horizon) == sentence


def test_few_outcomes_of_one_sort_are_told_from_few_outcomes() -> None:
    horizon = msgspec.structs.replace(
        of_60_days(backtest(Kind.EVALUATION, Verdict.TOO_FEW)), outcomes=200, bad=198
    )
    assert texts.verdict_sentence(Kind.EVALUATION, horizon) == (
        "Too few outcomes of one sort: of 200 accounts, 2 bought and 198 did not buy."
    )


def test_the_lowest_and_the_highest_scores_are_told_first() -> None:
    horizon = of_60_days(backtest(Kind.RENEWAL))
    assert texts.bands_sentence(Kind.RENEWAL, horizon) == (
        "60 days before their renewal, 21 accounts scored under 25: 9 did not renew (23 to 63%). "
        "88 scored 75 or more: 2 did not (0 to 22%)."
    )


def test_a_band_without_outcomes_is_said_and_not_counted() -> None:
    horizon = of_60_days(backtest(Kind.RENEWAL))
    empty = msgspec.structs.replace(horizon.bands[0], outcomes=0, bad=0, rate=None)
    horizon = msgspec.structs.replace(horizon, bands=[empty, *horizon.bands[1:]])
    assert texts.bands_sentence(Kind.RENEWAL, horizon) == (
        "60 days before their renewal, no account scored under 25. 88 accounts scored 75 or more: "
        "2 did not renew (0 to 22%)."
    )


def test_no_outcome_makes_no_sentence() -> None:
    horizon = of_60_days(backtest(Kind.RENEWAL))
    bands = [msgspec.structs.replace(each, outcomes=0, bad=0, rate=None) for each in horizon.bands]
    horizon = msgspec.structs.replace(horizon, outcomes=0, bad=0, bands=bands)
    assert texts.bands_sentence(Kind.RENEWAL, horizon) == ""


def test_auc_and_lift_are_said_in_words_with_their_intervals_and_counts() -> None:
    horizon = of_60_days(backtest(Kind.RENEWAL))
    assert list(texts.auc_sentences(Kind.RENEWAL, horizon)) == [
        "Of two accounts, one that renewed and one that did not renew, the first had the higher "
        "score in 77% of all pairs (71 to 83%; 214 outcomes). Chance gives 50%.",
        "Accounts in the lowest tenth of scores did not renew 2.4 times as often as all (1.6 to "
        "3.3 times; 31 outcomes).",
    ]


def test_a_score_that_points_the_wrong_way_is_called_so() -> None:
    horizon = msgspec.structs.replace(
        of_60_days(backtest(Kind.RENEWAL)), auc=Estimate(0.3, 0.2, 0.4, 214)
    )
    _, sentence, _ = texts.auc_sentences(Kind.RENEWAL, horizon)
    assert sentence == (
        "The score points the wrong way: accounts that did not renew had higher scores."
    )


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("verdict", Verdict)
def test_each_percentage_has_its_interval(kind: Kind, verdict: Verdict) -> None:
    summary = texts.summary(kind, of_60_days(backtest(kind, verdict)))
    without_chance = summary.replace("Chance gives 50%.", "")
    figures = re.findall(r"\d+%", without_chance)
    intervals = re.findall(r"\d+ to (\d+%)", without_chance)
    # The only figure outside of its interval is the AUC, and it is followed by one.
    assert len(figures) - len(intervals) == ("all pairs" in summary)
    assert "nan" not in summary.lower() and "None" not in summary
    assert kind == Kind.RENEWAL or "renew" not in summary


def test_what_is_left_out_is_counted() -> None:
    result = backtest(Kind.RENEWAL)
    assert list(texts.left_out(result)) == [("sandboxes", 14), ("not decided yet", 9)]
    assert list(texts.not_predicted(of_60_days(result))) == [
        ("already decided 60 days before", 7),
        ("no data 60 days before", 4),
    ]
    assert set(texts.EXCLUSION_TEXTS) == set(Exclusion)


def test_remarks_say_what_the_figures_come_from() -> None:
    result = backtest(Kind.RENEWAL)
    remarks = list(texts.remarks(result, of_60_days(result)))
    assert remarks[:2] == [
        "Outcomes from 2025-03-01 to 2026-10-28.",
        "The license ledger at its revision 12,345.",
    ]
    assert "0.4% of the counted events arrived after the day of the prediction." in remarks
    assert "audience is left out" in remarks[-1]


@dataclass(frozen=True)
class Range:
    low: float
    high: float
    text: str


@pytest.mark.parametrize(
    "each",
    [
        Range(0.223, 0.6379, "22 to 64%"),
        Range(0.0881, 0.0914, "8.8 to 9.1%"),
        Range(0, 0, "0 to 0%"),
    ],
)
def test_a_narrow_interval_gets_a_decimal(each: Range) -> None:
    assert Estimate(each.low, each.low, each.high, 10).percent_range == each.text


@pytest.mark.parametrize(
    "each",
    [
        Range(-0.19, 0.004, "-0.19 to 0.00"),
        Range(-0.1591, -0.0036, "-0.159 to -0.004"),
        Range(0.0003, 0.2, "0.0003 to 0.2000"),
        Range(0.00001, 0.2, "0.00 to 0.20"),
    ],
)
def test_an_interval_without_0_does_not_look_as_if_it_had_it(each: Range) -> None:
    label = Estimate(each.low, each.low, each.high, 10).number_range
    assert label.replace("\N{MINUS SIGN}", "-") == each.text
