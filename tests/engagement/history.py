"""Messages as a test tells them, and the state that recording them leaves."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from engagement.messages import Alias, Group, Identify, Message, ReceivedMessage, Track
from engagement.models import Account, DailyCount, Event, EventName, Membership, Product, User
from engagement.recording.record import record

# A Thursday at noon, so that hours before and after stay on the same UTC day.
NOON = datetime(2026, 9, 24, 12, tzinfo=UTC)
# Beyond those that the inbox gives out, which the same test may use.
_arrivals = count(1_000_000_000)


def at(hours: float) -> datetime:
    """So many hours after noon."""
    return NOON + timedelta(hours=hours)


def identify(user: str, hours: float = 0, group: str | None = None, **traits: Any) -> Identify:
    return Identify(user, at(hours), traits, group)


def group(account: str, hours: float = 0, user: str | None = None, **traits: Any) -> Group:
    return Group(account, at(hours), traits, user)


def track(user: str, event: str = "opened", hours: float = 0, group: str | None = None) -> Track:
    return Track(user, event, at(hours), group)


def alias(previous: str, user: str, hours: float = 0) -> Alias:
    return Alias(user, previous, at(hours))


def received(product: Product, messages: Sequence[Message]) -> list[ReceivedMessage]:
    """The messages as they arrive now, one after the other."""
    return [ReceivedMessage(product.pk, next(_arrivals), NOON, message) for message in messages]


def tell(product: Product, *messages: Message) -> None:
    """Record the messages in one batch."""
    record(received(product, messages))


def state(product: Product) -> dict[str, Any]:
    """Everything that recording writes for the product, by the customers' ids."""
    users = {user.pk: user for user in User.objects.filter(product=product)}
    accounts = {account.pk: account for account in Account.objects.filter(product=product)}
    names = dict(EventName.objects.filter(product=product).values_list("pk", "name"))

    def account_name(pk: int | None) -> str | None:
        return accounts[pk].external_id if pk else None

    return {
        "users": {
            user.external_id: (
                user.traits,
                user.trait_stamps,
                user.is_identified,
                account_name(user.account_id),
                user.account_since,
                user.first_seen_at,
            )
            for user in users.values()
            if user.joined_to_id is None
        },
        "joined ids": {
            user.external_id: users[user.joined_to_id].external_id
            for user in users.values()
            if user.joined_to_id is not None
        },
        "accounts": {
            account.external_id: (
                account.traits,
                account.trait_stamps,
                account.is_identified,
                account.first_seen_at,
                account.last_seen_at,
            )
            for account in accounts.values()
        },
        "memberships": {
            (users[row.user_id].external_id, row.occurred_at, account_name(row.account_id)): (
                row.arrival
            )
            for row in Membership.objects.filter(product=product)
        },
        "events": sorted(
            (
                row.arrival,
                users[row.user_id].external_id,
                names[row.event_name_id],
                row.occurred_at,
                account_name(row.account_id) or "",
            )
            for row in Event.objects.filter(product=product)
        ),
        "counts": {
            (
                users[row.user_id].external_id,
                row.day,
                names[row.event_name_id],
                account_name(row.account_id),
            ): (row.count, row.last_at)
            for row in DailyCount.objects.filter(product=product)
        },
    }
