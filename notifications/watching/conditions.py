"""Conditions of a product, such as an old inbox. Other apps know whether they hold."""

from collections.abc import Callable, Sequence
from datetime import datetime

from engagement.models import Product
from notifications.models import Subscription, Watch
from notifications.triggers import TRIGGERS, Trigger
from notifications.watching import outbox
from notifications.watching.changes import Changes, store_members, stored_ids
from notifications.watching.payloads import Condition


class ConditionUnknown(Exception):
    """Nobody can tell now whether the condition holds. What was sent stays true."""


# Returns the condition, or None if it does not hold; or those of several that hold. The number is
# the subscription's threshold. Raises ConditionUnknown.
ConditionSource = Callable[[Product, float, datetime], Condition | Sequence[Condition] | None]
_sources: dict[Trigger, ConditionSource] = {}


def register_source(trigger: Trigger, source: ConditionSource) -> None:
    """Have *source* say whether the trigger's condition holds. Other apps are not imported here."""
    _sources[trigger] = source


def has_source(trigger: Trigger) -> bool:
    return trigger in _sources


def sweep_condition(watch: Watch, subscriptions: Sequence[Subscription], now: datetime) -> None:
    """Store which conditions hold, nearly always one or none, and write messages about changes.

    Works in the caller's transaction. The first look tells nobody that all is well, but does tell
    of a condition that holds already.
    """
    trigger = Trigger(subscriptions[0].trigger)
    source = _sources.get(trigger)
    if source is None:
        return
    try:
        present = _by_id(watch, source(watch.product, subscriptions[0].threshold or 0, now))
    except ConditionUnknown:
        return
    stored = stored_ids(watch)
    changes = Changes()
    changes.entered.extend(sorted(present.keys() - stored))
    changes.left.extend(sorted(stored - present.keys()))
    store_members(watch, changes)
    if TRIGGERS[trigger].is_news:
        _tell_news(subscriptions, [present[id] for id in changes.entered], now)
        return
    for subscription in subscriptions:
        is_new = subscription.started_at is None
        for id in sorted(present) if is_new else changes.entered:
            condition = present[id]
            outbox.write_condition(subscription, condition.text, condition.path, condition, now)
        if changes.left and not is_new and TRIGGERS[trigger].ends:
            text = f"Resolved: {subscription.get_trigger_display().lower()}."
            outbox.write_condition(subscription, text, "", None, now)


def _tell_news(
    subscriptions: Sequence[Subscription], news: Sequence[Condition], now: datetime
) -> None:
    """Write a message about each, or one about more than anybody reads. What was news before the
    subscription began is not told."""
    for subscription in subscriptions:
        if subscription.started_at is None or not news:
            continue
        if len(news) > outbox.most_messages(subscription.destination):
            text = f"{len(news):,} license events: {subscription.get_trigger_display().lower()}."
            many = Condition(text, "", {"count": len(news)})
            outbox.write_news(subscription, [many], now)
        else:
            outbox.write_news(subscription, news, now)


def _by_id(
    watch: Watch, conditions: Condition | Sequence[Condition] | None
) -> dict[int, Condition]:
    """The conditions that hold, by what they are about: the product, if they do not say."""
    if conditions is None:
        return {}
    several = [conditions] if isinstance(conditions, Condition) else conditions
    return {condition.subject_id or watch.product_id: condition for condition in several}
