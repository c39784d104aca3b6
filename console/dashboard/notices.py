"""The notices of a product's card: what needs attention, with a link to a page about it."""

from collections.abc import Iterator
from datetime import datetime

from django.utils.http import urlencode

from console.dashboard.summary import (
    Link,
    Notice,
    ProductSummary,
    admin_url,
    log_url,
    matching_url,
)
from core import expiry
from core.time_format import format_exact
from engagement.activity.product import State
from engagement.models import Workspace
from engagement.rescoring import sets
from engagement.segments.counts import SubjectTotals
from ingestion.log.last_24h import HOURS
from ingestion.log.texts import format_age, short_reason
from ingestion.models import DropReason
from marketplace.models import Connection
from marketplace.status.health import connection_health, expiry_notice

# The card mentions a longer wait. Draining takes one or two seconds.
LONG_WAIT_SECONDS = 60
# The card mentions a larger share of dropped messages.
HIGH_DROP_SHARE = 0.05
# Messages dropped for these reasons are meant to be dropped.
INTENDED_DROP_REASONS = {DropReason.DUPLICATE, DropReason.FORGOTTEN}


def node_notice(summary: ProductSummary) -> Notice:
    """What the product's team should know while its node of a cluster is missing."""
    return Notice(
        "bad",
        f"Node {summary.missing_node} of the database, which has this product's data, cannot be "
        "reached. Messages are accepted and wait in the inbox, in order. Nothing is lost. Scores, "
        "lists, and the read API are back with the node.",
    )


def score_notices(summary: ProductSummary, may_manage: bool) -> Iterator[Notice]:
    if summary.missing_node:
        yield node_notice(summary)
        return
    if not summary.workspaces:
        add = (
            f"{admin_url('engagement_workspace_add')}?{urlencode({'product': summary.product.pk})}"
        )
        link = Link("Add a workspace", add) if may_manage else None
        yield Notice("warning", "This product has no workspace, so there are no scores.", link)
        return
    workspace = summary.workspaces[0]
    if summary.totals is None:
        yield Notice(
            "quiet", "Scores are being computed for the first time. Reload the page in a moment."
        )
        return
    if sets.is_building(workspace):
        yield Notice("quiet", f"Scores of {workspace.name}: {sets.describe_progress(workspace)}")
    yield from _no_scores_notices(summary, workspace, summary.totals)


def _no_scores_notices(
    summary: ProductSummary, workspace: Workspace, totals: SubjectTotals
) -> Iterator[Notice]:
    edit = Link("Workspace", admin_url("engagement_workspace_change", workspace.pk))
    if not totals.users and workspace.audience:
        yield Notice("warning", f"No users are in the audience of {workspace.name}.", edit)
    elif not totals.users:
        text = (
            "No users have been identified yet, so there are no scores. Events are kept and will "
            "count once their user is identified."
        )
        yield Notice("warning", text, Link("Ingestion log", log_url(summary.product)))


# --- The whole product ------------------------------------------------------------------------


def activity_notices(summary: ProductSummary) -> Iterator[Notice]:
    if summary.silent_sender is not None:
        link = Link("Ingestion log", log_url(summary.product))
        yield Notice("warning", summary.silent_sender.sentence, link)
    activity = summary.activity
    if activity is not None and activity.state is not State.STEADY:
        level = "warning" if activity.state is State.FALLING else "quiet"
        yield Notice(level, activity.sentence)


# --- Messages ---------------------------------------------------------------------------------


def message_notices(summary: ProductSummary, now: datetime) -> Iterator[Notice]:
    messages, log = summary.last_24h, Link("Ingestion log", log_url(summary.product))
    if messages.waiting is None:
        yield Notice("warning", "Too many messages to count are waiting in the inbox.", log)
    elif (
        messages.waiting.oldest
        and (seconds := (now - messages.waiting.oldest).total_seconds()) > LONG_WAIT_SECONDS
    ):
        yield Notice("warning", _long_wait(messages.waiting.messages, seconds), log)
    if messages.quarantined is None or messages.quarantined:
        count = "too many to count" if messages.quarantined is None else f"{messages.quarantined:,}"
        listing = admin_url("ingestion_quarantinedmessage_changelist")
        link = Link(
            "Quarantine", f"{listing}?{urlencode({'product__id__exact': summary.product.pk})}"
        )
        yield Notice("warning", f"Messages in quarantine after repeated failures: {count}.", link)
    yield from _drop_notices(summary)
    if not messages.accepted:
        yield Notice("quiet", _no_messages_text(summary))


