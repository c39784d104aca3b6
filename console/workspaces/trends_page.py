"""The page *Trends* of a workspace: how it, or a segment, moved, beside what it compares with."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.utils.http import urlencode
from django.utils.text import slugify

from access.pages.csv_file import csv_response
from access.pages.pages import ExtraView, PageAdmin
from access.pages.scoping import visible_products
from access.trail.scoring_changes import describe_change, scoring_changes
from core.ids import parse_id
from engagement.models import Segment, Workspace
from trends import reading
from trends.curves import Subject, curves, headline, number_rows
from trends.reading import Interval

TITLE = "Trends"
RANGES = (30, 90, 365)
# Workspaces beside which one may be seen: those of the product, and then others.
MAX_WORKSPACES = 50
_SEGMENT, _WORKSPACE = "s", "w"
_CHOICES = ("segment", "beside")


class TrendPages(PageAdmin):
    """The part of a workspace's admin that serves its trends."""

    trend_views: ClassVar[Sequence[ExtraView]] = (
        ExtraView("trends", permission="view", methods=("GET", "HEAD")),
    )

    def trends_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """The trends of the last ``days``, of a ``segment`` or the whole workspace, ``beside``
        another segment or workspace; with ``file``, the figures of these days as CSV."""
        days = _choose_days(request)
        segments = {row.pk: row for row in Segment.objects.filter(workspace=workspace)}
        segment = _find_segment(segments, request.GET.get("segment", ""))
        last = reading.last_day(workspace)
        context: dict[str, Any] = {"days": days}
        if last is not None:
            name = segment.name if segment else workspace.name
            own = Subject.of(name, workspace, segment, last, days)
            if "file" in request.GET:
                return _file(own)
            others = list(_workspaces(request, workspace))
            other = _beside(request.GET.get("beside", ""), own, segments, others)
            context |= {"segments": segments.values(), "workspaces": others}
            context |= _contents(own, other) | self._links(request, workspace, days)
        elif "file" in request.GET:
            raise Http404
        template = "admin/engagement/trends.html"
        return self.render_page(request, template, TITLE, subtitle=None, **context)

    def _links(self, request: HttpRequest, workspace: Workspace, days: int) -> dict[str, Any]:
        path = self.view_url("trends", workspace)
        own: dict[str, str | int] = {
            name: value for name in _CHOICES if (value := request.GET.get(name))
        }

        def url(**query: str | int) -> str:
            return f"{path}?{urlencode(own | query)}"

        ranges = [(f"{each} days", url(days=each), each == days) for each in RANGES]
        return {"ranges": ranges, "file_url": url(days=days, file="csv")}


def _choose_days(request: HttpRequest) -> int:
    days = parse_id(request.GET.get("days") or str(RANGES[1]))
    if days not in RANGES:
        raise Http404
    return days


def _find_segment(segments: dict[int, Segment], text: str) -> Segment | None:
    if not text:
        return None
    segment = segments.get(parse_id(text) or 0)
    if segment is None:
        raise Http404
    return segment


def _workspaces(request: HttpRequest, workspace: Workspace) -> Iterator[Workspace]:
    """The other workspaces that the login may see, those of the product first."""
    visible = Workspace.objects.filter(product__in=visible_products(request.user))
    others = visible.exclude(pk=workspace.pk).select_related("product").order_by("product__name")
    yield from others.filter(product=workspace.product_id)[:MAX_WORKSPACES]
    yield from others.exclude(product=workspace.product_id)[:MAX_WORKSPACES]


def _beside(
    text: str, own: Subject, segments: dict[int, Segment], workspaces: Sequence[Workspace]
) -> Subject | None:
    """Raises Http404 for what the page does not offer."""
    kind, id = text[:1], parse_id(text[1:]) or 0
    if kind == _SEGMENT and id in segments:
        segment = segments[id]
        return Subject.of(segment.name, own.workspace, segment, own.last, own.days)
    if kind == _WORKSPACE:
        for workspace in workspaces:
            if workspace.pk == id:
                return Subject.of(str(workspace), workspace, None, own.last, own.days)
    if text:
        raise Http404
    return None


def _contents(own: Subject, other: Subject | None) -> dict[str, Any]:
    marks = [
        (change.day, describe_change(change))
        for change in scoring_changes(own.workspace, own.first)
    ]
    return {
        "own": own,
        "other": other,
        "headline": headline(own),
        "curves": list(curves(own, other, marks)),
        "rows": number_rows(own, other),
        "has_marks": bool(marks),
    }


def _file(own: Subject) -> HttpResponseBase:
    names = [name for name in reading.NAMES if not name.endswith("bands")]
    head = ("day", *names)
    points = own.points(Interval.DAY)
    rows = ((point.last, *(point.figures[name] for name in names)) for point in points)
    return csv_response(f"{slugify(own.name)}-trends", head, rows)
