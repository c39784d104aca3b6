"""The page *Who stays* of a workspace: of those first seen in a week, how many are active in the
weeks after."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from django.db import transaction
from django.http import Http404, HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.text import slugify

from access.pages.csv_file import csv_response
from access.pages.pages import ExtraView, PageAdmin
from core import charts
from engagement.license_traits import LICENSE_TYPE_TRAIT
from engagement.metric_names import Scope
from engagement.models import EventName, TraitName, Workspace
from engagement.models.trait_changes import NAME_LENGTH
from outcomes import tasks
from outcomes.statistics.estimates import Estimate
from trends.cohorts import storage
from trends.cohorts.results import WEEKS, Cohorts, Group

TITLE = "Who stays"
SCOPES: dict[Scope, str] = {"account": "Accounts", "user": "Users"}
# Of names that the fields suggest.
MAX_SUGGESTED = 200
# Classes of the style sheet, from no share to all.
SHADES = 10
FILE_HEAD = (
    *("Group", "First seen in the week of", "Weeks later", "Complete", "First seen", "Active"),
    *("Share", "Low", "High"),
)


class CohortPages(PageAdmin):
    """The part of a workspace's admin that serves its cohorts."""

    cohort_views: ClassVar[Sequence[ExtraView]] = (
        ExtraView("cohorts", permission="view", methods=("GET", "HEAD")),
        ExtraView("compute_cohorts", permission="change", methods=("POST",)),
    )

    def cohorts_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """The cohorts of ``subjects``, who did ``event``, by the values of ``trait``; with
        ``file``, all of them as CSV."""
        choice = _Choice.of(request, workspace)
        question = choice.find(workspace)
        cohorts = storage.decode(question) if question else None
        if "file" in request.GET:
            if cohorts is None:
                raise Http404
            name = f"{slugify(workspace.name)}-{choice.scope}-cohorts"
            return csv_response(name, FILE_HEAD, _file_lines(cohorts))
        progress = storage.progress(question) if question else ""
        if request.GET.get("progress"):
            text = progress or "Computed. Reload the page to see the figures."
            return JsonResponse({"text": text, "is_over": not progress})
        if question:
            storage.note_opened(question, timezone.now())
        context: dict[str, Any] = {
            "choice": choice,
            "progress": progress,
            "progress_url": choice.url(progress="1"),
            "scopes": [
                (label, replace(choice, scope=scope).url(), scope == choice.scope)
                for scope, label in SCOPES.items()
            ],
            "event_names": _suggestions(EventName, workspace),
            "trait_names": _suggestions(TraitName, workspace),
        }
        may_change = self.has_change_permission(request, workspace)
        if may_change and not progress and not choice.problem:
            url = self.view_url("compute_cohorts", workspace)
            context["compute_url"] = url + choice.url()
        if question and cohorts:
            context |= _context(cohorts, choice)
            context["computed_at"] = question.computed_at
        template = "admin/engagement/cohorts.html"
        return self.render_page(request, template, TITLE, subtitle=None, **context)

    def compute_cohorts_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """Compute them in the background."""
        choice = _Choice.of(request, workspace)
        if choice.problem:
            raise Http404
        with transaction.atomic():
            storage.ask(workspace, choice.scope, choice.event, choice.trait, timezone.now())
            transaction.on_commit(tasks.request_run)
        return redirect(self.view_url("cohorts", workspace) + choice.url())


def _suggestions(model: Any, workspace: Workspace) -> list[str]:
    names = model.objects.filter(product=workspace.product_id).order_by("name")
    return list(names.values_list("name", flat=True)[:MAX_SUGGESTED])


