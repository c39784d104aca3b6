"""What a backtest says, in sentences. No number comes without its interval and its count."""

from collections.abc import Iterator
from dataclasses import dataclass

from outcomes.backtests.results import Backtest, Band, Horizon, Verdict
from outcomes.kinds import Exclusion, Kind


@dataclass(frozen=True)
class KindTexts:
    """How sentences speak of a kind of outcome. ``predicted`` is what a score should predict,
    ``before`` when, ``needs`` where they come from, and the others what accounts did; ``head`` is
    above a column of bad ones."""

    title: str
    predicted: str
    before: str
    good: str
    bad: str
    bad_again: str
    head: str
    needs: str


KIND_TEXTS = {
    Kind.RENEWAL: KindTexts(
        "Renewals",
        "renewals",
        "before their renewal",
        "renewed",
        "did not renew",
        "did not",
        "Did not renew",
        "Renewals come from the licenses of a marketplace: annual or longer terms that ended.",
    ),
    Kind.MONTHLY_STAY: KindTexts(
        "Monthly stays",
        "who stays from quarter to quarter",
        "before a quarter began",
        "stayed",
        "did not stay",
        "did not",
        "Did not stay",
        "Monthly stays come from the licenses of a marketplace: monthly ones, quarter by quarter.",
    ),
    Kind.EVALUATION: KindTexts(
        "Evaluations",
        "who buys",
        "before their evaluation ended",
        "bought",
        "did not buy",
        "did not",
        "Did not buy",
        "Evaluations come from the licenses of a marketplace.",
    ),
    Kind.TRAIT: KindTexts(
        "Trait",
        "the trait",
        "before the trait changed",
        "went well",
        "went badly",
        "went badly",
        "Went badly",
        "They need the history of a trait, such as a plan, that the settings of outcomes choose.",
    ),
    Kind.DORMANCY: KindTexts(
        "Dormancy",
        "who stays active",
        "before the day",
        "stayed active",
        "had no active day in the 30 days after",
        "had none",
        "Went quiet",
        "Dormancy needs nothing but events: accounts that were active, and 30 days after.",
    ),
    Kind.ALARM: KindTexts(
        "Closed alarms",
        "who is kept after an alarm",
        "before somebody closed the alarm",
        "were kept",
        "were lost",
        "were",
        "Were lost",
        "They come from alarms that people closed as kept or lost. People choose which they close.",
    ),
}

EXCLUSION_TEXTS = {
    Exclusion.SANDBOX: "sandboxes",
    Exclusion.SITE_OF_A_LARGER_LICENSE: "sites of a multi-instance license",
    Exclusion.MOVED: "moves to another site",
    Exclusion.INTERNAL: "your own licenses",
    Exclusion.FREE: "free licenses",
    Exclusion.UNKNOWN: "unknown how they ended",
    Exclusion.OPEN: "not decided yet",
    Exclusion.FALSE_ALARM: "false alarms",
    Exclusion.NO_DATA: "no data before the day",
}


def verdict_sentence(kind: Kind, horizon: Horizon) -> str:
    """The answer to *Does the score predict?*"""
    predicted = KIND_TEXTS[kind].predicted
    match horizon.verdict:
        case Verdict.TOO_FEW:
            return _too_few(kind, horizon)
        case Verdict.NO_BETTER_THAN_CHANCE:
            return f"The score predicts {predicted} no better than chance."
        case Verdict.NO_BETTER_THAN_RECENCY:
            return (
                f"The score predicts {predicted} better than chance, but no better than the days "
                "since the last activity do."
            )
        case Verdict.BETTER_THAN_BOTH:
            return (
                f"The score predicts {predicted}: better than chance, and better than the days "
                "since the last activity do."
            )


def _too_few(kind: Kind, horizon: Horizon) -> str:
    if horizon.outcomes < horizon.needed:
        return f"Too few outcomes: {horizon.outcomes:,} of {horizon.needed:,} needed."
    texts = KIND_TEXTS[kind]
    good = horizon.outcomes - horizon.bad
    return (
        f"Too few outcomes of one sort: of {horizon.outcomes:,} accounts, {good:,} {texts.good} "
        f"and {horizon.bad:,} {texts.bad}."
    )


def bands_sentence(kind: Kind, horizon: Horizon) -> str:
    """What became of the accounts of the lowest and the highest band; "" without outcomes."""
    if not horizon.bands or not horizon.outcomes:
        return ""
    texts = KIND_TEXTS[kind]
    lowest, highest = horizon.bands[0], horizon.bands[-1]
    first = _band_clause(lowest, "accounts scored", texts.bad)
    words = ("scored", texts.bad_again) if lowest.rate else ("accounts scored", texts.bad)
    second = _band_clause(highest, *words)
    return f"{horizon.days} days {texts.before}, {first}. {second[0].upper()}{second[1:]}."


def _band_clause(band: Band, scored: str, did: str) -> str:
    if band.rate is None:
        return f"no account scored {band.label}"
    return (
        f"{band.outcomes:,} {scored} {band.label}: {band.bad:,} {did} ({band.rate.percent_range})"
    )


def auc_sentences(kind: Kind, horizon: Horizon) -> Iterator[str]:
    """What the AUC and the lift mean, in words."""
    texts = KIND_TEXTS[kind]
    if auc := horizon.auc:
        yield (
            f"Of two accounts, one that {texts.good} and one that {texts.bad}, the first had the "
            f"higher score in {auc.percent} of all pairs ({auc.percent_range}; "
            f"{auc.outcomes:,} outcomes). Chance gives 50%."
        )
        if auc.high < 0.5:
            yield f"The score points the wrong way: accounts that {texts.bad} had higher scores."
    if lift := horizon.lift:
        yield (
            f"Accounts in the lowest tenth of scores {texts.bad} {lift.value:.1f} times as often "
            f"as all ({lift.low:.1f} to {lift.high:.1f} times; {lift.outcomes:,} outcomes)."
        )


def summary(kind: Kind, horizon: Horizon) -> str:
    """The verdict and its figures, in sentences."""
    sentences = [
        verdict_sentence(kind, horizon),
        bands_sentence(kind, horizon),
        *auc_sentences(kind, horizon),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def left_out(backtest: Backtest) -> Iterator[tuple[str, int]]:
    """What is no outcome to judge by, and how often."""
    for exclusion, text in EXCLUSION_TEXTS.items():
        if number := backtest.excluded.get(exclusion):
            yield text, number


def not_predicted(horizon: Horizon) -> Iterator[tuple[str, int]]:
    """For which outcomes no prediction of that day counts, and how often."""
    if horizon.already_answered:
        yield f"already decided {horizon.days} days before", horizon.already_answered
    if horizon.without_data:
        yield f"no data {horizon.days} days before", horizon.without_data


def remarks(backtest: Backtest, horizon: Horizon) -> Iterator[str]:
    """What one must know to read the figures."""
    if backtest.first_day and backtest.last_day:
        yield f"Outcomes from {backtest.first_day} to {backtest.last_day}."
    if backtest.sampled_of:
        yield f"An even sample of {backtest.sampled_of:,} outcomes, so that it ends in time."
    if backtest.revision is not None:
        yield f"The license ledger at its revision {backtest.revision:,}."
    if horizon.late_events is not None:
        yield (
            f"{horizon.late_events:.1%} of the counted events arrived after the day of the "
            "prediction."
        )
    yield (
        "Scores are computed as today’s definition would have computed them on the day. The "
        "workspace’s audience is left out, because traits have only their latest value."
    )
