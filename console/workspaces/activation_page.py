"""The page *Activation* of a workspace: its steps, who has done them, and who is stuck at which."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlencode

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from django.utils.text import slugify

from access.pages.csv_file import csv_response
from access.pages.pages import ExtraView, PageAdmin
from access.pages.subject_urls import subject_list_url
from access.trail import entries
from console.rules.previews import PREVIEW_TIMEOUT_SECONDS
from console.suggestions import load_suggestions
from console.workspaces.activation_form import BUTTONS, StepRows
from console.workspaces.cohorts_page import SCOPES, Row, cell_of
from core import charts
from core.database import sql
from engagement import tasks
from engagement.metric_names import Scope
from engagement.models import Workspace
from engagement.rescoring import activation as building
from engagement.rules.naming import segments_at_step
from engagement.rules.steps import Step, describe_step, parse_steps
from engagement.scopes import get_kind
from engagement.scores import sampling
from engagement.scores.activation import current
from engagement.scores.activation_figures import Figures, WeekFigures, preview, stored_figures
from engagement.segments import counts
from outcomes.statistics.estimates import Estimate
from outcomes.statistics.rates import wilson

TITLE = "Activation"
# Of more users or accounts, a sample of this size says what steps would show.
PREVIEW_SIZE = 5_000
OPEN = "some can still do it in time"
SAVED = "The steps are saved. Until they are computed, you see the old ones."
REMOVED = "This workspace has no steps any more."


class ActivationPages(PageAdmin):
    """The part of a workspace's admin that serves its steps."""

    activation_views: ClassVar[Sequence[ExtraView]] = (
        ExtraView("activation", permission="view", methods=("GET", "HEAD")),
        ExtraView("edit_activation", permission="change"),
        ExtraView("activation_effect", permission="change", methods=("POST",)),
    )

    def activation_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """The funnel of ``subjects``; with ``file``, who was activated by week as CSV."""
        scope = _scope(request)
        activation, progress = current(workspace.pk, scope), building.progress(workspace.pk, scope)
        if request.GET.get("progress"):
            text = progress or "Computed. Reload the page to see the figures."
            return JsonResponse({"text": text, "is_over": not progress})
        figures = stored_figures(activation)
        if "file" in request.GET:
            if activation is None or figures is None:
                raise Http404
            return _file(workspace, parse_steps(activation.steps), figures, scope)
        may_change = self.has_change_permission(request, workspace)
        context: dict[str, Any] = {
            "scope": scope,
            "scopes": [
                (label, f"?subjects={each}", each == scope) for each, label in SCOPES.items()
            ],
            "progress": progress,
            "progress_url": f"?subjects={scope}&progress=1",
            "edit_url": self._steps_url("edit_activation", workspace, scope) if may_change else "",
        }
        if activation is not None and figures is not None:
            steps = parse_steps(activation.steps)
            context |= {
                "funnel": funnel(steps, figures, subject_list_url(scope, workspace.pk)),
                "weeks": [_row(week) for week in reversed(figures.weeks)],
                "curve": _curve(figures.weeks),
                "file_url": f"?subjects={scope}&file=csv",
            }
        template = "admin/engagement/activation.html"
        return self.render_page(request, template, TITLE, subtitle=None, **context)

    def edit_activation_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        scope = _scope(request)
        activation = building.latest(workspace.pk, scope)
        stored = parse_steps(activation.steps) if activation else []
        rows = StepRows(scope, stored, request.POST if request.method == "POST" else None)
        is_saving = request.method == "POST" and not BUTTONS & set(request.POST)
        problems = _lost_steps(workspace, scope, stored, rows.steps) if is_saving else []
        if is_saving and rows.is_valid and not problems:
            return self._save(request, workspace, scope, stored, rows.steps)
        suggestions = load_suggestions(workspace.product_id)
        traits = suggestions.user_traits if scope == "user" else suggestions.account_traits
        return self.render_page(
            request,
            "admin/engagement/edit_activation.html",
            f"Steps of {SCOPES[scope].lower()}",
            subtitle=None,
            rows=rows,
            problems=problems,
            names=[*suggestions.events, *traits],
            effect=_effect(workspace, scope, rows) if request.method == "POST" else None,
            effect_url=self._steps_url("activation_effect", workspace, scope),
            back=self._steps_url("activation", workspace, scope),
        )

    def activation_effect_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponse:
        """What the funnel would be with the steps in the form."""
        scope = _scope(request)
        effect = _effect(workspace, scope, StepRows(scope, (), request.POST))
        template = "admin/engagement/activation_effect.html"
        return TemplateResponse(request, template, {"effect": effect})

    def _save(
        self,
        request: HttpRequest,
        workspace: Workspace,
        scope: Scope,
        stored: Sequence[Step],
        steps: Sequence[Step],
    ) -> HttpResponse:
        if list(stored) != list(steps):
            with transaction.atomic():
                building.request(workspace, scope, steps)
                entries.record(
                    entries.actor_of(request),
                    entries.Action.CHANGED,
                    "workspace",
                    product_id=workspace.product_id,
                    object_id=workspace.pk,
                    name=str(workspace),
                    changes={f"steps of {scope}s": [_as_text(stored), _as_text(steps)]},
                )
                transaction.on_commit(tasks.request_rescore)
            self.message_user(request, SAVED if steps else REMOVED)
        return redirect(self._steps_url("activation", workspace, scope))

    def _steps_url(self, view: str, workspace: Workspace, scope: Scope) -> str:
        return f"{self.view_url(view, workspace)}?subjects={scope}"


