"""How far a user or an account has come on the steps of a workspace, in lines on its page."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import NamedTuple

from django.utils.formats import date_format

from engagement.models import Workspace
from engagement.rules.rules import ActivationState
from engagement.rules.steps import describe_step
from engagement.scopes import SubjectKind
from engagement.segments.activation import ShownSteps, steps_of


class StepLine(NamedTuple):
    """A step: what has to be done, if its name does not say so, and when it was done, or can be."""

    name: str
    description: str
    is_done: bool
    when: str


class ActivationCard(NamedTuple):
    state: ActivationState
    lines: Sequence[StepLine]

    @property
    def label(self) -> str:
        return self.state.replace("_", " ")


def activation_card(
    workspace: Workspace, kind: SubjectKind, subject_id: int
) -> ActivationCard | None:
    """None if the workspace has no steps, or if they were not computed of this subject."""
    score_set = workspace.scores
    steps = steps_of(score_set, kind, subject_id) if score_set else None
    if score_set is None or steps is None:
        return None
    # As segments and lists see it.
    today = score_set.scored_day or date.min
    lines = [_line(steps, place, today) for place in range(len(steps.steps))]
    return ActivationCard(steps.state(today), lines)


def _line(steps: ShownSteps, place: int, today: date) -> StepLine:
    step, description = steps.steps[place], describe_step(steps.steps[place])
    description = "" if description == step.name else description
    if steps.days[place] is not None:
        day = steps.done_on(place)
        # A trait does not say since when.
        return StepLine(step.name, description, True, _day(day) if day else "yes")
    ends = steps.first_day + timedelta(days=step.within_days - 1)
    when = f"until {_day(ends)}" if today <= ends else f"not by {_day(ends)}"
    return StepLine(step.name, description, False, when)


def _day(day: date) -> str:
    return date_format(day, "j M Y")