@dataclass(frozen=True)
class _Choice:
    """What the address of the page asks for; *problem* says what it asks in vain."""

    scope: Scope
    event: EventName | None
    trait: str
    group: int
    problem: str = ""

    @classmethod
    def of(cls, request: HttpRequest, workspace: Workspace) -> "_Choice":
        query = request.GET
        scope: Scope = "user" if query.get("subjects") == "user" else "account"
        name = query.get("event", "").replace("\0", "").strip()
        trait = query.get("trait", "").replace("\0", "").strip()[:NAME_LENGTH]
        events = EventName.objects.filter(product=workspace.product_id, name=name)
        event = events.first() if name else None
        problem = f"No event of this product is named “{name}”." if name and not event else ""
        number = query.get("group", "")
        group = int(number) if number.isascii() and number.isdigit() and len(number) < 3 else 0
        return cls(scope, event, trait, group, problem)

    @property
    def is_usual(self) -> bool:
        """Whether each workspace keeps the answer."""
        return self.event is None and not self.trait

    def find(self, workspace: Workspace) -> Any:
        if self.problem:
            return None
        return storage.find(workspace, self.scope, self.event, self.trait)

    def url(self, **more: str | int) -> str:
        values: dict[str, str | int] = {
            "subjects": self.scope,
            "event": self.event.name if self.event else "",
            "trait": self.trait,
            **more,
        }
        return "?" + urlencode({name: value for name, value in values.items() if value})


class Cell(NamedTuple):
    """A share of a cohort in a week; *title* has its counts and its interval."""

    text: str
    active: int
    shade: int
    title: str
    is_complete: bool


class Row(NamedTuple):
    """A cohort: the days of its week, its size, and its weeks."""

    label: str
    size: int
    cells: Sequence[Cell]


def _context(cohorts: Cohorts, choice: _Choice) -> dict[str, Any]:
    number = choice.group if choice.group < len(cohorts.groups) else 0
    group = cohorts.groups[number]
    return {
        "cohorts": cohorts,
        "group": group,
        "groups": [
            (each.label, sum(each.sizes), choice.url(group=place), place == number)
            for place, each in enumerate(cohorts.groups)
        ]
        if choice.trait
        else [],
        "weeks": range(WEEKS),
        "rows": [_row(cohorts, group, cohort) for cohort in reversed(range(WEEKS))],
        "pooled": [cell_of(estimate, True) for estimate in cohorts.curve(group)],
        "curve": _curve(cohorts, choice),
        "file_url": choice.url(file="csv"),
        "license_url": replace(choice, trait=LICENSE_TYPE_TRAIT).url()
        if choice.scope == "account"
        else "",
    }


def _row(cohorts: Cohorts, group: Group, cohort: int) -> Row:
    cells = [
        cell_of(cohorts.share(group, cohort, later), cohorts.is_complete(cohort + later))
        for later in range(WEEKS - cohort)
    ]
    return Row(charts.day_label(cohorts.week(cohort)), group.sizes[cohort], cells)


def cell_of(
    estimate: Estimate | None, is_complete: bool, note: str = "the week is not over"
) -> Cell:
    if estimate is None:
        return Cell("–", 0, 0, "Nobody was first seen in this week.", is_complete)
    active = round(estimate.value * estimate.outcomes)
    title = f"{active:,} of {estimate.outcomes:,}, 95% interval {estimate.percent_range}"
    if not is_complete:
        title += f"; {note}"
    return Cell(estimate.percent, active, round(SHADES * estimate.value), title, is_complete)


def _curve(cohorts: Cohorts, choice: _Choice) -> Any:
    """All groups together, or each value of the trait, with at least one member."""
    groups = [group for group in cohorts.groups if sum(group.sizes)]
    groups = groups[1 : charts.TONE_COUNT + 1] if choice.trait else groups[:1]
    return charts.line(
        "Active, in percent, by weeks since first seen",
        [f"Week {later}" for later in range(WEEKS)],
        [
            charts.Series(
                group.label,
                [None if each is None else 100 * each.value for each in cohorts.curve(group)],
            )
            for group in groups
        ],
        top=100,
    )


def _file_lines(cohorts: Cohorts) -> Iterator[tuple[object, ...]]:
    for group in cohorts.groups:
        for cohort in range(WEEKS):
            for later in range(WEEKS - cohort):
                share = cohorts.share(group, cohort, later)
                yield (
                    group.label,
                    cohorts.week(cohort).isoformat(),
                    later,
                    "yes" if cohorts.is_complete(cohort + later) else "no",
                    group.sizes[cohort],
                    group.active[cohort][later],
                    *((share.value, share.low, share.high) if share else ("", "", "")),
                )
