"""Steps: what users or accounts do, one after the other, until they are activated.

A step is done on the day on which its event was done often enough, if that day is less than
``within_days`` after the one on which somebody was first seen. A trait has no history, so its step
is done as long as the trait says so, and its days only say from when on somebody is late. Nothing
asks in which order steps were done.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from engagement.metric_names import Scope
from engagement.models.activity import EVENT_NAME_LENGTH
from engagement.rules.rules import FieldProblem, Number, TraitCondition
from engagement.rules.texts import describe_condition

MAX_STEPS = 10
MAX_AT_LEAST, MAX_WITHIN = 10_000, 365
STEP_NAME_LENGTH = 100
Unit: TypeAlias = Literal["times", "days"]
TraitOperator: TypeAlias = Literal["is_set", "is_ignoring_case", "at_least"]


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event that is done at least a number of times or on a number of days, or a trait."""

    name: str
    kind: Literal["event", "trait"]
    # The name of the event or the trait.
    of: str
    at_least: int = 1
    unit: Unit = "times"
    operator: TraitOperator = "is_set"
    value: str | Number | None = None
    within_days: int = 14

    @property
    def trait(self) -> TraitCondition:
        return TraitCondition(trait=self.of, operator=self.operator, value=self.value)

    def problems(self, scope: Scope) -> Iterator[FieldProblem]:
        if not 1 <= len(self.name) <= STEP_NAME_LENGTH or not self.name.isprintable():
            yield "name", f"Enter a name of at most {STEP_NAME_LENGTH} characters."
        if not 1 <= self.within_days <= MAX_WITHIN:
            yield "within_days", f"Enter a whole number of days from 1 to {MAX_WITHIN}."
        if self.kind == "trait":
            yield from self.trait.problems(scope)
            return
        if not self.of.strip() or len(self.of) > EVENT_NAME_LENGTH or "\0" in self.of:
            yield "of", "Enter the event’s name."
        if not 1 <= self.at_least <= MAX_AT_LEAST:
            yield "at_least", f"Enter a whole number from 1 to {MAX_AT_LEAST:,}."
        elif self.unit == "days" and self.at_least > self.within_days:
            yield "at_least", "There are not as many days."


def parse_steps(stored: Sequence[Mapping[str, Any]]) -> list[Step]:
    return msgspec.convert(stored, list[Step])


def steps_to_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = msgspec.to_builtins(list(steps))
    return result


def problems_between(steps: Sequence[Step]) -> Iterator[tuple[int, FieldProblem]]:
    """What is wrong with the steps together, each with the position of a step (from 0)."""
    for position, step in enumerate(steps):
        if step.name in [each.name for each in steps[:position]]:
            yield position, ("name", "Another step has this name.")
        if position and step.within_days < steps[position - 1].within_days:
            text = "A step cannot end before the one above it. Enter as many days, or more."
            yield position, ("within_days", text)


def describe_step(step: Step) -> str:
    """What has to be done, as a sentence without a full stop."""
    if step.kind == "trait":
        return describe_condition(step.trait)
    counted = {"times": f" {step.at_least:,} times", "days": f" on {step.at_least:,} days"}
    often = counted[step.unit] if step.at_least > 1 else ""
    within = "1 day" if step.within_days == 1 else f"{step.within_days} days"
    return f"Event “{step.of}”{often} within {within}"
