"""Where the entries of a timeline come from: each source reads what one app stores anyway, of one
subject, by a key or an index, newest first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, LiteralString

from django.utils.text import Truncator

from access.trail.scoring_changes import describe_parts, scoring_changes
from access.work import accounts, alarms
from core.database import sql
from engagement.activity import reading, sentences
from engagement.metric_names import Scope
from engagement.models import Account, Alarm, Membership, ScoreSet, TraitChange, User, Workspace
from engagement.rules import license_events
from engagement.scores import history
from outcomes.models import LicenseOutcome
from trends.models import SegmentMove
from trends.timeline.entries import Entry, EntryKind
from trends.timeline.moves_of_scores import score_moves

# How far a timeline goes back, and how many entries each source adds at most.
SPAN = timedelta(days=365)
MAX_OF_SOURCE = 500
# A user who sent nothing for so long is gone.
GONE_AFTER = timedelta(days=28)
NAMES_SHOWN, MAX_OF_NOTE = 3, 200


@dataclass(frozen=True)
class Subject:
    """An account or a user of a workspace, with its row of scores, on the UTC day *today*."""

    workspace: Workspace
    score_set: ScoreSet
    row: Any
    subject: Account | User
    today: date

    @property
    def scope(self) -> Scope:
        return "account" if isinstance(self.subject, Account) else "user"

    @property
    def first_day(self) -> date:
        return self.today - SPAN


def alarm_entries(about: Subject) -> Iterator[Entry]:
    """Alarms begun and ended, those that a replay decided again left out."""
    alarms = reading.alarms_of(about.score_set, *Alarm.Signal).filter(account=about.subject.pk)
    alarms = alarms.exclude(outcome=Alarm.Outcome.REPLACED).order_by("-since", "signal")
    for alarm in alarms[:MAX_OF_SOURCE]:
        name, key = sentences.alarm_name(alarm), f"{alarm.signal} {alarm.since}"
        is_rise = alarm.signal == Alarm.Signal.RISE
        text = f"{name}: {_numbers(alarm)}" if _numbers(alarm) else name
        yield Entry(
            alarm.since, EntryKind.ALARM, f"{alarm.signal}_began", text, key, is_good=is_rise
        )
        if alarm.ended_on:
            how = sentences.ENDED.get(Alarm.Outcome(alarm.outcome), "ended")
            days = (alarm.ended_on - alarm.since).days
            text = f"{name}: {how}, after {days} {'day' if days == 1 else 'days'}"
            yield Entry(alarm.ended_on, EntryKind.ALARM, f"{alarm.signal}_ended", text, key)


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


def score_entries(about: Subject) -> Iterator[Entry]:
    """Moves of the score over complete days."""
    days = history.score_history(about.score_set, about.row)[:-1]
    for move in score_moves(days):
        length = (move.until.day - move.since.day).days
        verb = "rose" if move.is_rise else "fell"
        text = (
            f"Score {verb} from {move.since.score:.1f} to {move.until.score:.1f} "
            f"within {length} days"
        )
        yield Entry(move.noticed.day, EntryKind.SCORE, verb, text, is_good=move.is_rise)


def segment_entries(about: Subject) -> Iterator[Entry]:
    """Segments of the workspace that the subject entered or left."""
    names = dict(about.workspace.segments.values_list("pk", "name"))
    moves = SegmentMove.objects.filter(
        product=about.workspace.product_id,
        scope=about.scope,
        subject_id=about.subject.pk,
        segment_id__in=names,
        day__gte=about.first_day,
    )
    for move in moves.order_by("-day", "segment_id")[:MAX_OF_SOURCE]:
        verb = "entered" if move.is_entry else "left"
        text = f"{verb.capitalize()} the segment {names[move.segment_id]}"
        yield Entry(move.day, EntryKind.SEGMENT, verb, text, str(move.segment_id))


def license_entries(about: Subject) -> Iterator[Entry]:
    """Events of the account's licenses, without those that are withdrawn."""
    for event in _license_events(about):
        key = f"{event.license} {event.anchor}"
        text = license_events.describe(event).removesuffix(".")
        yield Entry(event.date, EntryKind.LICENSE, event.type, text, key)


def _license_events(about: Subject) -> list[Any]:
    # The reader of one account does not load its product.
    product_id = about.workspace.product_id
    return license_events.latest_of(
        product_id, about.subject.external_id, about.first_day, MAX_OF_SOURCE
    )


_KINDS = {"renewal": "Term", "monthly_stay": "Quarter", "evaluation": "Evaluation"}


def outcome_entries(about: Subject) -> Iterator[Entry]:
    """What became of terms and evaluations, as the pages of outcomes count it."""
    licenses = {event.license for event in _license_events(about)}
    rows = LicenseOutcome.objects.filter(
        product=about.workspace.product_id,
        license__in=licenses,
        cloud_id=about.subject.external_id,
        exclusion="",
        known_on__isnull=False,
        day__range=(about.first_day, about.today),
    )
    for row in rows.order_by("-day", "license", "kind")[:MAX_OF_SOURCE] if licenses else ():
        began, result = f"{row.began_on.day} {row.began_on:%b %Y}", row.result.replace("_", " ")
        text = f"{_KINDS.get(row.kind, row.kind)} since {began} counts as {result}"
        key = f"{row.license} {row.kind}"
        yield Entry(row.day, EntryKind.OUTCOME, row.result, text, key)


