"""The tables of a scheduled export: their columns, and their rows in the order of ids.

No column depends on anything that changes without a change stamp or a moved benchmark. So a run of
changes has all that changed.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from django.db.models import Q, QuerySet

from engagement import changes
from engagement.metric_names import Scope
from engagement.models import EventName, Feature, SavedView, ScoreSet, Segment
from engagement.orders.columns import (
    CHANCE_COLUMNS,
    COLUMNS,
    SCORE_FIELDS,
    ColumnType,
    Facts,
    read_facts,
)
from engagement.orders.columns import Column as SubjectColumn
from engagement.rules import license_events
from engagement.scopes import SubjectKind, get_kind
from engagement.scores.histories import DAYS, score_histories
from exports.cursors import Cursor
from exports.models import ScheduledExport, Table
from trends import reading
from trends.changes import whose
from trends.cohorts import storage
from trends.cohorts.results import Cohorts
from trends.models import ANY_EVENT, DayFigures, SegmentMove, StoredCohorts, UsageDay
from trends.timeline.entries import EntryKind
from trends.timeline.reading import kinds_of, timelines

# A row is as long as the columns of its table.
Row: TypeAlias = Sequence[Any]

ROWS_PER_FETCH, PREVIEW_ROWS = 2_000, 5
# Fewer, because each reads the counts of two months, or of four.
SCORED_PER_FETCH, TIMELINES_PER_FETCH = 500, 250


class Column(NamedTuple):
    name: str
    type: ColumnType
    meaning: str


class Chunk(NamedTuple):
    """Some rows of a table. ``after`` is the id after which the next chunk begins, None after the
    last one."""

    rows: Sequence[Row]
    after: int | None


class Span(NamedTuple):
    """What a run exports: all rows, or with ``since`` those that changed, as they are at ``until``.

    ``score_set`` shows the scores of ``until``. A chunk has about as many subjects as ``at_once``.
    ``matches`` narrows a complete run of users or accounts.
    """

    score_set: ScoreSet
    since: Cursor | None
    until: Cursor
    at_once: int
    matches: Q = Q()


class TableInfo(NamedTuple):
    scope: Scope
    columns: tuple[Column, ...]
    read: "Callable[[Span, int], Chunk]"


def read_chunk(table: str, span: Span, after: int) -> Chunk:
    """The rows of the table from the first subject after this id on."""
    return TABLES[Table(table)].read(span, after)


def preview(table: str, score_set: ScoreSet, until: Cursor, matches: Q) -> list[list[str]]:
    """The first rows of a complete file of the table, as CSV has their values."""
    chunk = read_chunk(table, Span(score_set, None, until, PREVIEW_ROWS, matches), 0)
    return [list(map(format_value, row)) for row in chunk.rows[:PREVIEW_ROWS]]


# --- Whose rows -----------------------------------------------------------------------------

# The tables of users and of accounts, which a segment or a view narrows.
TABLES_OF = {
    "account": (Table.ACCOUNTS, Table.ACCOUNT_SCORES, Table.ACCOUNT_TIMELINES),
    "user": (Table.USERS, Table.USER_SCORES, Table.USER_TIMELINES),
}
LOST = "The segment or the view of this export was deleted. Choose another one."


class SourceLost(Exception):
    """What the export is about is gone. The text says what to do."""


def find_source(export: ScheduledExport) -> Segment | SavedView | None:
    """The export's segment or view. Raises SourceLost."""
    row: Segment | SavedView | None = None
    if export.segment_id:
        row = Segment.objects.filter(pk=export.segment_id).first()
    elif export.view_id:
        row = SavedView.objects.filter(pk=export.view_id, owner=None).first()
    else:
        return None
    if row is None or row.workspace_id != export.workspace_id:
        raise SourceLost(LOST)
    return row


def rows_filter(export: ScheduledExport, score_set: ScoreSet) -> Q:
    """Keeps the engagement rows that the export writes. Raises SourceLost."""
    source = find_source(export)
    try:
        return (source and whose.rows_filter(source, score_set)) or Q()
    except whose.NoChanges as error:
        raise SourceLost(str(error)) from error


