"""What narrows the lists of users and accounts: a workspace, which ranks them, and a segment."""

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
    """A list in the order of the scores where a workspace is chosen."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = str(self.opts.verbose_name_plural).capitalize()

    def url_for_result(self, result: Any) -> str:
        # The page opens in the workspace that the list ranks by.
        scope: Scope = "user" if self.model is User else "account"
        return subject_url(result, scope, result.ranked_in)

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        if request.GET.get(WORKSPACE_PARAM):
            return ["-raw", "-pk"]
        return list(super().get_ordering(request, queryset))

    def get_results(self, request: HttpRequest) -> None:
        everybody = self.queryset
        if not self.query:
            self.queryset = self._narrowed(everybody)
        super().get_results(request)
        is_cut = getattr(self.paginator, "is_cut", False)
        # How many there are in all; empty where counting them would read a large table.
        total = self._total() if is_cut else self.result_count
        self.known_total = "" if total is None else f"{total:,}"
        # What an export goes through.
        self.queryset = everybody

    def _total(self) -> int | None:
        """Of a workspace or a segment it is counted in the background."""
        asked = {
            name
            for name in self.get_filters_params()
            if name not in (WORKSPACE_PARAM, SEGMENT_PARAM)
        }
        ranking = next(one for one in self.filter_specs if isinstance(one, WorkspaceFilter))
        if self.query or asked or ranking.score_set is None:
            return None
        for one in self.filter_specs:
            if isinstance(one, SegmentFilter) and one.chosen:
                return counts.segment_counts(ranking.score_set, [one.chosen])[one.chosen.pk]
        totals = counts.subject_totals([ranking.score_set])[ranking.score_set.pk]
        return totals.users if ranking.scope == "user" else totals.accounts

    def _narrowed(self, listed: QuerySet[Any]) -> QuerySet[Any]:
        """Those who are listed, found in the order of the ranking where a segment is chosen: the
        planner would look each subject up to see whether it is a member."""
        for chosen in self.filter_specs:
            if isinstance(chosen, SegmentFilter) and chosen.first is not None:
                # Asked once, for the page and for how many there are.
                return listed.filter(pk__in=list(chosen.first))
        return listed


class _ByWorkspace(ListFilter):
    """A filter that goes by the workspace that the person chose among those of their products."""

    def __init__(
        self, request: HttpRequest, params: dict[str, Any], model: type[Any], model_admin: Any
    ) -> None:
        self.scope: Scope = "user" if model is User else "account"
        self.visible = visible_products(request.user)
        self.asked = request.GET.get(WORKSPACE_PARAM)
        super().__init__(request, params, model, model_admin)

    @cached_property
    def offered(self) -> list[Workspace]:
        found = Workspace.objects.filter(product__in=self.visible)
        return list(
            found.select_related("product", "scores__cached_counts").order_by("product__name", "id")
        )

    @cached_property
    def workspace(self) -> Workspace | None:
        return subject_pages.choose_workspace(self.offered, self.asked) if self.asked else None

    @property
    def score_set(self) -> ScoreSet | None:
        """The scores that are read of the chosen workspace, if there are any yet."""
        found = self.workspace.scores if self.workspace else None
        return found if found and found.scored_day else None


class WorkspaceFilter(_ByWorkspace):
    """Leaves those who are scored in the workspace, with their ``raw`` score and ``benchmark``.

    Everybody has a ``last_active_at``, where no workspace is chosen that of the product's first, in
    which their page opens; and ``ranked_in``, the id of the chosen workspace or None.
    """

    title = "score in workspace"
    parameter_name = WORKSPACE_PARAM

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(one.pk), str(one)) for one in self.offered]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.workspace is None:
            return annotate_without_scores(queryset, self.scope)
        score_set = self.score_set
        if score_set is None:
            unknown = Value(None, output_field=BigIntegerField())
            nobody: QuerySet[Any] = annotate_without_scores(queryset.none(), self.scope).annotate(
                raw=unknown
            )
            return nobody
        return annotate_scores(queryset, score_set, self.scope)

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        everybody = {WORKSPACE_PARAM: None, SEGMENT_PARAM: None}
        yield {
            "selected": self.value() is None,
            "query_string": changelist.get_query_string(everybody),
            "display": "All",
        }
        for pk, name in self.lookup_choices:
            # A segment belongs to one workspace, so another one lets go of it.
            asked = everybody | {WORKSPACE_PARAM: pk}
            yield {
                "selected": self.value() == pk,
                "query_string": changelist.get_query_string(asked),
                "display": name,
            }


def annotate_scores(subjects: QuerySet[Any], score_set: ScoreSet, scope: Scope) -> QuerySet[Any]:
    """Those of the *subjects* that the set scores. In the order of ``-raw`` and ``-pk`` they are
    read from the index of the ranking."""
    benchmark = getattr(score_set, f"{scope}_benchmark")
    scored = subjects.filter(
        engagements__product=score_set.product_id, engagements__score_set=score_set
    )
    found: QuerySet[Any] = scored.annotate(
        raw=F("engagements__raw"),
        benchmark=Value(benchmark, output_field=FloatField()),
        last_active_at=F("engagements__last_active_at"),
        ranked_in=Value(score_set.workspace_id, output_field=BigIntegerField()),
    )
    return found


def annotate_without_scores(subjects: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
    """The *subjects* with what a ranked list shows besides the score."""
    rows: Any = (UserEngagement if scope == "user" else AccountEngagement).objects
    first = Workspace.objects.filter(product=OuterRef(OuterRef("product"))).order_by("id")
    of_first = rows.filter(
        **{"product": OuterRef("product"), scope: OuterRef("pk")},
        score_set=Subquery(first.values("scores")[:1]),
    )
    found: QuerySet[Any] = subjects.annotate(
        last_active_at=Subquery(
            of_first.values("last_active_at")[:1], output_field=DateTimeField()
        ),
        ranked_in=Value(None, output_field=BigIntegerField()),
    )
    return found


class SegmentFilter(_ByWorkspace):
    """Leaves the members of one of the chosen workspace's segments."""

    title = "segment"
    parameter_name = SEGMENT_PARAM
    # The ids of its members with the highest scores, as many as a list shows and one more.
    first: QuerySet[Any, Any] | None = None

    @cached_property
    def segments(self) -> dict[str, Segment]:
        if self.workspace is None:
            return {}
        found = subject_pages.usable_segments(self.workspace, self.scope)
        return {str(one.pk): one for one in found}

    @property
    def chosen(self) -> Segment | None:
        return self.segments.get(self.value() or "")

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [(pk, one.name) for pk, one in self.segments.items()]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        # Each workspace has a segment named All.
        unfiltered, *others = super().choices(changelist)
        return iter([unfiltered | {"display": "No segment"}, *others])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        asked = self.value()
        if not asked:
            return queryset
        if self.workspace is None or asked not in self.segments:
            raise Http404
        score_set = self.score_set
        if score_set is None:
            return queryset.none()
        rule = segments.segment_rule(self.segments[asked])
        members = segments.engagement_rows(score_set, self.scope).filter(
            segments.members_filter(score_set, rule)
        )
        ids = members.values_list(f"{self.scope}_id", flat=True)
        self.first = ids.order_by("-raw", f"-{self.scope}_id")[: MAX_LISTED_ROWS + 1]
        return queryset.filter(pk__in=ids)
