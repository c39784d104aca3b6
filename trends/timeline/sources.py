"""Where the entries of timelines come from: each source reads what one app stores anyway, of some
subjects, by a key or an index, newest first."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, LiteralString, TypeAlias

from django.db.models import F, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils.text import Truncator

from access.trail.scoring_changes import describe_parts, scoring_changes
from access.work import accounts, alarms
from core.database import sql
from engagement.activity import reading, sentences
from engagement.metric_names import Scope
from engagement.models import Alarm, Membership, ScoreSet, TraitChange
from engagement.rules import license_events
from engagement.scopes import SubjectKind
from engagement.scores.benchmarks import HISTORY_DAYS
from engagement.scores.histories import score_histories
from outcomes.models import LicenseOutcome
from trends.models import SegmentMove
from trends.timeline.entries import Entry, EntryKind
from trends.timeline.moves_of_scores import score_moves

# How far a timeline goes back, and how many rows each source reads at most of a subject.
SPAN = timedelta(days=365)
MAX_OF_SOURCE = 500
# A user who sent nothing for so long is gone.
GONE_AFTER = timedelta(days=28)
NAMES_SHOWN, MAX_OF_NOTE = 3, 200


@dataclass(frozen=True)
class Subjects:
    """Accounts or users of the score set's workspace, on the UTC day *today*: their rows of scores
    by their ids. Each row has its subject."""

    score_set: ScoreSet
    kind: SubjectKind
    rows: Mapping[int, Any]
    today: date

    @property
    def first_day(self) -> date:
        return self.today - SPAN

    def ids_by_name(self) -> dict[str, int]:
        """The ids by what senders call the subjects."""
        return {getattr(row, self.kind.scope).external_id: id for id, row in self.rows.items()}

    def latest(self, rows: QuerySet[Any], column: str, *order: str) -> QuerySet[Any]:
        """The rows in this order, of each subject, whom the column names, at most the first."""
        ordered: QuerySet[Any] = rows.order_by(*order)
        if len(self.rows) == 1:
            return ordered[:MAX_OF_SOURCE]
        number = Window(RowNumber(), partition_by=F(column), order_by=order)
        latest: QuerySet[Any] = ordered.annotate(number=number).filter(number__lte=MAX_OF_SOURCE)
        return latest


# An entry, and the id of the subject that it is about.
SubjectEntry: TypeAlias = tuple[int, Entry]


def alarm_entries(about: Subjects) -> Iterator[SubjectEntry]:
    """Alarms begun and ended, those that a replay decided again left out."""
    rows = reading.alarms_of(about.score_set, *Alarm.Signal).filter(account__in=about.rows)
    rows = rows.exclude(outcome=Alarm.Outcome.REPLACED)
    for alarm in about.latest(rows, "account", "-since", "signal"):
        name, key = sentences.alarm_name(alarm), f"{alarm.signal} {alarm.since}"
        is_rise = alarm.signal == Alarm.Signal.RISE
        text, type = f"{name}: {_numbers(alarm)}" if _numbers(alarm) else name, alarm.signal
        began = Entry(alarm.since, EntryKind.ALARM, f"{type}_began", text, key, is_good=is_rise)
        yield alarm.account_id, began
        if alarm.ended_on:
            how = sentences.ENDED.get(Alarm.Outcome(alarm.outcome), "ended")
            days = (alarm.ended_on - alarm.since).days
            text = f"{name}: {how}, after {days} {'day' if days == 1 else 'days'}"
            ended = Entry(alarm.ended_on, EntryKind.ALARM, f"{type}_ended", text, key)
            yield alarm.account_id, ended


def _numbers(alarm: Alarm) -> str:
    """What the alarm was decided by."""
    if alarm.signal in reading.DIRECTIONS:
        weeks = alarm.window_days // 7
        return f"{alarm.observed:,} active user-days in {weeks} weeks, {alarm.expected:,.0f} usual"
    if alarm.signal == Alarm.Signal.FEATURE:
        return ", ".join(event["name"] for event in alarm.details.get("events", ()))
    if alarm.signal == Alarm.Signal.LEAVING:
        return f"{alarm.details['quiet']} of {alarm.details['regular']} regular users are quiet"
    return ""


def score_entries(about: Subjects) -> Iterator[SubjectEntry]:
    """Moves of scores over complete days."""
    rows = list(about.rows.values())
    histories = score_histories(about.score_set, about.kind, rows, HISTORY_DAYS)
    for id, history in histories.items():
        for move in score_moves(history[:-1]):
            length = (move.until.day - move.since.day).days
            verb = "rose" if move.is_rise else "fell"
            text = (
                f"Score {verb} from {move.since.score:.1f} to {move.until.score:.1f} "
                f"within {length} days"
            )
            day = move.noticed.day
            yield id, Entry(day, EntryKind.SCORE, verb, text, is_good=move.is_rise)


def segment_entries(about: Subjects) -> Iterator[SubjectEntry]:
    """Segments of the workspace that the subjects entered or left."""
    names = dict(about.score_set.workspace.segments.values_list("pk", "name"))
    moves = SegmentMove.objects.filter(
        product=about.score_set.product_id,
        scope=about.kind.scope,
        subject_id__in=about.rows,
        segment_id__in=names,
        day__gte=about.first_day,
    )
    for move in about.latest(moves, "subject_id", "-day", "segment_id"):
        verb = "entered" if move.is_entry else "left"
        text, key = f"{verb.capitalize()} the segment {names[move.segment_id]}", move.segment_id
        yield move.subject_id, Entry(move.day, EntryKind.SEGMENT, verb, text, str(key))


def license_entries(about: Subjects) -> Iterator[SubjectEntry]:
    """Events of the accounts' licenses, without those that are withdrawn."""
    ids = about.ids_by_name()
    for event in _license_events(about, ids):
        key = f"{event.license} {event.anchor}"
        text = license_events.describe(event).removesuffix(".")
        yield ids[event.cloud_id], Entry(event.date, EntryKind.LICENSE, event.type, text, key)


