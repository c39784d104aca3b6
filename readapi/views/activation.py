"""Who has done which steps of activation, and who is stuck at which."""

from typing import Any

import msgspec
from rest_framework.response import Response

from engagement.metric_names import Scope
from engagement.rules.steps import Step, describe_step, parse_steps
from engagement.scores.activation import current
from engagement.scores.activation_figures import Figures, StepFigures, WeekFigures, stored_figures
from outcomes.statistics.rates import wilson
from readapi import parameters, queries, rights
from readapi.records import ActivationRecord, ActivationStep, ActivationWeek
from readapi.views.base import ReadView
from readapi.views.cohorts import SUBJECTS


class ActivationDetail(ReadView):
    """How many accounts of the workspace have done each step of activation, how many are on the
    way or stuck, and the days it took; with `subjects=user`, users. Then the same by the week in
    which they were first seen, the latest week first.

    A workspace without steps has an empty list of them.
    """

    PARAMETERS = ("subjects",)
    READS = ()

    def build_response(self, workspace_id: int) -> Response:
        name = parameters.choice(self.parameters, "subjects", SUBJECTS)
        scope: Scope = "user" if name == "user" else "account"
        rights.require_kinds(self.token, (scope,))
        workspace = queries.workspace(self.product, workspace_id)
        activation = current(workspace.pk, scope)
        figures = stored_figures(activation)
        steps = parse_steps(activation.steps) if activation and figures else []
        return self.record_response(_record(scope, steps, figures))


def _record(scope: Scope, steps: list[Step], figures: Figures | None) -> ActivationRecord:
    total, activated = (figures.total, figures.activated) if figures else (0, 0)
    return {
        "subjects": scope,
        "day": figures.day.isoformat() if figures else None,
        "total": total,
        "activated": activated,
        "share": _share(activated, total),
        "days": figures.quartiles if figures else [],
        "steps": [
            _step(step, own, total)
            for step, own in zip(steps, figures.steps if figures else (), strict=True)
        ],
        "weeks": [_week(week) for week in reversed(figures.weeks)] if figures else [],
    }


def _step(step: Step, own: StepFigures, total: int) -> ActivationStep:
    return {
        "name": step.name,
        "text": describe_step(step),
        "reached": own.reached,
        "share": _share(own.reached, total),
        "on_the_way": own.waiting,
        "stuck": own.late,
        "days": own.quartiles,
    }


def _week(week: WeekFigures) -> ActivationWeek:
    return {
        "week": week.first.isoformat(),
        "first_seen": week.size,
        "reached": week.reached,
        "share": _share(week.reached[-1], week.size),
        "is_over": week.is_over,
    }


def _share(number: int, of: int) -> Any:
    return msgspec.to_builtins(wilson(number, of))