# Days are UTC. Each user is in it with the day from which the account has them, and with that of
# their last message if they are gone.
_PEOPLE: LiteralString = """
    WITH person AS (
        SELECT u.id, u.traits->>'name' AS name, u.external_id,
               (COALESCE(u.account_since, u.first_seen_at) AT TIME ZONE 'UTC')::date AS came_on,
               (u.last_seen_at AT TIME ZONE 'UTC')::date AS seen_on
        FROM engagement_user u
        WHERE u.product_id = %(product)s AND u.account_id = %(account)s
          AND u.is_identified AND u.joined_to_id IS NULL),
    step AS (
        SELECT came_on AS day, true AS is_arrival, * FROM person
        WHERE came_on >= %(first_day)s
        UNION ALL
        SELECT seen_on, false, * FROM person
        WHERE seen_on BETWEEN %(first_day)s AND %(gone_on)s)
    SELECT day, is_arrival, count(*),
           (array_agg(COALESCE(NULLIF(name, ''), external_id) ORDER BY id))[:%(names)s]
    FROM step GROUP BY day, is_arrival ORDER BY day DESC LIMIT %(limit)s
"""


def people_entries(about: Subject) -> Iterator[Entry]:
    """Users of the account who came, and users who were last seen four weeks ago or earlier."""
    parameters = {
        "product": about.workspace.product_id,
        "account": about.subject.pk,
        "first_day": about.first_day,
        "gone_on": about.today - GONE_AFTER,
        "names": NAMES_SHOWN,
        "limit": MAX_OF_SOURCE,
    }
    for day, is_arrival, number, names in sql.fetch(_PEOPLE, parameters):
        users = "1 user" if number == 1 else f"{number:,} users"
        was = "was" if number == 1 else "were"
        text = f"{users} came" if is_arrival else f"{users} {was} seen for the last time"
        more = [f"and {number - len(names):,} more"] if number > len(names) else []
        type = "came" if is_arrival else "last_seen"
        yield Entry(day, EntryKind.PEOPLE, type, text, who=", ".join([*names, *more]))


def account_entries(about: Subject) -> Iterator[Entry]:
    """The accounts that a user came to."""
    rows = Membership.objects.filter(
        product=about.workspace.product_id, user=about.subject.pk
    ).select_related("account")
    days: dict[int, Entry] = {}
    for row in rows.order_by("occurred_at")[:MAX_OF_SOURCE]:
        day, name = row.occurred_at.date(), row.account.name or row.account.external_id
        if row.account.is_identified and row.account_id not in days:
            text = f"Came to the account {name}"
            days[row.account_id] = Entry(day, EntryKind.PEOPLE, "came", text, str(row.account_id))
    yield from days.values()


def trait_entries(about: Subject) -> Iterator[Entry]:
    """Changes of the traits of accounts whose history is kept."""
    changes = TraitChange.objects.filter(
        product=about.workspace.product_id, account=about.subject.pk, day__gte=about.first_day
    )
    for change in changes.order_by("-day", "name")[:MAX_OF_SOURCE]:
        values = f"{change.previous or 'none'} → {change.value or 'none'}"
        yield Entry(change.day, EntryKind.TRAIT, "changed", f"{change.name}: {values}", change.name)


def work_entries(about: Subject) -> Iterator[Entry]:
    """Notes about the account, and alarms that people closed."""
    assert isinstance(about.subject, Account)
    notes = accounts.notes_of(about.workspace.product_id, about.subject.pk)
    notes = notes.filter(written_at__date__gte=about.first_day)
    for note in notes[:MAX_OF_SOURCE]:
        words = Truncator(note.text).chars(MAX_OF_NOTE)
        who, key = f"{note.author}: {words}", str(note.pk)
        yield Entry(note.written_at.date(), EntryKind.WORK, "note", "Note", key, who)
    for row in alarms.closed_of(about.score_set, [about.subject.pk])[:MAX_OF_SOURCE]:
        text = f"{alarms.label(row.signal)} closed as “{row.result}”"
        key, who = f"{row.signal} {row.since}", f"by {row.closed_by}"
        yield Entry(row.closed_at.date(), EntryKind.WORK, "alarm_closed", text, key, who)


def scoring_entries(about: Subject) -> Iterator[Entry]:
    """When people changed how the workspace scores."""
    for change in scoring_changes(about.workspace, about.first_day):
        text, who = describe_parts(change), change.person and f"by {change.person}"
        key = f"{change.parts} {change.is_suggestion} {change.person}"
        yield Entry(change.day, EntryKind.SCORING, "scoring_changed", text, key, who)


Source = Callable[[Subject], Iterator[Entry]]
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