def describe_source(export: ScheduledExport) -> str:
    """“accounts of Paying”; empty for all."""
    try:
        source = find_source(export)
    except SourceLost:
        return "of something that was deleted"
    return f"{source.scope}s of {source.name}" if source else ""


def is_narrowed(export: ScheduledExport) -> bool:
    return bool(export.segment_id or export.view_id)


# --- Users and accounts ---------------------------------------------------------------------

# For readers of the last release.
_OLD_NAME = replace(
    COLUMNS["tracking_id"], name="external_id", meaning="tracking_id, until the next release"
)
_DELETED = Column("deleted", "boolean", "true in a run of changes for what is gone: delete the id")
_SCORES = (
    "score score_last_period score_change trend raw_score event_count active_days last_active_at"
)
_TIMES = "first_seen_at created_at traits"
# The last ones, because readers may count columns.
_ADDED = "score_change_complete_days"
_CHANCES = " ".join(f"{name} {name}_low {name}_high" for name in CHANCE_COLUMNS)

_STEPS = "steps_done next_step activated_on"


def _columns(own_id: str, names: str) -> list[SubjectColumn]:
    tracking_id = replace(COLUMNS["tracking_id"], meaning=f"the {own_id} of senders")
    others = (COLUMNS[name] for name in names.split())
    return [COLUMNS["id"], tracking_id, _OLD_NAME, *others]


_ACCOUNT_COLUMNS = _columns(
    "groupId",
    f"name domain {_SCORES} active_users total_users {_TIMES} activity activity_since "
    f"last_license_event last_license_event_on {_ADDED} {_CHANCES} features_in_use owner tags "
    f"{_STEPS}",
)
_USER_COLUMNS = _columns("userId", f"email name account_id {_SCORES} {_TIMES} {_ADDED} {_STEPS}")


def _described(columns: Sequence[SubjectColumn]) -> tuple[Column, ...]:
    return tuple(Column(each.name, each.type, each.meaning) for each in columns)


def _subject_table(scope: Scope, columns: Sequence[SubjectColumn]) -> TableInfo:
    kind, empty = get_kind(scope), (None,) * (len(columns) - 1)

    def read(span: Span, after: int) -> Chunk:
        ids, rows = _read_facts(kind, span, after)
        present: dict[int, Row] = {
            kind.subject_id(facts.row): [*(each.value(facts) for each in columns), False]
            for facts in rows
        }
        chunk = [present.get(id, (id, *empty, True)) for id in ids]
        return Chunk(chunk, ids[-1] if len(ids) == span.at_once else None)

    return TableInfo(scope, (*_described(columns), _DELETED), read)


def _read_facts(kind: SubjectKind, span: Span, after: int) -> tuple[list[int], list[Facts]]:
    """The next ids of the span, and the facts of those that are there."""
    if span.since is None:
        which = span.matches & Q(**{f"{kind.id_column}__gt": after})
        page = read_facts(span.score_set, kind, which, span.at_once)
        return [kind.subject_id(facts.row) for facts in page], page
    ids = changes.candidate_ids(
        span.score_set,
        kind.scope,
        span.since.stamp,
        span.since.benchmarks(kind.scope),
        after,
        span.at_once,
    )
    which = span.matches & Q(**{f"{kind.id_column}__in": ids})
    return ids, read_facts(span.score_set, kind, which)


# --- Scores per day, and timelines ------------------------------------------------------------

_SCORE_COLUMNS = (
    Column("day", "day", "a UTC day that is over"),
    *_described([COLUMNS["id"], COLUMNS["tracking_id"], _OLD_NAME]),
    Column("score", "number", "the score at the end of the day, above 0"),
)


def _next_rows(span: Span, kind: SubjectKind, after: int, number: int) -> tuple[list[Any], Any]:
    """The rows of scores of the next subjects, and the id after which the next ones begin."""
    size = min(number, span.at_once)
    rows = kind.engagement_rows(span.score_set).select_related(kind.scope)
    rows = rows.filter(span.matches, **{f"{kind.id_column}__gt": after}).order_by(kind.id_column)
    page = list(rows.only(*SCORE_FIELDS, f"{kind.path}external_id")[:size])
    return page, kind.subject_id(page[-1]) if len(page) == size else None


