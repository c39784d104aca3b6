"""Conditions of a product that notifications are about, from the apps that know them."""

import hashlib
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from console.dashboard.notices import INTENDED_DROP_REASONS
from core.database import sql
from destinations import runs as record_runs
from engagement.activity import product as product_alarms
from engagement.models import Account, Credential, Product
from ingestion.log import last_24h
from ingestion.log.hours import RECORDED, start_of_hour
from ingestion.models import HourCount, IngestionKey, QuarantinedMessage, RefusedCount
from marketplace.ledger import reading
from marketplace.models import Connection, LicenseEvent
from marketplace.status.health import has_failed_last
from notifications.triggers import LICENSE_EVENTS, Trigger
from notifications.watching.conditions import ConditionUnknown, register_source
from notifications.watching.payloads import Condition
from outcomes.forecasts import storage as forecasts
from outcomes.forecasts import texts
from outcomes.forecasts.results import Measure
from readapi.models import ApiToken

# Rates of fewer messages than this say nothing.
MIN_MESSAGES = 20
# Counting more takes long and tells no more.
MAX_QUARANTINED = 1_000_000


# Longer than sweeps rest while workers are down, and shorter than what anybody calls news.
NEWS_FOR = timedelta(days=3)
# More news of one kind at once are told as their number anyway.
MAX_NEWS = 20_000


def register_sources() -> None:
    for trigger in (*LICENSE_EVENTS, Trigger.LICENSE_EVENT_WITHDRAWN):
        register_source(trigger, partial(_license_events, trigger))
    for trigger, source in (
        (Trigger.CONNECTION_NEEDS_AUTHENTICATION, _needs_authentication),
        (Trigger.CRM_FAILING, _crms_failing),
        (Trigger.TOKEN_EXPIRING, _token_expiring),
        (Trigger.CREDENTIAL_EXPIRING, _credentials_expiring),
        (Trigger.SYNC_FAILED, _sync_failed),
        (Trigger.QUARANTINE, _quarantine),
        (Trigger.DROPS_RATE, _drops_rate),
        (Trigger.REFUSED_RATE, _refused_rate),
        (Trigger.INBOX_OLD, _inbox_old),
        (Trigger.PRODUCT_FALLING, _product_falling),
        (Trigger.SENDER_SILENT, _sender_silent),
        (Trigger.FORECAST_FALLING, _forecast_falling),
    ):
        register_source(trigger, source)


# --- The marketplace --------------------------------------------------------------------------


def _connection(product: Product) -> Connection | None:
    return Connection.objects.filter(product=product).first()


def _connection_path(connection: Connection) -> str:
    return reverse("admin:marketplace_connection_change", args=[connection.pk])


def _needs_authentication(product: Product, _: float, now: datetime) -> Condition | None:
    connection = _connection(product)
    if connection is None or connection.state != Connection.State.REQUIRES_AUTHENTICATION:
        return None
    text = "The marketplace connection needs new credentials."
    return Condition(text, _connection_path(connection), {"reason": connection.state_reason})


def _token_expiring(product: Product, days: float, now: datetime) -> Condition | None:
    connection = _connection(product)
    if connection is None or connection.state != Connection.State.ACTIVE:
        return None
    ends = connection.token_expires_on
    if ends is None or (ends - now.date()).days > days:
        return None
    text = f"The API token of the marketplace connection expires on {ends.isoformat()}."
    return Condition(text, _connection_path(connection), {"expires_on": ends.isoformat()})


def _sync_failed(product: Product, _: float, now: datetime) -> Condition | None:
    connection = _connection(product)
    if connection is None or connection.state != Connection.State.ACTIVE:
        return None
    if not has_failed_last(connection):
        return None
    text = f"The last license sync failed. {connection.last_error}"
    return Condition(text, _connection_path(connection), {"error": connection.last_error})