def _long_wait(messages: int, seconds: float) -> str:
    age = format_age(seconds)
    waits = (
        f"1 message has been waiting in the inbox for {age}."
        if messages == 1
        else f"{messages:,} messages are waiting in the inbox, the oldest for {age}."
    )
    return f"{waits} Nothing is lost. If this continues, workers are missing or busy."


def _drop_notices(summary: ProductSummary) -> Iterator[Notice]:
    """A notice about the main drop reason, if the share of unintended drops is high."""
    counts = {
        reason: sum(by_hour)
        for reason, by_hour in summary.last_24h.dropped.items()
        if reason not in INTENDED_DROP_REASONS
    }
    dropped = sum(counts.values())
    if dropped <= HIGH_DROP_SHARE * summary.last_24h.accepted:
        return
    most = max(counts, key=lambda reason: counts[reason])
    share = "all" if counts[most] == dropped else f"{counts[most]:,}"
    text = (
        f"{dropped:,} of {summary.last_24h.accepted:,} messages of the last {HOURS} hours were "
        f"dropped, {share} of them for this reason: {short_reason(most)}."
    )
    yield Notice(
        "warning", text, Link("Show messages", log_url(summary.product, reason=most.value))
    )


def _no_messages_text(summary: ProductSummary) -> str:
    times = [key.last_used_at for key in summary.keys if key.last_used_at is not None]
    since = f" The last one arrived {format_exact(max(times))}." if times else ""
    return f"No messages in the last {HOURS} hours.{since}"


# --- Connection and destinations --------------------------------------------------------------


def connection_notice(summary: ProductSummary) -> Notice | None:
    """The state of the marketplace connection. None if there is none."""
    if summary.connection is None:
        return None
    health = connection_health(summary.connection, summary.last_syncs, summary.timetable)
    text = " ".join(part for part in (health.title, health.reason) if part)
    return Notice(health.level, f"Marketplace: {text}", _connection_link(summary.connection))


def expiry_notices(
    summary: ProductSummary, now: datetime, *, may_connect: bool
) -> Iterator[Notice]:
    if summary.connection is None:
        return
    notice = expiry_notice(summary.connection, now.date(), may_manage=may_connect)
    if notice is not None:
        link = _connection_link(summary.connection)
        yield Notice(notice.level, f"Marketplace: {notice.text}", link)


def match_notices(summary: ProductSummary) -> Iterator[Notice]:
    """That many accounts have no license because of what the app sends."""
    report, connection = summary.matches, summary.connection
    if not (report and report.has_many_faults and connection and connection.last_success_at):
        return
    text = (
        f"{report.faults:,} of the {report.accounts:,} accounts with the highest scores have no "
        "license, because the app sends something else than the Cloud ID."
    )
    yield Notice("warning", text, Link("Match report", matching_url(summary.product)))


def _connection_link(connection: Connection) -> Link:
    return Link("Connection", admin_url("marketplace_connection_change", connection.pk))


def export_notices(summary: ProductSummary) -> Iterator[Notice]:
    for run in summary.failed_exports:
        link = Link("Export", admin_url("exports_scheduledexport_change", run.export_id))
        yield Notice("warning", f"The last run of {run.export} failed. {run.error}", link)


def credential_notices(summary: ProductSummary, now: datetime) -> Iterator[Notice]:
    for credential in summary.expiring:
        notice = expiry.describe(credential.expires_at, now)
        if notice is not None:
            label = str(credential._meta.verbose_name)
            name = f"{credential._meta.app_label}_{credential._meta.model_name}_change"
            link = Link("Open", admin_url(name, credential.pk))
            text = f"{label[:1].upper()}{label[1:]} {credential}: {notice.text[:1].lower()}"
            yield Notice(notice.level, f"{text}{notice.text[1:]}.", link)


def limit_notices(summary: ProductSummary) -> Iterator[Notice]:
    link = Link("Limits", f"{admin_url('engagement_product_change', summary.product.pk)}#limits")
    for near in summary.near_limits:
        is_reached = near.used >= near.limit
        text = f"{near.label}: {near.used:,} of {near.limit:,}."
        todo = "What is over the limit is dropped." if is_reached else "The limit is near."
        yield Notice("bad" if is_reached else "warning", f"{text} {todo}", link)


def destination_notices(summary: ProductSummary) -> Iterator[Notice]:
    for destination in summary.destinations:
        link = Link("Destination", admin_url("notifications_destination_change", destination.pk))
        text = f"Notifications to {destination} are paused. {destination.pause_reason}"
        yield Notice("warning", text, link)
    for crm, text in summary.failing_crms:
        link = Link("CRM", admin_url("destinations_recorddestination_change", crm.pk))
        yield Notice("warning", text, link)
