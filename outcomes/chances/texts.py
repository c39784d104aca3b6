"""What chances say, in words. No number comes without its interval and its count."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date

from outcomes.chances.results import LEAST_OF_EACH, Evidence, Fact, Feature, Proof, Totals
from outcomes.kinds import Kind
from outcomes.models import ChanceModel
from outcomes.statistics.estimates import Estimate


@dataclass(frozen=True)
class ChanceTexts:
    """How sentences speak of the chances of a kind. ``running`` is what has one, for one and for
    many; ``told`` what is told of them; ``good`` and ``bad`` name past outcomes; ``chance`` is the
    label of the chance that an account ends well."""

    title: str
    running: tuple[str, str]
    told: str
    good: str
    bad: str
    chance: str


CHANCE_TEXTS = {
    Kind.EVALUATION: ChanceTexts(
        "Evaluations under way",
        ("evaluation is under way", "evaluations are under way"),
        "will buy",
        "purchases",
        "evaluations without a purchase",
        "Likely to buy",
    ),
    Kind.DORMANCY: ChanceTexts(
        "Likely to go quiet",
        ("account is active", "accounts are active"),
        "will have no active day in the next 30 days",
        "accounts that stayed active",
        "accounts that went quiet",
        "Likely to be active in the next 30 days",
    ),
    Kind.TRAIT: ChanceTexts(
        "Likely to go badly",
        ("account does well", "accounts do well"),
        "will go badly within 90 days",
        "accounts that went well",
        "accounts that went badly",
        "Likely to do well for 90 days, by the trait",
    ),
    Kind.RENEWAL: ChanceTexts(
        "Renewals",
        ("term ends soon", "terms end soon"),
        "will renew",
        "renewals",
        "terms that were not renewed",
        "Likely to renew",
    ),
    Kind.MONTHLY_STAY: ChanceTexts(
        "Monthly stays",
        ("monthly license goes on", "monthly licenses go on"),
        "will stay for a quarter",
        "stays",
        "monthly licenses that did not stay",
        "Likely to stay for a quarter",
    ),
}
# Pages list the accounts that go quiet or go badly, and not the others.
ASKED_FOR_BAD = (Kind.DORMANCY, Kind.TRAIT)

# A feature of one, of many, and what follows.
_FEATURES = {
    Feature.USER_DAYS_7: ("active user-day in 7 days", "active user-days in 7 days"),
    Feature.USER_DAYS_30: ("active user-day in 30 days", "active user-days in 30 days"),
    Feature.USERS: ("active user", "active users"),
    Feature.EVENT_NAMES: ("event name in use", "event names in use"),
    Feature.IDLE_DAYS: ("day since the last event", "days since the last event"),
    Feature.AGE_DAYS: ("day since it was created", "days since it was created"),
    Feature.SEATS: ("seat", "seats"),
    Feature.LICENSE_UTILIZATION: ("of the seats in use", "of the seats in use"),
}


def fact_text(fact: Fact) -> str:
    """The account's number beside the usual one, like "2 active users; usual 5"."""
    unit = _FEATURES[fact.feature][fact.value != 1]
    style = ".0%" if fact.feature is Feature.LICENSE_UTILIZATION else ",.0f"
    return f"{fact.value:{style}} {unit}; usual {fact.usual:{style}}"


def effect_text(effect: float) -> str:
    """What a fact does to a chance, like "lowers the chance by 12 points"."""
    points = round(100 * abs(effect))
    if not points:
        return "hardly changes the chance"
    unit = "point" if points == 1 else "points"
    return f"{'raises' if effect > 0 else 'lowers'} the chance by {points} {unit}"


def fact_texts(why: Evidence, *, is_risk: bool = False) -> list[tuple[str, str]]:
    """Each fact with what it does to the chance, or to the risk of the opposite."""
    sign = -1 if is_risk else 1
    noun = "risk" if is_risk else "chance"
    return [
        (fact_text(fact), effect_text(sign * fact.effect).replace("chance", noun))
        for fact in why.facts
    ]


def day_text(began_on: date, day: date, today: date) -> str:
    """Where an evaluation stands, like "day 9 of 30"."""
    return f"day {(today - began_on).days:,} of {(day - began_on).days:,}"


def summary(kind: Kind, totals: Totals, models: Collection[ChanceModel]) -> str:
    """How many are running, and how many of them are to be expected to end as asked."""
    texts, number = CHANCE_TEXTS[kind], totals.running
    start = f"{number:,} {texts.running[number != 1]}"
    if not number:
        return f"No {texts.running[0]} whose chance could be told."
    if not totals.learned:
        return f"{start}. Too few to tell which {texts.told}: {_missing_text(texts, models)}."
    expected, low, high = totals.expected, totals.low, totals.high
    if kind in ASKED_FOR_BAD:
        expected, low, high = number - expected, number - high, number - low
    numbers = f"{expected:,.0f} {texts.told} ({low:,.0f} to {high:,.0f})"
    return f"{start}; about {numbers}."


def _missing_text(texts: ChanceTexts, models: Collection[ChanceModel]) -> str:
    """What is missing to learn, of the model that has most."""
    model = max(models, key=lambda each: each.outcomes, default=None)
    numbers = (model.good, model.outcomes - model.good) if model else (0, 0)
    return " and ".join(
        f"{number:,} of {LEAST_OF_EACH} {name} needed"
        for number, name in zip(numbers, (texts.good, texts.bad), strict=True)
        if number < LEAST_OF_EACH
    )


def left_out(totals: Totals) -> Iterator[str]:
    """What has no chance, and what has only the share, as sentences."""
    parts = [
        (totals.answered, "answered already (cancelled, unsubscribed, or bought)"),
        (totals.too_young, "too young (a chance is told when day 3 is over)"),
        (totals.without_data, "without data of an account, or without past ones"),
    ]
    if without := ", ".join(f"{number:,} {text}" for number, text in parts if number):
        yield f"Without a chance: {without}."
    if shares := totals.learned and totals.running - totals.learned:
        yield (
            f"For {shares:,} of them, too few past ones were known on the same day to tell: they "
            "have the share of all, which says nothing of the account."
        )


def proof_sentence(proof: Proof | None) -> str:
    """Whether chances tell more than the share that was known then."""
    if proof is None:
        return "Nothing can be judged yet: too few were known before the others."
    gain = proof.gain
    start = (
        f"{proof.outcomes:,} past ones were predicted from what was known before them. The mean "
        f"squared error (Brier score) of the chances was {proof.brier:.3f}, and that of the share "
        f"known then {proof.brier_of_share:.3f}: a gain of "
        f"{gain_text(gain)}."
    )
    if gain.low > 0:
        return f"{start} The chances tell more than the share does."
    if gain.high < 0:
        return f"{start} The chances tell less than the share does: do not rely on them."
    return f"{start} The interval contains 0: the chances tell no more than the share does."


def gain_text(gain: Estimate) -> str:
    """A gain of the Brier score with its interval, like "0.068 (0.041 to 0.095)"."""
    nearest = min(abs(gain.low), abs(gain.high))
    # An interval without 0 does not look as if it had it.
    digits = 3 if nearest >= 0.0005 or gain.low <= 0 <= gain.high else 5
    numbers = (f"{number:.{digits}f}" for number in (gain.value, gain.low, gain.high))
    return "{} ({} to {})".format(*numbers).replace("-", "\N{MINUS SIGN}")