def _day_scores(scope: Scope) -> "Callable[[Span, int], Chunk]":
    kind = get_kind(scope)

    def read(span: Span, after: int) -> Chunk:
        page, more = _next_rows(span, kind, after, SCORED_PER_FETCH)
        histories = score_histories(span.score_set, kind, page, DAYS)
        chunk = [
            (day, kind.subject_id(row), tracking_id, tracking_id, score)
            for row in page
            for tracking_id in [getattr(row, scope).external_id]
            for day, score in histories[kind.subject_id(row)]
            if score > 0 and day <= span.until.day and (span.since is None or day > span.since.day)
        ]
        return Chunk(chunk, more)

    return read


_TIMELINE_COLUMNS = (
    Column("day", "day", "the UTC day"),
    Column("id", "integer", f"{COLUMNS['id'].meaning}; 0 if the entry is about the workspace"),
    *_described([COLUMNS["tracking_id"]]),
    Column("kind", "text", "what the entry is about, such as alarm or license"),
    Column("type", "text", "what happened, to programs"),
    Column("text", "text", "what happened, as a sentence"),
    Column("place", "integer", "its place among the entries of the day: the highest comes first"),
)


def _timelines(scope: Scope) -> "Callable[[Span, int], Chunk]":
    """Late data, replays, and withdrawn events change entries of past days, so a run of changes has
    all that are told, too."""
    kind = get_kind(scope)
    own_kinds = set(kinds_of(scope)) - {EntryKind.SCORING}

    def read(span: Span, after: int) -> Chunk:
        page, more = _next_rows(span, kind, after, TIMELINES_PER_FETCH)
        today = span.until.day + timedelta(days=1)
        own = {kind.subject_id(row): row for row in page}
        entries_by_id = timelines(span.score_set, kind, own, today, own_kinds)
        # How the workspace scores changed for all at once.
        of_all = (
            {} if after else timelines(span.score_set, kind, {0: None}, today, [EntryKind.SCORING])
        )
        names = {id: getattr(row, scope).external_id for id, row in own.items()}
        chunk = [
            (*(each.day, id, names.get(id)), *(each.kind, each.type, f"{each.text}.", each.place))
            for id, entries in (of_all | entries_by_id).items()
            for each in entries
        ]
        return Chunk(chunk, more)

    return read


# --- License events -------------------------------------------------------------------------

_EVENT_COLUMNS = (
    Column("id", "text", "of the event; corrections do not change it"),
    Column("license", "text", "the license's number, by which it was first met"),
    Column("type", "text", "what happened"),
    Column("date", "day", "the day on which it was true"),
    Column("known_on", "day", "the first day on which there was evidence"),
    Column("text", "text", "the event as a sentence"),
    Column("details", "json", "what the type says more about"),
    Column("sources", "text", "where the evidence is from, separated by commas"),
    Column("tracking_id", "text", "the Cloud ID, which is the groupId of its account"),
    Column("recorded_at", "time", "when it was first recorded"),
    Column("changed_at", "time", "when it last changed"),
    _DELETED,
)


def _read_events(span: Span, after: int) -> Chunk:
    """The events of the next days; *after* is the ordinal of a day. A day is never divided."""
    rows = license_events.events_of(span.score_set.product_id)
    if after:
        rows = rows.filter(date__gt=date.fromordinal(after))
    if span.since is None:
        rows = rows.filter(withdrawn_at=None)
    elif span.since.events_at is not None:
        rows = rows.filter(changed_at__gte=span.since.events_at)
    rows = rows.order_by("date", "id_hash")
    page = list(rows[:ROWS_PER_FETCH])
    if len(page) < ROWS_PER_FETCH:
        return Chunk([_event_row(row) for row in page], None)
    last = page[-1].date
    if page[0].date < last:
        page = [row for row in page if row.date < last]
    else:
        page = list(rows.filter(date=last))
    return Chunk([_event_row(row) for row in page], page[-1].date.toordinal())


