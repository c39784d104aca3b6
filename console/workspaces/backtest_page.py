"""The page *Does the score predict?* of a workspace: what a stored backtest says, and its file."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.text import slugify

from access.pages.csv_file import csv_response
from access.pages.pages import ExtraView, PageAdmin
from access.trail.scoring_changes import ACCEPTED
from console.workspaces import suggested_weights
from core.ids import parse_id
from engagement.models import Segment, Workspace
from engagement.tasks import request_rescore
from outcomes import tasks
from outcomes.backtests import storage, texts
from outcomes.backtests.results import Backtest, Horizon, ReliabilityPoint
from outcomes.backtests.texts import KIND_TEXTS
from outcomes.chances.results import Bin
from outcomes.kinds import Kind
from outcomes.reading import available_kinds
from outcomes.statistics.estimates import Estimate
from outcomes.suggestions import storage as suggestions

RELIABILITY_ENDS = (0.1, 0.2, 0.4, 0.6, 1.0)
TITLE = "Does the score predict?"
SUGGESTION_PART = "#suggested-weights"
FILE_HEAD = (
    *("Outcome", "Days before", "Figure", "From score", "Below score", "Expected"),
    *("Value", "Low", "High", "Outcomes", "Bad"),
)


class BacktestPages(PageAdmin):
    """The part of a workspace's admin that serves its backtests."""

    extra_views: ClassVar[Sequence[ExtraView]] = (
        ExtraView("backtest", permission="view", methods=("GET", "HEAD")),
        ExtraView("compute_backtest", permission="change", methods=("POST",)),
        ExtraView("suggest_weights", permission="change", methods=("POST",)),
        ExtraView("use_weights", permission="change", methods=("POST",)),
    )

    def backtest_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """The backtest of ``kind``, ``horizon``, and ``segment``; with ``file``, all its horizons
        as CSV."""
        choice = _Choice.of(self.view_url("backtest", workspace), request, workspace)
        result = storage.find(workspace, choice.kind, choice.segment)
        horizon = shown_horizon(result.backtest, choice.days) if result else None
        if "file" in request.GET:
            return _file_response(workspace, result)
        progress = storage.progress(workspace)
        if part := request.GET.get("progress"):
            own = suggestions.progress(workspace, choice.kind) if part == "weights" else progress
            ready_text = "Computed. Reload the page to see the new figures."
            return JsonResponse({"text": own or ready_text, "is_over": not own})
        context: dict[str, Any] = {
            "kinds": [
                (text.title, choice.url(kind=kind), kind == choice.kind)
                for kind, text in KIND_TEXTS.items()
                if kind in {*available_kinds(workspace), choice.kind}
            ],
            "choice": choice,
            "progress": progress,
            "progress_url": choice.url(progress="1"),
            "segments": choice.segments,
            "empty": f"Nothing is computed for these outcomes yet. {KIND_TEXTS[choice.kind].needs}",
        }
        may_change = self.has_change_permission(request, workspace)
        if may_change and not progress:
            context["compute_url"] = self._url("compute_backtest", workspace, choice)
        if result and horizon:
            context |= backtest_context(result.backtest, horizon)
            context["horizons"] = [
                (each, choice.url(horizon=each.days), predictors(each))
                for each in result.backtest.horizons
            ]
            context |= {"computed_at": result.computed_at, "file_url": choice.url(file="csv")}
            if choice.segment is None:
                context["suggestion"] = suggested_weights.section(workspace, choice.kind)
                context["weights_progress_url"] = choice.url(progress="weights")
            if may_change:
                context["suggest_url"] = self._url("suggest_weights", workspace, choice)
                context["use_url"] = self._url("use_weights", workspace, choice)
        template = "admin/engagement/backtest.html"
        return self.render_page(request, template, TITLE, subtitle=None, **context)

    def compute_backtest_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """Compute it in the background."""
        choice = _Choice.of(self.view_url("backtest", workspace), request, workspace)
        with transaction.atomic():
            storage.request(workspace, choice.segment, timezone.now())
            transaction.on_commit(tasks.request_run)
        return redirect(choice.url())

    def suggest_weights_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """Have weights suggested in the background."""
        choice = _Choice.of(self.view_url("backtest", workspace), request, workspace)
        with transaction.atomic():
            if not suggestions.request(workspace, choice.kind, timezone.now()):
                raise Http404
            transaction.on_commit(tasks.request_run)
        return redirect(choice.url() + SUGGESTION_PART)

    def use_weights_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """Accept the suggestion that the page showed."""
        choice = _Choice.of(self.view_url("backtest", workspace), request, workspace)
        seen_at = request.POST.get("suggested_at", "")
        note = f"{ACCEPTED}: {KIND_TEXTS[choice.kind].title.lower()}."
        try:
            with transaction.atomic():
                suggestion = suggested_weights.seen_suggestion(workspace, choice.kind, seen_at)
                suggestions.accept(workspace, suggestion)
                self.log_change(request, workspace, note)
                transaction.on_commit(request_rescore)
        except suggestions.NotAccepted as reason:
            self.message_user(request, f"{reason} Nothing was changed.", messages.WARNING)
        else:
            self.message_user(request, suggested_weights.ACCEPTED_MESSAGE)
        return redirect(choice.url() + SUGGESTION_PART)

    def _url(self, view: str, workspace: Workspace, choice: "_Choice") -> str:
        """The address of another view with the same choice."""
        return replace(choice, path=self.view_url(view, workspace)).url()


