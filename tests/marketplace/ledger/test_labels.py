"""Labels of terms and trials: what became of them, since when it is known, and what is left out."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from marketplace.ledger.events import events_of
from marketplace.ledger.inputs import DEFAULTS, FeedbackEntry, LicenseInputs, TransactionLine
from marketplace.ledger.labels import Label, Outcome, label_quarters, label_terms, label_trials
from marketplace.ledger.relations import Relations, relate
from marketplace.ledger.stages import Life, life_of
from marketplace.ledger.vocabulary import Event
from outcomes.kinds import Exclusion
from tests.marketplace.ledger.examples import EXAMPLES, day, line, rows
from tests.marketplace.ledger.feeds import inputs_of, observation


def a_life(*texts: str, look: str = "10-15", has_history: bool = True, **others: Any) -> Life:
    observations = tuple(observation(row, has_history) for row in rows(*texts))
    inputs = LicenseInputs("A", observations, has_history=has_history, **others)
    return life_of(inputs, day(look), DEFAULTS)


def labels(life: Life) -> list[Label]:
    relations = relate([life], DEFAULTS)
    return label_terms(life, events_of(life, relations), relations)


def of_example(number: int, name: str = "A") -> tuple[Life, list[Event], Relations]:
    example = next(example for example in EXAMPLES if example.number == number)
    lives = [life_of(inputs, example.look, DEFAULTS) for inputs in inputs_of(example).values()]
    life = next(life for life in lives if life.license == name)
    relations = relate(lives, DEFAULTS)
    return life, events_of(life, relations), relations


def outcomes(number: int, name: str = "A") -> list[Outcome]:
    return [label.outcome for label in label_terms(*of_example(number, name))]


def trials(number: int) -> list[Label]:
    life, events, _ = of_example(number)
    return label_trials(life, events)


def trial(number: int) -> Label:
    return trials(number)[0]


def test_a_renewed_term_is_known_when_the_next_one_shows() -> None:
    first, last = labels(a_life("01-01 C a 01-01→02-01", "02-04 C a 02-01→03-01", look="02-20"))
    assert (first.start, first.due, first.outcome) == (day("01-01"), day("02-01"), Outcome.RENEWED)
    assert (first.known_on, first.answered_on) == (day("02-04"), None)
    assert (last.due, last.outcome, last.known_on) == (day("03-01"), Outcome.OPEN, None)


def test_churn_is_known_after_grace_or_when_an_inactive_state_shows_it() -> None:
    (label,) = labels(a_life("01-01 C a 01-01→02-01", look="03-02"))
    assert (label.outcome, label.known_on) == (Outcome.OPEN, None)
    (label,) = labels(a_life("01-01 C a 01-01→02-01", look="03-03"))
    assert (label.outcome, label.known_on) == (Outcome.CHURNED, day("03-03"))
    (label,) = labels(a_life("01-01 C a 01-01→02-01", "02-05 C i 01-01→02-01"))
    assert (label.outcome, label.known_on) == (Outcome.CHURNED, day("02-05"))


def test_a_customer_who_cancels_or_unsubscribes_has_answered() -> None:
    (label,) = label_terms(*of_example(15))
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


def test_a_renewal_is_lower_if_the_next_term_has_fewer_seats() -> None:
    texts = ("01-01 C a 01-01→02-01 10", "02-01 C a 02-01→03-01 {}", "03-02 C i 02-01→03-01 {}")
    for seats, outcome in (
        (5, Outcome.RENEWED_LOWER),
        (10, Outcome.RENEWED),
        (15, Outcome.RENEWED),
    ):
        first, last = labels(a_life(*(text.format(seats) for text in texts)))
        assert (first.outcome, first.seats, first.exclusion) == (outcome, 10, None)
        assert (last.outcome, last.seats) == (Outcome.CHURNED, seats)


def test_the_seats_that_a_term_had_before_are_known_by_their_days() -> None:
    label, *_ = labels(
        a_life(
            "01-01 C a 01-01→04-01 10", "02-10 C a 01-01→04-01 25", "03-05 C i 01-01→04-01 25",
            "03-20 C a 01-01→04-01 5",
        )
    )  # fmt: skip
    assert label.seats == 5
    assert label.earlier_seats == ((f"{day('02-10')}", 10), (f"{day('03-20')}", 25))
    (label,) = labels(a_life("01-01 C a 01-01→02-01 10"))
    assert label.earlier_seats == ()


def test_the_seats_of_a_trial_are_those_that_were_asked_for() -> None:
    own = a_life("01-01 E a 01-01→02-01", facts={"evaluationOpportunitySize": "250"})
    (label,) = label_trials(own, [])
    assert label.seats == 250
    for is_new in (True, False):
        # The marketplace no longer says it of what was bought before the first look.
        inputs = replace(own.inputs, is_new=is_new)
        over = life_of(inputs, day("10-15"), DEFAULTS)
        (label,) = label_trials(over, events_of(over, relate([over], DEFAULTS)))
        assert label.outcome is Outcome.NOT_BOUGHT
        assert label.seats == (250 if is_new else None)


def test_a_renewal_by_another_license_of_the_site_may_be_lower() -> None:
    before = a_life("01-01 C a 01-01→02-01 10", look="03-15")
    after = a_life("02-01 C a 02-01→03-01 5", look="02-15")
    after = replace(after, inputs=replace(after.inputs, license="B"))
    relations = Relations(successors={"A": after})
    (label,) = label_terms(before, events_of(before, relations), relations)
    assert label.outcome is Outcome.RENEWED_LOWER


def test_a_renewal_before_the_end_is_an_answer() -> None:
    first, _ = labels(a_life("01-01 C a 01-01→03-01", "02-04 C a 03-01→05-01"))
    assert (first.outcome, first.answered_on, first.due) == (
        Outcome.RENEWED, day("02-04"), day("03-01"),
    )  # fmt: skip


def test_what_is_no_customers_term_has_a_label_that_says_why_it_is_left_out() -> None:
    texts = ("01-01 C a 01-01→02-01", "02-05 C i 01-01→02-01")
    assert [label.exclusion for label in labels(a_life(*texts))] == [None]
    (sandbox,) = labels(a_life(*texts, facts={"installedOnSandbox": "Yes"}))
    assert sandbox.exclusion is Exclusion.SANDBOX
    (internal,) = labels(a_life("01-01 DEMONSTRATION a 01-01→02-01"))
    assert internal.exclusion is Exclusion.INTERNAL
    site = rows(texts[0])[0]
    site.fields["multiInstanceEntitlementNumber"] = "E-PARENT"
    inputs = LicenseInputs("A", (observation(site),))
    (label,) = labels(life_of(inputs, day("10-15"), DEFAULTS))
    assert label.exclusion is Exclusion.SITE_OF_A_LARGER_LICENSE
    (running,) = labels(a_life(texts[0], look="01-15"))
    assert running.exclusion is Exclusion.OPEN


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
    (label,) = labels(a_life(text))
    assert (label.exclusion, label.cents) == (None, None), "nobody knows its sales"
    for amount, exclusion in ((0.0, Exclusion.FREE), (10.5, None)):
        (label,) = labels(a_life(text, transactions=a_line("01-01→02-01", amount=amount)))
        assert (label.exclusion, label.cents) == (exclusion, 100 * amount)


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
    assert (quarter.due, quarter.known_on) == (day("06-10"), day("06-10")), "its last term"
    assert (last.start, last.outcome) == (day("07-01"), Outcome.CHURNED)
    assert label_quarters(labels(a_life("01-01 C a 01-01→27-01-01"))) == []


def test_trials_are_bought_not_bought_or_open() -> None:
    assert (trial(1).outcome, trial(1).decided_on) == (Outcome.BOUGHT, day("03-31"))
    assert (trial(26).outcome, trial(26).decided_on) == (Outcome.BOUGHT, day("03-28"))
    assert (trial(4).outcome, trial(4).decided_on) == (Outcome.NOT_BOUGHT, day("06-30"))
    assert trial(4).known_on == day("07-01")
    assert (trial(5).exclusion, trial(5).known_on) == (Exclusion.OPEN, None)
    first, again = trials(7)
    assert (first.outcome, again.outcome) == (Outcome.NOT_BOUGHT, Outcome.OPEN)


def test_a_purchase_before_the_end_of_a_trial_is_an_answer_and_its_day_stays_the_end() -> None:
    life = a_life("01-01 E a 01-01→02-01", "01-12 C a 01-12→02-12")
    (label,) = label_trials(life, events_of(life, relate([life], DEFAULTS)))
    assert (label.outcome, label.due) == (Outcome.BOUGHT, day("02-01"))
    assert label.answered_on == label.decided_on == day("01-12")


def test_trials_that_were_over_when_the_first_sync_came_are_unknown() -> None:
    """Of those that were bought, the marketplace shows no trial any more."""
    life = a_life("01-01 E a 01-01→02-01", "02-02 E i 01-01→02-01")
    late = a_life("03-01 E i 01-01→02-01", has_history=False)
    exclusions = [
        label.exclusion
        for own in (life, late)
        for label in label_trials(own, events_of(own, relate([own], DEFAULTS)))
    ]
    assert exclusions == [None, Exclusion.UNKNOWN]