def _license_events(about: Subjects, ids: Mapping[str, int]) -> QuerySet[Any]:
    rows = license_events.events_since(about.score_set.product_id, ids, about.first_day)
    return about.latest(rows, "cloud_id", *license_events.LATEST_FIRST)


_KINDS = {"renewal": "Term", "monthly_stay": "Quarter", "evaluation": "Evaluation"}


def outcome_entries(about: Subjects) -> Iterator[SubjectEntry]:
    """What became of terms and evaluations, as the pages of outcomes count it."""
    ids = about.ids_by_name()
    licenses = {(event.license, event.cloud_id) for event in _license_events(about, ids)}
    rows = LicenseOutcome.objects.filter(
        product=about.score_set.product_id,
        license__in={license for license, _ in licenses},
        cloud_id__in=ids,
        exclusion="",
        known_on__isnull=False,
        day__range=(about.first_day, about.today),
    )
    for row in about.latest(rows, "cloud_id", "-day", "license", "kind"):
        if (row.license, row.cloud_id) in licenses:
            began, result = f"{row.began_on.day} {row.began_on:%b %Y}", row.result.replace("_", " ")
            text = f"{_KINDS.get(row.kind, row.kind)} since {began} counts as {result}"
            key = f"{row.license} {row.kind}"
            yield ids[row.cloud_id], Entry(row.day, EntryKind.OUTCOME, row.result, text, key)


# Days are UTC. Each user is in it with the day from which the account has them, and with that of
# their last message if they are gone: two rows of a day at most.
_PEOPLE: LiteralString = """
    WITH person AS (
        SELECT u.id, u.account_id, u.traits->>'name' AS name, u.external_id,
               (COALESCE(u.account_since, u.first_seen_at) AT TIME ZONE 'UTC')::date AS came_on,
               (u.last_seen_at AT TIME ZONE 'UTC')::date AS seen_on
        FROM engagement_user u
        WHERE u.product_id = %(product)s AND u.account_id = ANY(%(accounts)s)
          AND u.is_identified AND u.joined_to_id IS NULL),
    step AS (
        SELECT came_on AS day, true AS is_arrival, * FROM person
        WHERE came_on >= %(first_day)s
        UNION ALL
        SELECT seen_on, false, * FROM person
        WHERE seen_on BETWEEN %(first_day)s AND %(gone_on)s)
    SELECT account_id, day, is_arrival, count(*),
           (array_agg(COALESCE(NULLIF(name, ''), external_id) ORDER BY id))[:%(names)s]
    FROM step GROUP BY account_id, day, is_arrival
"""