def _license_events(trigger: Trigger, product: Product, _: float, now: datetime) -> list[Condition]:
    """The announced events of the last days. One that is withdrawn remains what was told; its
    withdrawal is told by itself."""
    since = now - NEWS_FOR
    events = reading.events_of(product.pk).filter(is_announced=True, changed_at__gte=since)
    if trigger in LICENSE_EVENTS:
        events = events.filter(type=LICENSE_EVENTS[trigger], recorded_at__gte=since)
    else:
        events = events.filter(withdrawn_at__gte=since, type__in=LICENSE_EVENTS.values())
    news = list(events.order_by("changed_at", "license", "type", "anchor")[:MAX_NEWS])
    accounts = Account.objects.filter(
        product=product, is_identified=True, external_id__in={event.cloud_id for event in news}
    ).defer("trait_stamps")
    by_id = {account.external_id: account for account in accounts}
    return [_license_news(event, by_id.get(event.cloud_id), trigger) for event in news]


def _license_news(event: LicenseEvent, account: Account | None, trigger: Trigger) -> Condition:
    name = (account and (account.name or account.domain)) or event.license
    text = f"{name}, {event.date.isoformat()}: {reading.describe(event)}"
    if trigger not in LICENSE_EVENTS:
        text = f"Withdrawn, because later evidence says otherwise: {text}"
    id = f"{event.license}\0{event.type}\0{event.anchor}".encode()
    return Condition(
        text,
        reverse("admin:engagement_account_change", args=[account.pk]) if account else "",
        {"event": event.type, "license": event.license, "date": event.date.isoformat()},
        subject_id=int.from_bytes(hashlib.blake2b(id, digest_size=7).digest(), "big"),
        account=account,
    )


# --- CRMs -------------------------------------------------------------------------------------


def _crms_failing(product: Product, _: float, now: datetime) -> list[Condition]:
    return [
        Condition(
            text,
            reverse("admin:destinations_recorddestination_change", args=[destination.pk]),
            {"crm": str(destination)},
            subject_id=destination.pk,
        )
        for destination, text in record_runs.failing([product.pk])
    ]


# --- Keys and tokens --------------------------------------------------------------------------


def _credentials_expiring(product: Product, days: float, now: datetime) -> list[Condition]:
    """A condition for each, so that one that nobody extends does not hide the next."""
    until = now + timedelta(days=days)
    kinds: dict[type[Credential], str] = {IngestionKey: "ingestion key", ApiToken: "read token"}
    return [
        _expiring(credential, kind)
        for model, kind in kinds.items()
        for credential in model._default_manager.filter(
            product=product, revoked_at=None, expires_at__gt=now, expires_at__lte=until
        ).defer("secret")
    ]


def _expiring(credential: Credential, kind: str) -> Condition:
    assert credential.expires_at is not None
    on = credential.expires_at.date().isoformat()
    name = f"admin:{credential._meta.app_label}_{credential._meta.model_name}_change"
    return Condition(
        f"The {kind} {credential} expires on {on}.",
        reverse(name, args=[credential.pk]),
        {"kind": kind, "name": credential.name, "expires_on": on},
        # Keys and tokens are numbered apart. All of them have a digest.
        subject_id=int.from_bytes(bytes(credential.digest)[:7], "big"),
    )


# --- Ingestion --------------------------------------------------------------------------------


def _log_path(product: Product) -> str:
    return reverse("admin:ingestion_ingestionlog_change", args=[product.pk])


def _quarantine(product: Product, least: float, now: datetime) -> Condition | None:
    # Without the order of the list, which counting does not need.
    rows = QuarantinedMessage.objects.filter(product=product).order_by()
    count = rows[:MAX_QUARANTINED].count()
    if count < least:
        return None
    path = reverse("admin:ingestion_quarantinedmessage_changelist")
    text = f"Messages in quarantine: {count:,}."
    return Condition(text, f"{path}?product__id__exact={product.pk}", {"messages": count})


