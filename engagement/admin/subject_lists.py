"""Filters of the lists of users and accounts: a workspace, which ranks them, and a segment."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import (
    BigIntegerField,
    DateTimeField,
    F,
    FloatField,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
)
from django.http import Http404, HttpRequest

from engagement.admin import subject_pages
from engagement.admin.listing import MAX_LISTED_ROWS
from engagement.admin.scoping import visible_products
from engagement.admin.subject_urls import SEGMENT_PARAM, WORKSPACE_PARAM, subject_url
from engagement.metric_names import Scope
from engagement.models import (
    AccountEngagement,
    ScoreSet,
    Segment,
    User,
    UserEngagement,
    Workspace,
)
from engagement.segments import counts
from engagement.segments import members as segments

if TYPE_CHECKING:
    ListFilter: TypeAlias = admin.SimpleListFilter
else:
    ListFilter = admin.SimpleListFilter


class SubjectChangeList(ChangeList):
    """A list that is ordered by score if a workspace is chosen."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = str(self.opts.verbose_name_plural).capitalize()

    def url_for_result(self, result: Any) -> str:
        # The page opens in the workspace of the ranking.
        scope: Scope = "user" if self.model is User else "account"
        return subject_url(result, scope, result.ranked_in)

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        if request.GET.get(WORKSPACE_PARAM):
            return ["-raw", "-pk"]
        return list(super().get_ordering(request, queryset))

    def get_results(self, request: HttpRequest) -> None:
        all_rows = self.queryset
        if not self.query:
            self.queryset = self._narrow(all_rows)
        super().get_results(request)
        is_cut = getattr(self.paginator, "is_cut", False)
        # The number of all rows; empty if counting them would read a large table.
        total = self._cached_total() if is_cut else self.result_count
        self.known_total = "" if total is None else f"{total:,}"
        # For the export.
        self.queryset = all_rows

    def _cached_total(self) -> int | None:
        """The cached count of the workspace or segment, if no other filter is set."""
        other_filters = {
            name
            for name in self.get_filters_params()
            if name not in (WORKSPACE_PARAM, SEGMENT_PARAM)
        }
        ranking = next(spec for spec in self.filter_specs if isinstance(spec, WorkspaceFilter))
        if self.query or other_filters or ranking.score_set is None:
            return None
        for spec in self.filter_specs:
            if isinstance(spec, SegmentFilter) and (segment := spec.segment):
                return counts.segment_counts(ranking.score_set, [segment])[segment.pk]
        totals = counts.subject_totals([ranking.score_set])[ranking.score_set.pk]
        return totals.users if ranking.scope == "user" else totals.accounts

    def _narrow(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Limit the rows to the segment's first members, which are found in ranking order.

        Otherwise the planner would check each subject for membership.
        """
        for spec in self.filter_specs:
            if isinstance(spec, SegmentFilter) and spec.first_ids is not None:
                # As a list: one query serves the page and the count.
                return rows.filter(pk__in=list(spec.first_ids))
        return rows


class _WorkspaceParamFilter(ListFilter):
    """A filter that depends on the chosen workspace."""

    def __init__(
        self, request: HttpRequest, params: dict[str, Any], model: type[Any], model_admin: Any
    ) -> None:
        self.scope: Scope = "user" if model is User else "account"
        self.visible = visible_products(request.user)
        self.requested_id = request.GET.get(WORKSPACE_PARAM)
        super().__init__(request, params, model, model_admin)

    @cached_property
    def offered(self) -> list[Workspace]:
        rows = Workspace.objects.filter(product__in=self.visible)
        rows = rows.select_related("product", "scores__cached_counts")
        return list(rows.order_by("product__name", "id"))

    @cached_property
    def workspace(self) -> Workspace | None:
        return (
            subject_pages.choose_workspace(self.offered, self.requested_id)
            if self.requested_id
            else None
        )

    @property
    def score_set(self) -> ScoreSet | None:
        """The chosen workspace's published scores, if any."""
        scores = self.workspace.scores if self.workspace else None
        return scores if scores and scores.scored_day else None


class WorkspaceFilter(_WorkspaceParamFilter):
    """Keeps the subjects that the workspace scores, with their ``raw`` score and ``benchmark``.

    Adds ``ranked_in``, the id of the chosen workspace or None, and ``last_active_at``. If no
    workspace is chosen, that is from the product's first one, in which the subject's page opens.
    """

    # The side bar offers the same choice.
    is_in_navigation = True

    title = "score in workspace"
    parameter_name = WORKSPACE_PARAM

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(workspace.pk), str(workspace)) for workspace in self.offered]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.workspace is None:
            return annotate_without_scores(queryset, self.scope)
        score_set = self.score_set
        if score_set is None:
            no_rows: QuerySet[Any] = annotate_without_scores(queryset.none(), self.scope).annotate(
                raw=Value(None, output_field=BigIntegerField())
            )
            return no_rows
        return annotate_scores(queryset, score_set, self.scope)

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        unfiltered = {WORKSPACE_PARAM: None, SEGMENT_PARAM: None}
        yield {
            "selected": self.value() is None,
            "query_string": changelist.get_query_string(unfiltered),
            "display": "All",
        }
        for pk, name in self.lookup_choices:
            # A segment belongs to one workspace, so choosing another workspace clears it.
            yield {
                "selected": self.value() == pk,
                "query_string": changelist.get_query_string(unfiltered | {WORKSPACE_PARAM: pk}),
                "display": name,
            }


