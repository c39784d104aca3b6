"""What is known of a user or an account besides its numbers: traits, events, who belongs where."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db.models import Count, F, FilteredRelation, Max, Min, Q, QuerySet

from engagement.admin.subject_urls import subject_url
from engagement.metric_names import Scope
from engagement.models import Account, DailyCount, Event, Membership, ScoreSet, User
from engagement.models.subjects import Subject
from engagement.scores.formula import compute_score
from engagement.scores.raw import USERS_SEEN_WITHIN_DAYS
from engagement.traits import Source, read_stamp

MARKETPLACE_PREFIX = "am."
SOURCES = {Source.MESSAGE: "Sent to the service", Source.MARKETPLACE: "Marketplace"}
EVENTS_SHOWN = 20
ACCOUNTS_SHOWN = 20
USERS_SHOWN = 50
TRAITS_SHOWN = 100
# So many characters of a value are shown.
VALUE_CHARACTERS_SHOWN = 500


@dataclass(frozen=True)
class TraitRow:
    """A trait as people read it. ``source`` and ``at`` say who wrote it and when, if known."""

    name: str
    value: str
    source: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class AccountRow:
    """An account that a user was seen in, when first, and when the user last did something there.
    ``url`` leads to its page, where it has one."""

    name: str
    url: str
    first: datetime
    last_active_at: datetime | None
    is_current: bool


@dataclass(frozen=True)
class RecentEventRow:
    """An event that happened; the user's account or the account's user, whose page is at ``url``
    if they have one."""

    event: str
    at: datetime
    who: str
    url: str


@dataclass(frozen=True)
class TraitTable:
    """The first traits by name, and how many more there are."""

    shown: list[TraitRow]
    more: int


def trait_table(subject: Subject) -> TraitTable:
    """The traits that were sent."""
    return _traits(subject, of_license=False)


def license_trait_table(subject: Subject) -> TraitTable:
    """What a marketplace license says of the account."""
    return _traits(subject, of_license=True)


def _traits(subject: Subject, *, of_license: bool) -> TraitTable:
    names = sorted(
        name for name in subject.traits if name.startswith(MARKETPLACE_PREFIX) == of_license
    )
    shown = [_trait(subject, name, subject.traits[name]) for name in names[:TRAITS_SHOWN]]
    return TraitTable(shown, len(names) - len(shown))


def _trait(subject: Subject, name: str, value: Any) -> TraitRow:
    """What is no text is written as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    shown = _cut(text)
    stored = subject.trait_stamps.get(name)
    if stored is None:
        return TraitRow(name, shown)
    written = read_stamp(stored)
    return TraitRow(name, shown, SOURCES[written.source], written.at)


def _cut(text: str) -> str:
    if len(text) <= VALUE_CHARACTERS_SHOWN:
        return text
    return (
        f"{text[:VALUE_CHARACTERS_SHOWN]}… ({len(text) - VALUE_CHARACTERS_SHOWN:,} more characters)"
    )


def events_of_user(user: User, workspace_id: int | None) -> list[RecentEventRow]:
    """The user's last events with their accounts, latest first: the end of a range of the key."""
    events = _last(Event.objects.filter(product=user.product_id, user=user), "account")
    return [_done(event, event.account, "account", workspace_id) for event in events]


def events_of_account(account: Account, workspace_id: int | None) -> list[RecentEventRow]:
    """The last events in the account with their users, latest first.

    No index has events by account, but one has their counts. The last twenty events are among those
    of the twenty counts whose last event is the latest, because each later count has one of them.
    """
    counts = DailyCount.objects.filter(
        product=account.product_id, account_id=account.pk, user__is_identified=True
    )
    latest = counts.order_by("-day", "-last_at").values_list("user_id", "day")[:EVENTS_SHOWN]
    users, days = {user for user, _ in latest}, [day for _, day in latest]
    if not days:
        return []
    events = Event.objects.filter(
        product=account.product_id,
        user__in=users,
        occurred_at__gte=datetime.combine(days[-1], time(), UTC),
        account=account,
    )
    return [_done(event, event.user, "user", workspace_id) for event in _last(events, "user")]


def _last(events: QuerySet[Event], beside: str) -> QuerySet[Event]:
    known = events.select_related("event_name", beside).defer(f"{beside}__trait_stamps")
    return known.order_by("-occurred_at", "-arrival")[:EVENTS_SHOWN]


