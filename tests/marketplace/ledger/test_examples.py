"""The worked examples: each customer's events, in any order and repetition of what arrives."""

from random import Random
from typing import Any

from marketplace.ledger.events import license_events
from marketplace.ledger.inputs import LicenseInputs
from marketplace.ledger.vocabulary import Event
from tests.cases import each
from tests.marketplace.ledger.examples import EXAMPLES, Example, day
from tests.marketplace.ledger.feeds import expected, inputs_of, shuffled, summary

FEEDS = 300


def events_of(example: Example, inputs: dict[str, LicenseInputs], name: str) -> list[Event]:
    linked = [other for other in inputs.values() if other.license != name]
    return license_events(inputs[name], linked, example.look)


@each("example", EXAMPLES)
def test_an_example_has_its_events(example: Example) -> None:
    for name, license in example.licenses.items():
        events = events_of(example, inputs_of(example), name)
        assert sorted(summary(events)) == expected(license), name
        for day_text, type, *details in license.events:
            (event,) = [
                event for event in events if (event.date, event.type) == (day(day_text), type)
            ]
            details_of_it: dict[str, Any] = details[0] if details else {}
            assert details_of_it.items() <= event.details.items()
            assert event.known_on <= example.look


@each("example", EXAMPLES)
def test_no_order_and_no_repetition_changes_the_events(example: Example) -> None:
    random = Random(example.number)
    plain = inputs_of(example)
    events = {name: events_of(example, plain, name) for name in plain}
    for _ in range(FEEDS):
        feed = {name: shuffled(inputs, random) for name, inputs in plain.items()}
        assert {name: events_of(example, feed, name) for name in feed} == events