def _event_row(row: Any) -> Row:
    id = f"{row.license}/{row.type}/{row.anchor}"
    if row.withdrawn_at is not None:
        return (id, *(None,) * (len(_EVENT_COLUMNS) - 2), True)
    details = json.dumps(row.details, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return (
        *(id, row.license, row.type, row.date, row.known_on, license_events.describe(row), details),
        *(",".join(row.sources), row.cloud_id, row.recorded_at, row.changed_at, False),
    )


# --- Figures and moves of days --------------------------------------------------------------

# Late data changes those of past days, so a run of changes has all that are kept, too.

_DAYS_PER_FETCH = 20


def _read_days(
    rows: QuerySet[Any], days: int, to_row: "Callable[[Any], Row]", *order: str
) -> Chunk:
    """The rows of the first days; no day is divided."""
    page = list(rows.order_by("day").values_list("day", flat=True).distinct()[:days])
    if not page:
        return Chunk([], None)
    own = rows.filter(day__lte=page[-1]).order_by("day", *order)
    more = page[-1].toordinal() if len(page) == days else None
    return Chunk([to_row(row) for row in own], more)


def _of_days(rows: QuerySet[Any], span: Span, after: int) -> QuerySet[Any]:
    """Those of the days until the end of the span; *after* is the ordinal of a day."""
    return rows.filter(day__lte=span.until.day, day__gt=date.fromordinal(max(1, after)))


def _trend_column(name: str) -> Column:
    kind: ColumnType = "json" if name.endswith("bands") else "integer"
    return Column(name, "number" if name in reading.SCORES else kind, reading.meaning(name))


_TREND_COLUMNS = (
    Column("day", "day", "the UTC day"),
    Column("segment_id", "integer", "the segment; 0 is the whole workspace"),
    *map(_trend_column, reading.NAMES),
)


def _read_trends(span: Span, after: int) -> Chunk:
    rows = DayFigures.objects.filter(workspace=span.score_set.workspace_id)
    return _read_days(_of_days(rows, span, after), _DAYS_PER_FETCH, _trend_row, "segment_id")


def _trend_row(row: DayFigures) -> Row:
    values = (getattr(row, name) for name in reading.NAMES)
    return (
        *(row.day, row.segment_id),
        *(json.dumps(each) if isinstance(each, list) else each for each in values),
    )


_MOVE_COLUMNS = (
    Column("day", "day", "the UTC day whose night found the move"),
    Column("segment_id", "integer", "the segment"),
    Column("scope", "text", "user or account"),
    Column("id", "integer", "the service's id of the user or account"),
    Column("move", "text", "entered or left"),
)


def _read_moves(span: Span, after: int) -> Chunk:
    """Moves stay as they are, so a run of changes has those since the last one."""
    segments = Segment.objects.filter(workspace=span.score_set.workspace_id)
    ids = list(segments.values_list("pk", flat=True))
    rows = SegmentMove.objects.filter(product=span.score_set.product_id, segment_id__in=ids)
    if span.since is not None:
        rows = rows.filter(day__gt=span.since.day)
    return _read_days(_of_days(rows, span, after), 1, _move_row, "segment_id", "subject_id")


def _move_row(move: SegmentMove) -> Row:
    verb = "entered" if move.is_entry else "left"
    return (move.day, move.segment_id, move.scope, move.subject_id, verb)


_USAGE_COLUMNS = (
    Column("day", "day", "the UTC day"),
    Column("kind", "text", "event, feature, or all for anything"),
    Column("name", "text", "the event or the feature; empty for all"),
    Column("users", "integer", "the users who did it"),
    Column("accounts", "integer", "the accounts in which a user did it"),
    Column("used_accounts", "integer", "accounts that did it in the 28 days until the end of day"),
    Column("started_accounts", "integer", "those of them that had never done it before"),
    Column("stopped_accounts", "integer", "accounts that stopped in these days"),
)


def _read_usage(span: Span, after: int) -> Chunk:
    product_id = span.score_set.product_id
    features = dict(Feature.objects.filter(product=product_id).values_list("pk", "name"))
    events = dict(EventName.objects.filter(product=product_id).values_list("pk", "name"))

    def to_row(row: UsageDay) -> Row:
        kind = "feature" if row.feature_id else "event" if row.event_name_id else "all"
        name = features.get(row.feature_id) or events.get(row.event_name_id) or ""
        sums = (row.used_accounts, row.started_accounts, row.stopped_accounts)
        return (row.day, kind, name, row.users, row.accounts, *sums)

    rows = _of_days(UsageDay.objects.filter(product=product_id), span, after)
    return _read_days(rows, _DAYS_PER_FETCH, to_row, "feature_id", "event_name_id")


_COHORT_COLUMNS = (
    Column("subjects", "text", "account or user: whose cohorts these are"),
    Column("event", "text", "what they did; empty for anything that counts"),
    Column("by", "text", "the trait by which they are grouped; empty for one group of all"),
    Column("week", "day", "the Monday of the UTC week in which they were first seen"),
    Column("group", "text", "all of them, or a value of the trait"),
    Column("value", "text", "the value; empty for all, for other values, and for none"),
    Column("first_seen", "integer", "how many were first seen in the week"),
    Column("weeks_later", "integer", "how many weeks after that"),
    Column("active", "integer", "how many of them were active then"),
    Column("share", "number", "their share; empty if there are none"),
    Column("share_low", "number", "the low end of its 95% interval"),
    Column("share_high", "number", "its high end"),
    Column("is_complete", "boolean", "whether the later week is over"),
    Column("through", "day", "the last UTC day that is counted"),
)


def _read_cohorts(span: Span, after: int) -> Chunk:
    """Of one question after the other."""
    names = EventName.objects.filter(product=span.score_set.product_id).values_list("pk", "name")
    events: dict[int, str | None] = {ANY_EVENT: None, **dict(names)}
    rows = StoredCohorts.objects.filter(workspace=span.score_set.workspace_id)
    rows = rows.filter(pk__gt=after, event_name_id__in=events)
    question = rows.order_by("pk").first()
    if question is None:
        return Chunk([], None)
    about = (question.scope, events[question.event_name_id], question.trait or None)
    cohorts = storage.decode(question)
    chunk = [(*about, *row) for row in _cohort_rows(cohorts)] if cohorts else []
    return Chunk(chunk, question.pk)


def _cohort_rows(cohorts: Cohorts) -> Iterator[Row]:
    for group in cohorts.groups:
        for number, first_seen in enumerate(group.sizes):
            week = (cohorts.week(number), group.label, group.value, first_seen)
            for later, active in enumerate(group.active[number]):
                share = cohorts.share(group, number, later)
                shares = (share.value, share.low, share.high) if share else (None, None, None)
                is_complete = cohorts.is_complete(number + later)
                yield (*week, later, active, *shares, is_complete, cohorts.through)


TABLES: dict[Table, TableInfo] = {
    Table.ACCOUNTS: _subject_table("account", _ACCOUNT_COLUMNS),
    Table.USERS: _subject_table("user", _USER_COLUMNS),
    Table.ACCOUNT_SCORES: TableInfo("account", _SCORE_COLUMNS, _day_scores("account")),
    Table.USER_SCORES: TableInfo("user", _SCORE_COLUMNS, _day_scores("user")),
    Table.ACCOUNT_TIMELINES: TableInfo("account", _TIMELINE_COLUMNS, _timelines("account")),
    Table.USER_TIMELINES: TableInfo("user", _TIMELINE_COLUMNS, _timelines("user")),
    Table.LICENSE_EVENTS: TableInfo("account", _EVENT_COLUMNS, _read_events),
    Table.TRENDS: TableInfo("account", _TREND_COLUMNS, _read_trends),
    Table.COHORTS: TableInfo("account", _COHORT_COLUMNS, _read_cohorts),
    Table.SEGMENT_MOVES: TableInfo("account", _MOVE_COLUMNS, _read_moves),
    Table.USAGE: TableInfo("account", _USAGE_COLUMNS, _read_usage),
}


def format_value(value: Any) -> str:
    """The value as text: empty for none, ISO 8601 for times."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        # As in the read API, with microseconds also where they are zero.
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else str(value)
