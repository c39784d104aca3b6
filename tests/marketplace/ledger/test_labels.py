"""Labels of terms and trials: what became of them, since when it is known, and what is left out."""

from datetime import timedelta
from typing import Any

from marketplace.ledger.events import events_of
from marketplace.ledger.inputs import DEFAULTS, FeedbackEntry, LicenseInputs, TransactionLine
from marketplace.ledger.labels import (
    Outcome,
    TermLabel,
    TrialLabel,
    label_quarters,
    label_terms,
    label_trials,
)
from marketplace.ledger.relations import relate
from marketplace.ledger.stages import Life, life_of
from marketplace.ledger.vocabulary import Event
from tests.marketplace.ledger.examples import EXAMPLES, day, line, rows
from tests.marketplace.ledger.feeds import inputs_of, observation


def a_life(*texts: str, look: str = "10-15", has_history: bool = True, **others: Any) -> Life:
    observations = tuple(observation(row, has_history) for row in rows(*texts))
    inputs = LicenseInputs("A", observations, has_history=has_history, **others)
    return life_of(inputs, day(look), DEFAULTS)


def labels(life: Life) -> list[TermLabel]:
    return label_terms(life, events(life))


def events(life: Life) -> list[Event]:
    return events_of(life, relate([life], DEFAULTS))


def of_example(number: int, name: str = "A") -> tuple[Life, list[Event]]:
    example = next(example for example in EXAMPLES if example.number == number)
    lives = [life_of(inputs, example.look, DEFAULTS) for inputs in inputs_of(example).values()]
    life = next(life for life in lives if life.license == name)
    return life, events_of(life, relate(lives, DEFAULTS))


def outcomes(number: int, name: str = "A") -> list[Outcome]:
    return [label.outcome for label in label_terms(*of_example(number, name))]


def trial(number: int) -> TrialLabel:
    return label_trials(*of_example(number))[0]


def test_a_renewed_term_is_known_when_the_next_one_shows() -> None:
    first, last = labels(a_life("01-01 C a 01-01→02-01", "02-04 C a 02-01→03-01", look="02-20"))
    assert (first.start, first.due, first.outcome) == (day("01-01"), day("02-01"), Outcome.RENEWED)
    assert first.known_on == first.answered_on == day("02-04")
    assert (last.due, last.outcome, last.known_on) == (day("03-01"), Outcome.OPEN, None)


def test_churn_is_known_after_grace_or_when_an_inactive_state_shows_it() -> None:
    (label,) = labels(a_life("01-01 C a 01-01→02-01", look="03-02"))
    assert (label.outcome, label.known_on) == (Outcome.OPEN, None)
    (label,) = labels(a_life("01-01 C a 01-01→02-01", look="03-03"))
    assert (label.outcome, label.known_on) == (Outcome.CHURNED, day("03-03"))
    (label,) = labels(a_life("01-01 C a 01-01→02-01", "02-05 C i 01-01→02-01"))
    assert (label.outcome, label.known_on) == (Outcome.CHURNED, day("02-05"))


def test_a_customer_who_cancels_or_unsubscribes_has_answered() -> None:
    life, own = of_example(15)
    (label,) = label_terms(life, own)
    assert (label.outcome, label.answered_on) == (Outcome.CHURNED, day("08-12"))
    entry = FeedbackEntry(day("01-20"), "unsubscribe", "cost")
    (label,) = labels(a_life("01-01 C a 01-01→02-01", look="01-25", feedback=(entry,)))
    assert (label.outcome, label.answered_on) == (Outcome.OPEN, day("01-20"))


def test_what_nobody_saw_and_what_moved_is_left_out_of_rates() -> None:
    assert outcomes(14) == [Outcome.UNKNOWN, Outcome.OPEN], "nobody looked"
    assert outcomes(28) == [Outcome.MOVED]
    assert outcomes(22) == [Outcome.CHURNED], "free, and no other license is found"
    unlisted = a_life("01-01 C a 01-01→02-01", listings=((day("01-20"), False),))
    assert [label.outcome for label in labels(unlisted)] == [Outcome.UNKNOWN]
    late = a_life("03-01 C i 01-01→02-01", has_history=False)
    assert [label.outcome for label in labels(late)] == [Outcome.UNKNOWN], "over when first seen"


def test_sandboxes_internal_licenses_and_sites_of_a_multi_instance_license_have_no_labels() -> None:
    texts = ("01-01 C a 01-01→02-01", "02-05 C i 01-01→02-01")
    assert len(labels(a_life(*texts))) == 1
    assert labels(a_life(*texts, facts={"installedOnSandbox": "Yes"})) == []
    assert labels(a_life("01-01 DEMONSTRATION a 01-01→02-01")) == []
    site = rows(texts[0])[0]
    site.fields["multiInstanceEntitlementNumber"] = "E-PARENT"
    inputs = LicenseInputs("A", (observation(site),))
    assert labels(life_of(inputs, day("10-15"), DEFAULTS)) == []


def a_line(period: str, **fields: Any) -> tuple[TransactionLine, ...]:
    return (line("Renewal", period.partition("→")[0], period, **fields),)


def test_a_term_is_annual_by_its_sales_before_its_dates() -> None:
    text = "01-01 C a 01-01→27-01-01"
    assert [label.is_annual for label in labels(a_life(text))] == [True]
    monthly = a_line("01-01→27-01-01", billingPeriod="Monthly")
    assert [label.is_annual for label in labels(a_life(text, transactions=monthly))] == [False]
    assert [label.is_annual for label in labels(a_life("01-01 C a 01-01→02-01"))] == [False]


def test_a_term_whose_sales_are_nothing_is_free() -> None:
    text = "01-01 C a 01-01→02-01"
    assert [label.is_free for label in labels(a_life(text))] == [False], "nobody knows its sales"
    for amount, is_free in ((0.0, True), (10.0, False)):
        life = a_life(text, transactions=a_line("01-01→02-01", amount=amount))
        assert [label.is_free for label in labels(life)] == [is_free]


def test_monthly_terms_count_once_a_quarter_from_its_first_day_on() -> None:
    starts = [day("02-10") + timedelta(days=30 * number) for number in range(5)]
    texts = [
        f"{start:%m-%d} C a {start:%m-%d}→{start + timedelta(days=30):%m-%d}" for start in starts
    ]
    end = starts[-1] + timedelta(days=30)
    texts.append(f"{end:%m-%d} C i {starts[-1]:%m-%d}→{end:%m-%d}")
    (quarter, last) = label_quarters(labels(a_life(*texts)))
    # In the first quarter it was not yet paid on January 1.
    assert (quarter.start, quarter.outcome) == (day("04-01"), Outcome.RENEWED)
    assert (last.start, last.outcome) == (day("07-01"), Outcome.CHURNED)
    assert label_quarters(labels(a_life("01-01 C a 01-01→27-01-01"))) == []


def test_trials_are_converted_not_converted_or_open() -> None:
    assert (trial(1).outcome, trial(1).date) == (Outcome.CONVERTED, day("03-31"))
    assert (trial(26).outcome, trial(26).date) == (Outcome.CONVERTED, day("03-28"))
    assert (trial(4).outcome, trial(4).date) == (Outcome.NOT_CONVERTED, day("06-30"))
    assert trial(4).known_on == day("07-01")
    assert (trial(5).outcome, trial(5).known_on) == (Outcome.OPEN, None)
    first, again = label_trials(*of_example(7))
    assert (first.outcome, again.outcome) == (Outcome.NOT_CONVERTED, Outcome.OPEN)