def _drops_rate(product: Product, percent: float, now: datetime) -> Condition | None:
    """The share of this hour and the one before, without drops that are intended."""
    since = start_of_hour(now) - timedelta(hours=1)
    counts = HourCount.objects.filter(product=product, hour__gte=since)
    recorded = dropped = 0
    for reason, count in counts.values_list("reason", "count"):
        if reason == RECORDED:
            recorded += count
        elif reason not in INTENDED_DROP_REASONS:
            dropped += count
    total = recorded + dropped
    if total < MIN_MESSAGES or 100 * dropped < percent * total:
        return None
    share = round(100 * dropped / total, 1)
    text = f"Dropped {dropped:,} of {total:,} messages since {since:%H:%M} UTC ({share}%)."
    numbers = {"dropped": dropped, "messages": total, "percent": share}
    return Condition(text, _log_path(product), numbers)


def _refused_rate(product: Product, percent: float, now: datetime) -> Condition | None:
    """The share of the requests with a key of the product, as far as they are counted: a request
    that is accepted counts as the messages that it had."""
    since = start_of_hour(now) - timedelta(hours=1)
    refused = _total(RefusedCount.objects.filter(product=product, hour__gte=since))
    accepted = _total(HourCount.objects.filter(product=product, hour__gte=since))
    total = refused + accepted
    if total < MIN_MESSAGES or 100 * refused < percent * total:
        return None
    share = round(100 * refused / total, 1)
    text = f"Refused requests since {since:%H:%M} UTC: {refused:,} ({share}%)."
    return Condition(text, _log_path(product), {"refused": refused, "percent": share})


def _total(counts: QuerySet[Any]) -> int:
    return sum(counts.values_list("count", flat=True))


def _inbox_old(product: Product, minutes: float, now: datetime) -> Condition | None:
    try:
        oldest = last_24h.oldest_waiting(product.pk)
    except sql.StatementTimeout:
        raise ConditionUnknown from None
    if oldest is None or now - oldest < timedelta(minutes=minutes):
        return None
    age = int((now - oldest).total_seconds() // 60)
    text = f"The oldest message has waited in the inbox for {age:,} minutes."
    return Condition(text, _log_path(product), {"minutes": age})


# --- The whole product ------------------------------------------------------------------------


def _product_falling(product: Product, _: float, now: datetime) -> Condition | None:
    workspace = product_alarms.first_workspace(product.pk)
    activities = product_alarms.activities([workspace.pk], now) if workspace else {}
    if workspace is None or workspace.pk not in activities:
        raise ConditionUnknown
    activity = activities[workspace.pk]
    if activity.state is not product_alarms.State.FALLING:
        return None
    numbers = {
        "day": activity.day.isoformat(),
        "observed": activity.observed,
        "expected": round(activity.expected, 1),
    }
    path = f"{reverse('admin:index')}?workspace={workspace.pk}"
    return Condition(activity.sentence, path, numbers)


def _sender_silent(product: Product, _: float, now: datetime) -> Condition | None:
    for silent in product_alarms.silent_senders(now, [product.pk]):
        numbers = {
            "day": silent.day.isoformat(),
            "observed": silent.observed,
            "usual": silent.usual,
        }
        return Condition(silent.sentence, _log_path(product), numbers)
    if not product_alarms.knows_sender(product, now):
        raise ConditionUnknown
    return None


def _forecast_falling(product: Product, percent: float, now: datetime) -> Condition | None:
    """Compares with the month's first forecast of the product's first workspace."""
    workspace = product_alarms.first_workspace(product.pk)
    latest = forecasts.latest_of([workspace.pk]).get(workspace.pk) if workspace else None
    if workspace is None or latest is None:
        raise ConditionUnknown
    before = forecasts.of_this_month(workspace, latest.kind, latest.made_on)
    if before is None:
        raise ConditionUnknown
    measure = latest.measure()
    now_expected, expected = (each.expected_later(measure) for each in (latest, before))
    if not expected or 100 * (expected - now_expected) < percent * expected:
        return None
    unit = "seats" if measure is Measure.SEATS else "US dollars"
    text = (
        f"Of the renewals of the next three months, {texts.amount(now_expected, measure)} {unit} "
        f"are expected. When the month began, it was {texts.amount(expected, measure)}."
    )
    path = reverse("admin:engagement_workspace_forecast", args=[workspace.pk])
    numbers = {
        "measure": str(measure),
        "expected": round(now_expected, 1),
        "expected_before": round(expected, 1),
    }
    return Condition(text, path, numbers)
