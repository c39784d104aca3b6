"""How far users and accounts have come on the steps of a workspace: filters, and what is shown."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, JSONField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import JSONObject
from django.db.models.lookups import GreaterThanOrEqual

from engagement.activity.reading import AnyOf
from engagement.models import Activation, ScoreSet, StepsDone
from engagement.rules.rules import ActivationCondition, ActivationState
from engagement.rules.steps import Step, parse_steps
from engagement.scopes import SubjectKind
from engagement.scores.activation import current
from engagement.scores.activation_figures import stored_figures

# Of as many, a list finds all before it ranks them.
FEW = 20_000


def activation_filter(
    condition: ActivationCondition, score_set: ScoreSet, kind: SubjectKind, today: date
) -> Q:
    """Keeps the engagement rows of subjects in this state on the day. One query finds the steps."""
    rows = _in_state(condition, score_set, kind, today)
    return Q(**{f"{kind.id_column}__in": rows.values("subject_id")})


def listed_activation_filter(
    condition: ActivationCondition, score_set: ScoreSet, kind: SubjectKind, today: date
) -> Q:
    """``activation_filter`` for a list. A few subjects are found first and ranked alone. Of many,
    the walk down the ranking soon meets a page, and looks each up by its key."""
    rows = _in_state(condition, score_set, kind, today)
    if rows[: FEW + 1].count() <= FEW:
        return Q(AnyOf(F(kind.id_column), ArraySubquery(rows.values("subject_id"))))
    own = rows.filter(subject_id=OuterRef(kind.id_column)).values("reached")
    return Q(GreaterThanOrEqual(Subquery(own[:1]), 0))


def known_count(
    condition: ActivationCondition, score_set: ScoreSet, kind: SubjectKind
) -> int | None:
    """How many are in this state, as the figures say; None if they are few, to be counted."""
    activation = current(score_set.workspace_id, kind.scope)
    figures = stored_figures(activation)
    if activation is None or figures is None:
        return None
    own = [
        each.waiting if condition.state == "on_the_way" else each.late
        for step, each in zip(parse_steps(activation.steps), figures.steps, strict=True)
        if condition.step in (None, step.name)
    ]
    count = figures.activated if condition.state == "activated" else sum(own)
    return count if count > FEW else None


def _in_state(
    condition: ActivationCondition, score_set: ScoreSet, kind: SubjectKind, today: date
) -> QuerySet[StepsDone]:
    """Nobody if the workspace has no steps, or not the one that the condition names."""
    activation = current(score_set.workspace_id, kind.scope)
    if activation is None:
        return StepsDone.objects.none()
    rows, steps = _rows(activation), parse_steps(activation.steps)
    match condition.state:
        case "activated":
            rows = rows.filter(reached=len(steps))
        case "on_the_way":
            rows = rows.filter(late_on__gt=today)
        case "stuck":
            rows = rows.filter(late_on__lte=today)
    if condition.step is not None:
        places = [place for place, step in enumerate(steps) if step.name == condition.step]
        rows = rows.filter(reached__in=places)
    return rows


def steps_done(score_set: ScoreSet, kind: SubjectKind) -> Subquery | Value:
    """For one engagement row: what ``shown_steps`` reads. One query finds the steps."""
    activation = current(score_set.workspace_id, kind.scope)
    if activation is None:
        return Value(None, JSONField())
    own = _rows(activation).filter(subject_id=OuterRef(kind.id_column))
    steps = Value(activation.steps, JSONField())
    fields = {name: F(name) for name in ("first_day", "days", "reached", "late_on")}
    return Subquery(own.values(row=JSONObject(**fields, steps=steps)))


def steps_of(score_set: ScoreSet, kind: SubjectKind, subject_id: int) -> "ShownSteps | None":
    """The steps of one subject of the set."""
    activation = current(score_set.workspace_id, kind.scope)
    row = _rows(activation).filter(subject_id=subject_id).first() if activation else None
    if activation is None or row is None:
        return None
    steps = parse_steps(activation.steps)
    return ShownSteps(steps, row.first_day, row.days, row.reached, row.late_on)


def _rows(activation: Activation) -> QuerySet[StepsDone]:
    return StepsDone.objects.filter(product=activation.product_id, activation=activation)


class ShownSteps(NamedTuple):
    """The steps of a subject. ``days`` are as in ``StepsDone``, and ``late_on`` is of the next
    step."""

    steps: list[Step]
    first_day: date
    days: list[int | None]
    reached: int
    late_on: date | None

    @property
    def next_step(self) -> Step | None:
        return self.steps[self.reached] if self.reached < len(self.steps) else None

    @property
    def activated_on(self) -> date | None:
        """The latest day of a step; None if one is not done, or if all are traits."""
        days = [day for place in range(len(self.steps)) if (day := self.done_on(place))]
        return max(days, default=None) if self.next_step is None else None

    def done_on(self, place: int) -> date | None:
        """The day of the step with this index; None of a trait, which does not say since when."""
        days = self.days[place]
        is_known = days is not None and self.steps[place].kind != "trait"
        return self.first_day + timedelta(days=days or 0) if is_known else None

    def state(self, today: date) -> ActivationState:
        if self.late_on is None:
            return "activated"
        return "stuck" if self.late_on <= today else "on_the_way"


def shown_steps(stored: Mapping[str, Any] | None) -> ShownSteps | None:
    """From the value of ``steps_done``; None without steps."""
    if stored is None:
        return None
    late_on = stored["late_on"]
    return ShownSteps(
        parse_steps(stored["steps"]),
        date.fromisoformat(stored["first_day"]),
        stored["days"],
        stored["reached"],
        late_on and date.fromisoformat(late_on),
    )