def _as_text(steps: Sequence[Step]) -> str:
    return "; ".join(f"{step.name} ({describe_step(step)})" for step in steps)


def _scope(request: HttpRequest) -> Scope:
    return "user" if request.GET.get("subjects") == "user" else "account"


def _lost_steps(
    workspace: Workspace, scope: Scope, stored: Sequence[Step], steps: Sequence[Step]
) -> list[str]:
    """Segments name steps: an unknown name would match nobody."""
    remaining = {step.name for step in steps}
    lost = [step.name for step in stored if step.name not in remaining]
    return [
        f"These segments use the step “{name}”: {', '.join(segments)}. Change them first."
        for name in lost
        if (segments := segments_at_step(workspace.pk, scope, name))
    ]


# --- The funnel -------------------------------------------------------------------------------


class FunnelRow(NamedTuple):
    """A step: who did it and all before it, and who is at it. The shares are of all, from 0 on."""

    name: str
    description: str
    reached: int
    waiting: int
    late: int
    share: Estimate | None
    waiting_url: str
    late_url: str
    days: str
    done_end: float
    waiting_end: float
    late_end: float


class Funnel(NamedTuple):
    total: int
    activated: int
    activated_url: str
    share: Estimate | None
    days: str
    rows: list[FunnelRow]


def funnel(steps: Sequence[Step], figures: Figures, list_url: str = "") -> Funnel:
    """The funnel, with links to everybody in each part of it if there is a list."""

    def url(value: str) -> str:
        return f"{list_url}&{urlencode({'activation': value})}" if list_url else ""

    total = figures.total
    rows = [
        FunnelRow(
            step.name,
            "" if step.name == describe_step(step) else describe_step(step),
            own.reached,
            own.waiting,
            own.late,
            wilson(own.reached, total),
            url(f"on_the_way-{step.name}"),
            url(f"stuck-{step.name}"),
            days_text(own.quartiles),
            *(end / (total or 1) for end in accumulate([own.reached, own.waiting, own.late])),
        )
        for step, own in zip(steps, figures.steps, strict=True)
    ]
    share = wilson(figures.activated, total)
    days = days_text(figures.quartiles)
    return Funnel(total, figures.activated, url("activated"), share, days, rows)


def days_text(quartiles: Sequence[int]) -> str:
    """The median, and the middle half."""
    if not quartiles:
        return "–"
    low, median, high = quartiles
    return f"{median} ({low} to {high})"


# --- By week ----------------------------------------------------------------------------------


def _curve(weeks: Sequence[WeekFigures]) -> SafeString:
    shares = [wilson(week.reached[-1], week.size) for week in weeks]
    percent = [
        [None if share is None else 100 * getattr(share, end) for share in shares]
        for end in ("value", "low", "high")
    ]
    return charts.line(
        "Activated, in percent, by the week in which they were first seen",
        [charts.day_label(week.first) for week in weeks],
        [charts.Series("Activated", percent[0])],
        top=100,
        band=charts.Band("95% interval", percent[1], percent[2]),
    )


def _row(week: WeekFigures) -> Row:
    cells = [cell_of(wilson(reached, week.size), week.is_over, OPEN) for reached in week.reached]
    return Row(charts.day_label(week.first), week.size, cells)


def _file(
    workspace: Workspace, steps: Sequence[Step], figures: Figures, scope: Scope
) -> HttpResponseBase:
    head = ["First seen in the week of", "Over", "First seen", *(step.name for step in steps)]
    lines = (
        (week.first.isoformat(), "yes" if week.is_over else "no", week.size, *week.reached)
        for week in figures.weeks
    )
    return csv_response(f"{slugify(workspace.name)}-{scope}-activation", head, lines)


# --- What-if ----------------------------------------------------------------------------------


class Effect(NamedTuple):
    """The funnels now and with the steps in the form, or a text that says why there are none."""

    text: str
    funnels: Sequence[tuple[str, Funnel]] = ()


def _effect(workspace: Workspace, scope: Scope, rows: StepRows) -> Effect:
    if not rows.is_valid:
        return Effect("Fix the errors to see the effect.")
    if not rows.steps:
        return Effect("Without steps there is no activation.")
    scores = workspace.scores
    if scores is None or scores.scored_day is None:
        return Effect("This workspace has no scores yet. Reload the page in a moment.")
    activation = current(workspace.pk, scope)
    total = getattr(counts.subject_totals([scores])[scores.pk], get_kind(scope).plural)
    size = min(total, PREVIEW_SIZE)
    try:
        with sql.statement_timeout(PREVIEW_TIMEOUT_SECONDS):
            ids = sampling.sample_subjects(scores, scope, total, size).ids
            funnels = [
                (caption, funnel(steps, preview(scores, scope, steps, ids, scores.scored_day)))
                for caption, steps in (
                    ("Now", parse_steps(activation.steps) if activation else []),
                    ("With these steps", rows.steps),
                )
                if steps
            ]
    except sql.StatementTimeout:
        return Effect("This is taking too long to compute here. You can save the steps anyway.")
    of = f"all {len(ids):,}" if size == total else f"an even sample of {len(ids):,}"
    return Effect(f"Computed from {of} {scope}s.", funnels)