def people_entries(about: Subjects) -> Iterator[SubjectEntry]:
    """Users of the accounts who came, and users who were last seen four weeks ago or earlier."""
    parameters = {
        "product": about.score_set.product_id,
        "accounts": list(about.rows),
        "first_day": about.first_day,
        "gone_on": about.today - GONE_AFTER,
        "names": NAMES_SHOWN,
    }
    for id, day, is_arrival, number, names in sql.fetch(_PEOPLE, parameters):
        users = "1 user" if number == 1 else f"{number:,} users"
        was = "was" if number == 1 else "were"
        text = f"{users} came" if is_arrival else f"{users} {was} seen for the last time"
        more = [f"and {number - len(names):,} more"] if number > len(names) else []
        type = "came" if is_arrival else "last_seen"
        yield id, Entry(day, EntryKind.PEOPLE, type, text, who=", ".join([*names, *more]))


def account_entries(about: Subjects) -> Iterator[SubjectEntry]:
    """The accounts that users came to."""
    rows = Membership.objects.filter(product=about.score_set.product_id, user__in=about.rows)
    ways = set[tuple[int, int]]()
    for row in about.latest(rows.select_related("account"), "user", "occurred_at"):
        name, way = row.account.name or row.account.external_id, (row.user_id, row.account_id)
        if row.account.is_identified and way not in ways:
            ways.add(way)
            day, text = row.occurred_at.date(), f"Came to the account {name}"
            entry = Entry(day, EntryKind.PEOPLE, "came", text, str(row.account_id))
            yield row.user_id, entry


def trait_entries(about: Subjects) -> Iterator[SubjectEntry]:
    """Changes of the traits of accounts whose history is kept."""
    rows = TraitChange.objects.filter(
        product=about.score_set.product_id, account__in=about.rows, day__gte=about.first_day
    )
    for row in about.latest(rows, "account", "-day", "name"):
        text = f"{row.name}: {row.previous or 'none'} → {row.value or 'none'}"
        yield row.account_id, Entry(row.day, EntryKind.TRAIT, "changed", text, row.name)


def work_entries(about: Subjects) -> Iterator[SubjectEntry]:
    """Notes about accounts, and alarms that people closed."""
    notes = accounts.notes_of(about.score_set.product_id, about.rows)
    notes = notes.filter(written_at__date__gte=about.first_day)
    for note in about.latest(notes, "account", "-written_at", "-pk"):
        words = Truncator(note.text).chars(MAX_OF_NOTE)
        day, who = note.written_at.date(), f"{note.author}: {words}"
        yield note.account_id, Entry(day, EntryKind.WORK, "note", "Note", str(note.pk), who)
    closed = alarms.closed_of(about.score_set, about.rows)
    for row in about.latest(closed, "account", "-closed_at"):
        text = f"{alarms.label(row.signal)} closed as “{row.result}”"
        key, who = f"{row.signal} {row.since}", f"by {row.closed_by}"
        entry = Entry(row.closed_at.date(), EntryKind.WORK, "alarm_closed", text, key, who)
        yield row.account_id, entry


def scoring_entries(about: Subjects) -> Iterator[SubjectEntry]:
    """When people changed how the workspace scores."""
    for change in scoring_changes(about.score_set.workspace, about.first_day):
        text, who = describe_parts(change), change.person and f"by {change.person}"
        key = f"{change.parts} {change.is_suggestion} {change.person}"
        entry = Entry(change.day, EntryKind.SCORING, "scoring_changed", text, key, who)
        yield from ((id, entry) for id in about.rows)


Source = Callable[[Subjects], Iterator[SubjectEntry]]
SOURCES: dict[Scope, dict[EntryKind, Source]] = {
    "account": {
        EntryKind.ALARM: alarm_entries,
        EntryKind.SCORE: score_entries,
        EntryKind.LICENSE: license_entries,
        EntryKind.OUTCOME: outcome_entries,
        EntryKind.SEGMENT: segment_entries,
        EntryKind.PEOPLE: people_entries,
        EntryKind.TRAIT: trait_entries,
        EntryKind.WORK: work_entries,
        EntryKind.SCORING: scoring_entries,
    },
    "user": {
        EntryKind.SCORE: score_entries,
        EntryKind.SEGMENT: segment_entries,
        EntryKind.PEOPLE: account_entries,
        EntryKind.SCORING: scoring_entries,
    },
}