@dataclass(frozen=True)
class _Choice:
    """What the address of the page asks for. ``days`` is None without a horizon."""

    path: str
    kind: Kind
    days: int | None
    segment: Segment | None
    segments: Sequence[Segment]

    @classmethod
    def of(cls, path: str, request: HttpRequest, workspace: Workspace) -> "_Choice":
        """Raises Http404 for what no link of the page asks for."""
        query = request.GET
        segments = list(workspace.segments.filter(scope="account").order_by("name", "id"))
        segment_id = parse_id(query.get("segment", ""))
        segment = next((each for each in segments if each.pk == segment_id), None)
        kind = query.get("kind") or storage.first_kind(workspace) or Kind.DORMANCY
        if kind not in set(Kind) or (query.get("segment") and segment is None):
            raise Http404
        return cls(path, Kind(kind), parse_id(query.get("horizon", "")), segment, segments)

    def url(self, **changes: object) -> str:
        """The page's address with these changes."""
        own = {"kind": self.kind, "horizon": self.days, "segment": self.segment and self.segment.pk}
        query = {name: str(value) for name, value in (own | changes).items() if value}
        return f"{self.path}?{urlencode(query)}"


def _file_response(workspace: Workspace, result: storage.DatedBacktest | None) -> HttpResponseBase:
    """All horizons as CSV. Raises Http404 without a backtest."""
    if result is None:
        raise Http404
    name = f"{slugify(workspace.name)}-{result.backtest.kind}-backtest"
    return csv_response(name, FILE_HEAD, file_lines(result.backtest))


# --- The page -------------------------------------------------------------------------------


def shown_horizon(backtest: Backtest, days: int | None) -> Horizon:
    """The horizon with that number of days, by default 60."""
    by_days = {horizon.days: horizon for horizon in backtest.horizons}
    default = 60 if 60 in by_days else min(by_days)
    return by_days.get(days or default, by_days[default])


def backtest_context(backtest: Backtest, horizon: Horizon) -> dict[str, Any]:
    """What the page shows of the backtest."""
    kind = backtest.kind
    sentences = [texts.bands_sentence(kind, horizon), *texts.auc_sentences(kind, horizon)]
    if not horizon.outcomes:
        sentences.append(KIND_TEXTS[kind].needs)
    return {
        "kind_texts": KIND_TEXTS[kind],
        "horizon": horizon,
        "reliability_end": reliability_end(horizon.reliability),
        "verdict": texts.verdict_sentence(kind, horizon),
        "sentences": [sentence for sentence in sentences if sentence],
        "left_out": [*texts.left_out(backtest), *texts.not_predicted(horizon)],
        "remarks": list(texts.remarks(backtest, horizon)),
    }


def reliability_end(points: Iterable[ReliabilityPoint | Bin]) -> float:
    """Where both axes of the plot end. Half of it is a whole percentage."""
    most = max((max(point.expected, point.observed.high) for point in points), default=1.0)
    return next((end for end in RELIABILITY_ENDS if most <= end), RELIABILITY_ENDS[-1])


def predictors(horizon: Horizon) -> list[tuple[str, Estimate | None]]:
    """The AUC of the score, and of what needs no score."""
    return [
        ("Score", horizon.auc),
        ("Days since the last activity", horizon.auc_of_recency),
        ("Age of the account", horizon.auc_of_age),
        ("Score more than days", horizon.better_than_recency),
    ]


# --- The file -------------------------------------------------------------------------------


def file_lines(backtest: Backtest) -> Iterator[Sequence[Any]]:
    """The backtest with all horizons, one figure a line."""
    kind = KIND_TEXTS[backtest.kind].title
    for horizon in backtest.horizons:
        for line in _horizon_lines(horizon):
            yield (kind, horizon.days, *line)
    for text, number in texts.left_out(backtest):
        yield (kind, None, f"Left out: {text}", *[None] * 6, number)


def _horizon_lines(horizon: Horizon) -> Iterator[Sequence[Any]]:
    """What follows the outcome and the days in each line."""
    yield (f"Verdict: {horizon.verdict}", *[None] * 6, horizon.outcomes, horizon.bad)
    for name, estimate in [*predictors(horizon), ("Lift of the lowest tenth", horizon.lift)]:
        if estimate:
            label = name if name.startswith("Lift") else f"AUC: {name}"
            yield (label, None, None, None, *_figures(estimate))
    if horizon.brier is not None:
        yield ("Brier score", None, None, None, horizon.brier, None, None, horizon.outcomes)
    for band in horizon.bands:
        if band.rate:
            yield ("Rate", band.low, band.high, None, *_figures(band.rate), band.bad)
    for point in horizon.reliability:
        yield ("Reliability", None, None, point.expected, *_figures(point.observed))
    for text, number in texts.not_predicted(horizon):
        yield (f"Left out: {text}", *[None] * 6, number)


def _figures(estimate: Estimate) -> tuple[float, ...]:
    numbers = (estimate.value, estimate.low, estimate.high)
    return *(round(number, 4) for number in numbers), estimate.outcomes
