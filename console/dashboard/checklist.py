"""The checklist of a new product: what to set up, and what the data says of each step."""

from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.auth.models import User as AdminUser
from django.db.models import Q, QuerySet
from django.urls import reverse

from access.logins.invites import open_invites
from access.pages.scoping import Access
from console.dashboard.summary import (
    Link,
    ProductSummary,
    add_url,
    admin_url,
    matching_url,
    ranking_url,
)
from engagement.models import EventName, EventWeight, Product
from ingestion.log.last_24h import HOURS
from marketplace.models import License
from notifications.models import Digest, Subscription

# More are not counted.
MAX_COUNTED = 1_000


class Step(NamedTuple):
    """``proof`` is what the data says, and ``link`` leads to where the step is done."""

    title: str
    is_done: bool
    proof: str
    link: Link | None = None


def find_steps(summary: ProductSummary, access: Access, now: datetime) -> list[Step]:
    """The steps of the product; none if all are done, or if it shows no checklist."""
    product = summary.product
    if not product.shows_checklist or product.deletion_requested_at or summary.missing_node:
        return []
    may_manage = product.pk in access.managed
    steps = [
        _send(summary),
        _identify(summary),
        _score(summary),
        _weigh(summary),
        _connect(summary, product.pk in access.connectable),
        _invite(product, now, may_manage),
        _notify(summary, may_manage),
    ]
    return [] if all(step.is_done for step in steps) else steps


def _send(summary: ProductSummary) -> Step:
    accepted = summary.last_24h.accepted
    proof = f"{accepted:,} messages arrived in the last {HOURS} hours."
    if summary.is_new:
        proof = "No messages yet."
    guide = Link("How to send data", reverse("guide", args=["sending-data"]))
    return Step("Send a message", not summary.is_new, proof, guide)


def _identify(summary: ProductSummary) -> Step:
    title, guide = "Identify users with their groups", reverse("guide", args=["forge"])
    report = summary.matches
    if report is None or not report.accounts:
        proof = "No user belongs to a group yet: send a groupId with identify, or a userId with "
        return Step(title, False, f"{proof}group.", Link("How apps send the Cloud ID", guide))
    groups = "1 group has" if report.accounts == 1 else f"{report.accounts:,} groups have"
    proof = f"{'At least ' if report.is_cut[0] else ''}{groups} users."
    proof += f" {report.cloud_ids:,} of {report.accounts:,} groups look like Cloud IDs"
    if summary.connection is None:
        return Step(title, True, f"{proof}.")
    proof += ";"
    number = len(report.unlicensed)
    proof += f" {number:,} {'does' if number == 1 else 'do'} not match any license."
    is_done = summary.connection.last_success_at is not None and not report.has_many_faults
    return Step(title, is_done, proof, Link("Match report", matching_url(summary.product)))


def _score(summary: ProductSummary) -> Step:
    totals, link = summary.totals, None
    if summary.workspaces:
        link = Link("Accounts", ranking_url("account", summary.workspaces[0]))
    if totals is None or not totals.accounts:
        return Step("See a score", False, "No account has a score yet.", link)
    proof = f"{totals.active_accounts:,} of {totals.accounts:,} accounts have a score above 0."
    return Step("See a score", totals.active_accounts > 0, proof, link)


def _weigh(summary: ProductSummary) -> Step:
    title = "Weigh the events"
    if not summary.workspaces:
        return Step(title, False, "There is no workspace yet.")
    workspace = summary.workspaces[0]
    events = _count(EventName.objects.filter(product=summary.product))
    weights = _count(EventWeight.objects.filter(workspace=workspace))
    proof = f"{_say(events, 'event')}; {_say(weights, 'weight')} chosen. Any other event weighs "
    proof += f"{workspace.default_weight}."
    page = admin_url("engagement_workspace_change", workspace.pk)
    return Step(title, weights > 0, proof, Link("Events and weights", page))


def _connect(summary: ProductSummary, may_connect: bool) -> Step:
    title, connection = "Connect the marketplace", summary.connection
    if connection is None:
        link = Link("Connect", add_url("marketplace_connection", summary.product))
        return Step(title, False, "Not connected.", link if may_connect else None)
    link = Link("Connection", admin_url("marketplace_connection_change", connection.pk))
    if connection.last_success_at is None:
        return Step(title, False, f"Connected to {connection.app_name}; no sync yet.", link)
    licenses = _count(License.objects.filter(product=summary.product))
    return Step(title, True, f"{_say(licenses, 'license')} of {connection.app_name}.", link)


def _invite(product: Product, now: datetime, may_manage: bool) -> Step:
    readers = Q(is_superuser=True) | Q(pk__in=product.members.values("pk"))
    people = _count(AdminUser.objects.filter(readers, is_active=True))
    invites = _count(open_invites(now).filter(product=product))
    proof = f"{_say(people, 'login')}, {_say(invites, 'open invite')}."
    link = Link("Invite", admin_url("engagement_product_invite", product.pk))
    return Step("Invite your team", people + invites > 1, proof, link if may_manage else None)


def _notify(summary: ProductSummary, may_manage: bool) -> Step:
    subscriptions = _count(Subscription.objects.filter(product=summary.product))
    digests = _count(Digest.objects.filter(product=summary.product))
    proof = f"{_say(subscriptions, 'notification')}, {_say(digests, 'digest')}."
    link = Link("Notify me", add_url("notifications_subscription", summary.product))
    return Step("Be notified", subscriptions + digests > 0, proof, link if may_manage else None)


def _count(rows: QuerySet[Any]) -> int:
    """How many rows there are, as far as they are counted."""
    return rows.order_by()[: MAX_COUNTED + 1].count()


def _say(number: int, noun: str) -> str:
    if number > MAX_COUNTED:
        return f"more than {MAX_COUNTED:,} {noun}s"
    return f"1 {noun}" if number == 1 else f"{number or 'no'} {noun}s"
