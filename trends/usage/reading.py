"""What readers see of the use of events and features: days, sums of 28 days, and accounts that
started or stopped."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import LiteralString, NamedTuple

from django.db.models import QuerySet

from core.database import sql
from engagement.models import Account, EventName, Feature, UsageState
from engagement.models.features import USED_WITHIN
from trends.models import NONE, UsageDay

DAY = timedelta(days=1)


class Thing(NamedTuple):
    """An event or a feature of a product, with the ids of its events; or everything, without a
    name."""

    product_id: int
    name: str = ""
    feature_id: int = NONE
    event_name_id: int = NONE
    events: tuple[int, ...] = ()

    @classmethod
    def of(cls, row: EventName | Feature) -> "Thing":
        if isinstance(row, EventName):
            return cls(row.product_id, row.name, NONE, row.pk, (row.pk,))
        events = EventName.objects.filter(product=row.product_id, feature=row)
        return cls(
            row.product_id, row.name, row.pk, NONE, tuple(events.values_list("pk", flat=True))
        )


class Sums(NamedTuple):
    """Of the 28 days of the last night: the accounts that used it, of all active ones; those of
    them that never had before; and those that stopped."""

    used: int = 0
    active: int = 0
    started: int = 0
    stopped: int = 0

    @property
    def share(self) -> float | None:
        return self.used / self.active if self.active else None


class Figures(NamedTuple):
    """The users and the accounts of each day, the last one last."""

    users: Sequence[int]
    accounts: Sequence[int]


def last_night(product_id: int) -> date | None:
    """The day at whose beginning the last night ended: what the product did before it is counted.
    None before the first one."""
    nights = UsageDay.objects.filter(product=product_id, feature_id=NONE, event_name_id=NONE)
    ended = nights.filter(used_accounts__isnull=False).order_by("-day")
    day = ended.values_list("day", flat=True).first()
    return day and day + DAY


def all_sums(product_id: int) -> dict[tuple[int, int], Sums]:
    """The sums of each feature and event, by their ids, of the last night."""
    today = last_night(product_id)
    if today is None:
        return {}
    rows = UsageDay.objects.filter(product=product_id, day=today - DAY)
    by_ids = {(row.feature_id, row.event_name_id): row for row in rows}
    everything = by_ids.get((NONE, NONE))
    active = (everything and everything.used_accounts) or 0
    sums = {ids: _sums(row, active) for ids, row in by_ids.items()}
    if _is_counted(product_id):
        # Nobody ever used the others.
        features = Feature.objects.filter(product=product_id).values_list("pk", flat=True)
        sums = {(id, NONE): Sums(active=active) for id in features} | sums
    return sums


def sums(thing: Thing, today: date) -> Sums | None:
    """The sums of the thing of the night before *today*. None before it is counted."""
    active = _rows(Thing(thing.product_id), today - DAY, today).first()
    if active is None or active.used_accounts is None:
        return None
    own = _rows(thing, today - DAY, today).first()
    if own is None:
        return Sums(active=active.used_accounts) if _is_counted(thing.product_id) else None
    return _sums(own, active.used_accounts)


def _is_counted(product_id: int) -> bool:
    """Whether the product's features are counted as they are now."""
    return UsageState.objects.filter(pk=product_id, counted_on__isnull=False).exists()


def _sums(row: UsageDay, active: int) -> Sums:
    return Sums(
        row.used_accounts or 0, active, row.started_accounts or 0, row.stopped_accounts or 0
    )


def figures(thing: Thing, first: date, until: date) -> Figures:
    """The figures of the days from *first* to the one before *until*."""
    rows = _rows(thing, first, until).values_list("day", "users", "accounts")
    by_day = {day: (users, accounts) for day, users, accounts in rows}
    days = [by_day.get(first + n * DAY, (0, 0)) for n in range((until - first).days)]
    return Figures([users for users, _ in days], [accounts for _, accounts in days])


def _rows(thing: Thing, first: date, until: date) -> QuerySet[UsageDay]:
    return UsageDay.objects.filter(
        product=thing.product_id,
        feature_id=thing.feature_id,
        event_name_id=thing.event_name_id,
        day__gte=first,
        day__lt=until,
    )


# --- Accounts that started or stopped ---------------------------------------------------------

# Of each event, the accounts of which no other event of the feature says more: so the first ones of
# all are among the first ones of each. An index has these in the order of days. Those of one day
# are in no order until they are few: sorting them would read all who did the event on it.
_MOVED: LiteralString = """
    SELECT k.account_id, k.day
    FROM unnest(%(events)b::bigint[]) AS e(id)
    CROSS JOIN LATERAL (
        SELECT s.account_id, s.{day} AS day
        FROM engagement_accountuse s
        WHERE s.product_id = %(product)s AND s.event_name_id = e.id
          AND s.{day} BETWEEN %(first)s AND %(last)s
          AND NOT EXISTS (
            SELECT FROM engagement_accountuse o
            WHERE o.product_id = %(product)s AND o.account_id = s.account_id
              AND o.event_name_id = ANY(%(events)b::bigint[]) AND o.{day} {beyond} s.{day})
        ORDER BY s.{day} DESC LIMIT %(limit)s) k
    GROUP BY 1, 2 ORDER BY 2 DESC, 1 LIMIT %(limit)s
"""
_STARTED: LiteralString = _MOVED.format(day="first_day", beyond="<")
_STOPPED: LiteralString = _MOVED.format(day="last_day", beyond=">")


class Moved(NamedTuple):
    """An account, and the first or the last day on which it used something."""

    account: Account
    day: date


def started(thing: Thing, today: date, limit: int) -> list[Moved]:
    """The accounts that used it for the first time in the 28 days before *today*, last ones
    first."""
    return _moved(_STARTED, thing, today - USED_WITHIN * DAY, today - DAY, limit)


def stopped(thing: Thing, today: date, limit: int) -> list[Moved]:
    """The accounts that stopped in the 28 days before *today*, last ones first."""
    first, last = today - 2 * USED_WITHIN * DAY, today - (USED_WITHIN + 1) * DAY
    return _moved(_STOPPED, thing, first, last, limit)


def _moved(
    statement: LiteralString, thing: Thing, first: date, last: date, limit: int
) -> list[Moved]:
    parameters = {"product": thing.product_id, "events": sorted(thing.events)}
    rows = sql.fetch(statement, {**parameters, "first": first, "last": last, "limit": limit})
    accounts = Account.objects.filter(product=thing.product_id, is_identified=True)
    by_id: Mapping[int, Account] = accounts.defer("trait_stamps").in_bulk([id for id, _ in rows])
    return [Moved(by_id[id], day) for id, day in rows if id in by_id]