def annotate_scores(subjects: QuerySet[Any], score_set: ScoreSet, scope: Scope) -> QuerySet[Any]:
    """The *subjects* that the set scores. Ordered by ``-raw`` and ``-pk``, they are read from the
    ranking's index."""
    benchmark = getattr(score_set, f"{scope}_benchmark")
    scored = subjects.filter(
        engagements__product=score_set.product_id, engagements__score_set=score_set
    )
    annotated: QuerySet[Any] = scored.annotate(
        raw=F("engagements__raw"),
        benchmark=Value(benchmark, output_field=FloatField()),
        last_active_at=F("engagements__last_active_at"),
        ranked_in=Value(score_set.workspace_id, output_field=BigIntegerField()),
    )
    return annotated


def annotate_without_scores(subjects: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
    """The *subjects* with the annotations of a ranking, except the score."""
    rows: Any = (UserEngagement if scope == "user" else AccountEngagement).objects
    workspaces = Workspace.objects.filter(product=OuterRef(OuterRef("product"))).order_by("id")
    in_first = rows.filter(
        **{"product": OuterRef("product"), scope: OuterRef("pk")},
        score_set=Subquery(workspaces.values("scores")[:1]),
    )
    annotated: QuerySet[Any] = subjects.annotate(
        last_active_at=Subquery(
            in_first.values("last_active_at")[:1], output_field=DateTimeField()
        ),
        ranked_in=Value(None, output_field=BigIntegerField()),
    )
    return annotated


class SegmentFilter(_WorkspaceParamFilter):
    """Keeps the members of a segment of the chosen workspace."""

    title = "segment"
    parameter_name = SEGMENT_PARAM
    # The ids of the members with the highest scores: as many as a list shows, and one more.
    first_ids: QuerySet[Any, Any] | None = None

    @cached_property
    def segments(self) -> dict[str, Segment]:
        if self.workspace is None:
            return {}
        usable = subject_pages.usable_segments(self.workspace, self.scope)
        return {str(segment.pk): segment for segment in usable}

    @property
    def segment(self) -> Segment | None:
        return self.segments.get(self.value() or "")

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [(pk, segment.name) for pk, segment in self.segments.items()]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        # Each workspace has a segment named "All".
        unfiltered, *others = super().choices(changelist)
        return iter([unfiltered | {"display": "No segment"}, *others])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        if self.segment is None:
            raise Http404
        score_set = self.score_set
        if score_set is None:
            return queryset.none()
        rule = segments.segment_rule(self.segment)
        members = segments.engagement_rows(score_set, self.scope).filter(
            segments.members_filter(score_set, rule)
        )
        ids = members.values_list(f"{self.scope}_id", flat=True)
        self.first_ids = ids.order_by("-raw", f"-{self.scope}_id")[: MAX_LISTED_ROWS + 1]
        return queryset.filter(pk__in=ids)