def _done(
    event: Event, beside: User | Account | None, scope: Scope, workspace_id: int | None
) -> RecentEventRow:
    if beside is None:
        return RecentEventRow(event.event_name.name, event.occurred_at, "", "")
    name = beside.name or beside.external_id
    return RecentEventRow(
        event.event_name.name, event.occurred_at, name, _url(beside, scope, workspace_id)
    )


def account_rows(user: User, workspace_id: int | None) -> list[AccountRow]:
    """The accounts that the user was seen in, the latest first."""
    seen = Membership.objects.filter(product=user.product_id, user=user).values("account_id")
    seen = seen.annotate(first=Min("occurred_at"), last=Max("occurred_at"))
    rows = list(seen.order_by("-last", "-account_id")[:ACCOUNTS_SHOWN])
    accounts = Account.objects.defer("trait_stamps").filter(product=user.product_id)
    known = accounts.in_bulk([row["account_id"] for row in rows])
    counts = DailyCount.objects.filter(product=user.product_id, user=user, account_id__in=known)
    active = dict(counts.values_list("account_id").annotate(last=Max("last_at")))
    return [
        AccountRow(
            account.name or account.external_id,
            account_url(account, workspace_id),
            row["first"],
            active.get(account.pk),
            account.pk == user.account_id,
        )
        for row in rows
        if (account := known.get(row["account_id"]))
    ]


def account_url(account: Account, workspace_id: int | None) -> str:
    """The address of the account's page; empty while nothing but events has named it."""
    return _url(account, "account", workspace_id)


def _url(subject: Subject, scope: Scope, workspace_id: int | None) -> str:
    return subject_url(subject, scope, workspace_id) if subject.is_identified else ""


@dataclass(frozen=True)
class UserTable:
    """The users of an account: the first of them, with their scores, highest first; how many there
    are in all, and how many of them did anything in the account lately."""

    rows: Sequence[dict[str, Any]] = ()
    total: int = 0
    seen: int = 0
    days: int = USERS_SEEN_WITHIN_DAYS
    of_audience: bool = False


def user_table(account: Account, score_set: ScoreSet | None) -> UserTable:
    """Those whom ``total_users`` counts."""
    if score_set is None or score_set.scored_day is None:
        return UserTable()
    lately = _lately_in(account, score_set.scored_day)
    if score_set.audience:
        lately = lately.filter(user__engagements__score_set=score_set)
    row = account.engagements.filter(score_set=score_set).first()
    return UserTable(
        [_user_row(user, account, score_set) for user in users_by_score(account, score_set)],
        total=row.total_users if row else 0,
        seen=lately.aggregate(count=Count("user_id", distinct=True))["count"],
        of_audience=bool(score_set.audience),
    )


def _lately_in(account: Account, today: date) -> QuerySet[DailyCount]:
    """What known users did in the account in the days that make somebody one of its users."""
    days = (today - timedelta(days=USERS_SEEN_WITHIN_DAYS - 1), today)
    return DailyCount.objects.filter(
        product=account.product_id, account_id=account.pk, day__range=days, user__is_identified=True
    )


def _user_row(user: Any, account: Account, score_set: ScoreSet) -> dict[str, Any]:
    return {
        "user": user,
        "url": subject_url(user, "user", score_set.workspace_id),
        "is_gone": user.account_id != account.pk,
        "raw": user.raw,
        "score": format_score(user.raw, score_set.user_benchmark),
        "last_active_at": user.last_active_at,
    }


def users_by_score(account: Account, score_set: ScoreSet) -> QuerySet[Any]:
    """The account's highest users in *score_set*, with ``raw`` score and ``last_active_at``."""
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    members = User.objects.filter(account=account, is_identified=True).values("id")
    lately = _lately_in(account, score_set.scored_day).values("user_id")
    found = User.objects.filter(product=account.product_id, pk__in=members.union(lately))
    ranked = found.defer("trait_stamps").annotate(
        ranked=FilteredRelation("engagements", condition=Q(engagements__score_set=score_set)),
        raw=F("ranked__raw"),
        last_active_at=F("ranked__last_active_at"),
    )
    if score_set.audience:
        ranked = ranked.filter(raw__isnull=False)
    return ranked.order_by(F("raw").desc(nulls_last=True), "-id")[:USERS_SHOWN]


def format_score(raw: int | None, benchmark: float | None) -> str:
    """The score with one decimal, as people read it."""
    return "–" if raw is None else f"{compute_score(raw, benchmark):.1f}"
