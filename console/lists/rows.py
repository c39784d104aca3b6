"""Reads a page of a list, and all rows of it for an export."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import Q, QuerySet

from console.lists.filters import list_filter, list_rule
from console.lists.state import ListState
from core.database import sql
from engagement.models import ScoreSet, Segment
from engagement.orders import pages, storage
from engagement.orders.columns import sorted_rows, with_facts
from engagement.rules.rules import ActivationCondition, Rule
from engagement.scopes import SubjectKind, get_kind
from engagement.search import lookup
from engagement.segments import counts
from engagement.segments.activation import known_count
from engagement.segments.members import segment_rule

# Limits of the statements that filter a large set: to sort it, and to count it.
FILTER_TIMEOUT_SECONDS = 5.0
COUNT_TIMEOUT_SECONDS = 0.1
ROWS_PER_FETCH = 2_000
ANYBODY = Q()

NOT_READY = (
    "These {plural} are being sorted by this column for the first time. Reload the page in a "
    "minute, or sort by score."
)
TOO_SLOW = (
    "Sorting these {plural} takes too long. Sort by score, or remove a filter. The export has all "
    "of them."
)


@dataclass(frozen=True)
class Listing:
    """The rows of a page. *total* is the number of all rows, None if counting them takes too long.

    *as_of* is the time of the order of a large set, None if the order is exact. *problem* is a
    sentence that says why there are no rows.
    """

    rows: Sequence[Any]
    total: int | None
    has_more: bool
    as_of: datetime | None = None
    problem: str = ""


@dataclass(frozen=True)
class ListQuery:
    """The rows that a list shows, from the set of scores of its workspace."""

    score_set: ScoreSet
    state: ListState
    segment: Segment | None
    now: datetime

    @property
    def kind(self) -> SubjectKind:
        return get_kind(self.state.scope)

    def read_page(self) -> Listing:
        try:
            if not self.state.is_filtered:
                return self._read_all()
            return self._read_matches() or self._read_filtered()
        except pages.OrderNotReady:
            return self._problem(NOT_READY)
        except sql.StatementTimeout:
            return self._problem(TOO_SLOW)

    def _problem(self, text: str) -> Listing:
        return Listing([], None, has_more=False, problem=text.format(plural=self.kind.plural))

    def _read_all(self) -> Listing:
        """One row more than a page has says whether there is another page."""
        page = pages.read_page(
            self.score_set,
            self.kind,
            self.state.sort_column,
            descending=self.state.is_descending,
            offset=self.state.offset,
            limit=self.state.page_size,
            now=self.now,
        )
        total = page.row_count
        if total is None:
            total = getattr(
                counts.subject_totals([self.score_set])[self.score_set.pk], self.kind.plural
            )
        has_more = self.state.offset + self.state.page_size < total
        return Listing(self._rows(page.ids), total, has_more, page.as_of)

    def _read_matches(self) -> Listing | None:
        """The page of a list by one filter, of a large set whose background knows who matches."""
        page = pages.read_matches(
            self.score_set,
            self.kind,
            self._column_of_matches,
            descending=self.state.is_descending,
            offset=self.state.offset,
            limit=self.state.page_size,
            now=self.now,
        )
        if not page:
            return None
        has_more = self.state.offset + self.state.page_size < (page.row_count or 0)
        # Those that match no longer are left out. If none is left, much has changed.
        rows = self._rows(page.ids, self._filter)
        is_usable = bool(rows) or not page.ids
        return Listing(rows, page.row_count, has_more, page.as_of) if is_usable else None

    @cached_property
    def _column_of_matches(self) -> str:
        """The order that has the rows of the list in its order; empty if none does."""
        is_single = len(self.state.filters) == 1 and not self.state.search
        is_ranking = is_single and self.state.sort_column == "score"
        if not is_ranking:
            return ""
        return pages.matches_column(self.score_set, self.kind, self._rules[-1], self.segment)

    @cached_property
    def _rules(self) -> list[Rule]:
        """The conditions of the filters, and those of the segment."""
        rules = [list_rule(self.state)]
        return [*rules, segment_rule(self.segment)] if self.segment else rules

    @cached_property
    def _filter(self) -> Q:
        return list_filter(self.state, self.score_set, self.segment)

    @cached_property
    def _candidates(self) -> list[pages.OrderPage]:
        return [
            page
            for rule in self._rules
            for page in pages.candidates(rule, self.score_set, self.now)
        ]

    def _read_filtered(self) -> Listing:
        offset, size = self.state.offset, self.state.page_size
        column = self._column_of_matches
        noting_wait = pages.noting_wait(self.score_set, self.kind, column, self.now)
        with noting_wait, sql.statement_timeout(FILTER_TIMEOUT_SECONDS):
            ids = list(self._filtered_ids()[offset : offset + size + 1])
        has_more = len(ids) > size
        total = self._count() if has_more or offset else len(ids)
        as_of = min((page.as_of for page in self._candidates if page.as_of), default=None)
        return Listing(self._rows(ids[:size]), total, has_more, as_of)

    def _count(self) -> int | None:
        is_single = len(self.state.filters) == 1 and not self.state.search
        if is_single and self.segment is not None:
            counted = counts.known_segment_counts(self.score_set, [self.segment])
            if self.segment.pk in counted:
                return counted[self.segment.pk]
        if is_single and (insight := self.state.filters.get("insight")):
            count = counts.cached_insight_count(self.score_set, insight)
            if count is not None:
                return count
        match list_rule(self.state).conditions if is_single else ():
            case [ActivationCondition() as condition]:
                if count := known_count(condition, self.score_set, self.kind):
                    return count
        try:
            with sql.statement_timeout(COUNT_TIMEOUT_SECONDS):
                return self._matching_rows().count()
        except sql.StatementTimeout:
            return None

    def _matching_rows(self) -> QuerySet[Any]:
        return self._matching(self.kind.engagement_rows(self.score_set))

    def _filtered_ids(self) -> QuerySet[Any]:
        rows = sorted_rows(
            self.score_set,
            self.kind,
            self.state.sort_column,
            descending=self.state.is_descending,
        )
        return self._matching(rows).values_list(self.kind.id_column, flat=True)

    def _matching(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        matches = self._filter
        for page in self._candidates:
            matches &= page.among(self.kind)
        if self.state.search:
            product_ids = [self.score_set.product_id]
            entries = lookup.matching_entries(product_ids, self.kind.scope, self.state.search)
            matches &= Q(**{f"{self.kind.id_column}__in": entries.values("subject_id")})
        return rows.filter(matches)

    def _rows(self, ids: Sequence[int], matches: Q = ANYBODY) -> list[Any]:
        """The engagement rows with these ids, in this order, each with its subject."""
        kind = self.kind
        own = Q(**{f"{kind.id_column}__in": list(ids)})
        rows = kind.engagement_rows(self.score_set).filter(own, matches)
        rows = rows.select_related(kind.scope).defer(f"{kind.path}trait_stamps")
        rows = with_facts(rows, self.score_set, kind)
        if kind.scope == "user":
            rows = rows.select_related("user__account").defer(
                "user__trait_stamps", "user__account__trait_stamps"
            )
        by_id = {kind.subject_id(row): row for row in rows}
        return [by_id[id] for id in ids if id in by_id]

    def first_ids(self, limit: int) -> list[int]:
        """The ids of as many rows of the list, in its order."""
        return list(self._filtered_ids()[:limit])

    # --- Export -------------------------------------------------------------------------------

    def all_rows(self) -> Iterator[Any]:
        """All rows of the list in its order, some thousand of them in memory."""
        is_stored = not self.state.is_filtered and storage.has_order(
            self.score_set, self.kind, self.state.sort_column
        )
        for ids in self._stored_ids() if is_stored else self._sorted_ids():
            yield from self._rows(ids)

    def _stored_ids(self) -> Iterator[Sequence[int]]:
        """The stored order from its beginning, in one version as long as that is stored."""
        version, offset, row_count = 0, 0, 1
        while offset < row_count:
            page = pages.read_page(
                self.score_set,
                self.kind,
                self.state.sort_column,
                descending=self.state.is_descending,
                offset=offset,
                limit=ROWS_PER_FETCH,
                now=self.now,
                version=version,
            )
            yield page.ids
            version, row_count = page.version or 0, page.row_count or 0
            offset += ROWS_PER_FETCH

    def _sorted_ids(self) -> Iterator[Sequence[int]]:
        batch: list[int] = []
        for id in self._filtered_ids().iterator(ROWS_PER_FETCH):
            batch.append(id)
            if len(batch) == ROWS_PER_FETCH:
                yield batch
                batch = []
        yield batch
