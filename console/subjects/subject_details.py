"""The traits and events of users and accounts, and the accounts of a user."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

from django.db.models import Max, Min, QuerySet

from access.pages.subject_urls import subject_url
from engagement.license_traits import LICENSE_PREFIX
from engagement.metric_names import Scope
from engagement.models import (
    Account,
    Alias,
    DailyCount,
    Event,
    JoinRequest,
    Membership,
    User,
)
from engagement.models.subjects import Subject
from engagement.traits import Source, read_stamp

SOURCES = {Source.MESSAGE: "API", Source.MARKETPLACE: "Marketplace"}
EVENTS_SHOWN = 20
ACCOUNTS_SHOWN = 20
TRAITS_SHOWN = 100
# Longer values are cut.
VALUE_CHARACTERS_SHOWN = 500


@dataclass(frozen=True)
class TraitRow:
    """A trait, with its source and the time it was updated, if known."""

    name: str
    value: str
    source: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class AccountRow:
    """An account that a user belongs or belonged to. ``url`` is empty if it has no page."""

    name: str
    url: str
    first_seen_at: datetime
    last_active_at: datetime | None
    is_current: bool


@dataclass(frozen=True)
class RecentEventRow:
    """An event, with the user's account or the account's user. ``url`` is empty if that one has no
    page."""

    event: str
    at: datetime
    counterpart: str
    url: str


@dataclass(frozen=True)
class TraitTable:
    """The first traits by name, and the number of the others."""

    rows: list[TraitRow]
    more: int


def trait_table(subject: Subject) -> TraitTable:
    """The traits that are not from a license."""
    return _trait_table(subject, from_license=False)


def license_trait_table(subject: Subject) -> TraitTable:
    """The traits from a marketplace license."""
    return _trait_table(subject, from_license=True)


def _trait_table(subject: Subject, *, from_license: bool) -> TraitTable:
    names = sorted(
        name for name in subject.traits if name.startswith(LICENSE_PREFIX) == from_license
    )
    rows = [_trait_row(subject, name, subject.traits[name]) for name in names[:TRAITS_SHOWN]]
    return TraitTable(rows, len(names) - len(rows))


def _trait_row(subject: Subject, name: str, value: Any) -> TraitRow:
    """Anything but a string is shown as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    text = _truncate(text)
    stored_stamp = subject.trait_stamps.get(name)
    if stored_stamp is None:
        return TraitRow(name, text)
    stamp = read_stamp(stored_stamp)
    return TraitRow(name, text, SOURCES[stamp.source], stamp.at)


def _truncate(text: str) -> str:
    if len(text) <= VALUE_CHARACTERS_SHOWN:
        return text
    return (
        f"{text[:VALUE_CHARACTERS_SHOWN]}… ({len(text) - VALUE_CHARACTERS_SHOWN:,} more characters)"
    )


def events_of_user(user: User, workspace_id: int | None) -> list[RecentEventRow]:
    """The user's latest events with their accounts, latest first: the end of a range of the key."""
    events = _latest(Event.objects.filter(product=user.product_id, user=user), "account")
    return [_event_row(event, event.account, "account", workspace_id) for event in events]


def events_of_account(account: Account, workspace_id: int | None) -> list[RecentEventRow]:
    """The account's latest events with their users, latest first.

    No index has events by account, but one has daily counts by account. The latest twenty events
    belong to the twenty counts with the latest events: each of these counts has at least one.
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
    return [
        _event_row(event, event.user, "user", workspace_id) for event in _latest(events, "user")
    ]


def _latest(events: QuerySet[Event], relation: str) -> QuerySet[Event]:
    rows = events.select_related("event_name", relation).defer(f"{relation}__trait_stamps")
    return rows.order_by("-occurred_at", "-arrival")[:EVENTS_SHOWN]


def _event_row(
    event: Event, counterpart: User | Account | None, scope: Scope, workspace_id: int | None
) -> RecentEventRow:
    if counterpart is None:
        return RecentEventRow(event.event_name.name, event.occurred_at, "", "")
    name = counterpart.name or counterpart.external_id
    url = _url(counterpart, scope, workspace_id)
    return RecentEventRow(event.event_name.name, event.occurred_at, name, url)


def other_ids(user: User) -> list[str]:
    """The user's other ids, which aliases joined. Their number is bounded."""
    aliases = Alias.objects.filter(product=user.product_id, user=user)
    ids = {id for pair in aliases.values_list("previous_id", "new_id") for id in pair}
    return sorted(ids - {user.external_id})


def has_rows_to_move(user: User) -> bool:
    """Whether events of another id are still to become the user's."""
    joined = User.objects.filter(product=user.product_id, external_id__in=other_ids(user))
    requests = JoinRequest.objects.filter(product=user.product_id)
    return requests.filter(user_id__in=joined.values("pk")).exists()


def account_rows(user: User, workspace_id: int | None) -> list[AccountRow]:
    """The accounts that the user belongs or belonged to, latest first."""
    memberships = Membership.objects.filter(product=user.product_id, user=user).values("account_id")
    memberships = memberships.annotate(first=Min("occurred_at"), last=Max("occurred_at"))
    rows = list(memberships.order_by("-last", "-account_id")[:ACCOUNTS_SHOWN])
    accounts = Account.objects.defer("trait_stamps").filter(product=user.product_id)
    accounts_by_id = accounts.in_bulk([row["account_id"] for row in rows])
    counts = DailyCount.objects.filter(
        product=user.product_id, user=user, account_id__in=accounts_by_id
    )
    last_active = dict(counts.values_list("account_id").annotate(last=Max("last_at")))
    return [
        AccountRow(
            account.name or account.external_id,
            account_url(account, workspace_id),
            row["first"],
            last_active.get(account.pk),
            account.pk == user.account_id,
        )
        for row in rows
        if (account := accounts_by_id.get(row["account_id"]))
    ]


def account_url(account: Account, workspace_id: int | None) -> str:
    """The URL of the account's page, or "" if only events mention the account."""
    return _url(account, "account", workspace_id)


def _url(subject: Subject, scope: Scope, workspace_id: int | None) -> str:
    return subject_url(subject, scope, workspace_id) if subject.is_identified else ""
