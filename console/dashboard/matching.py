"""The match report: accounts without a license, licenses without usage, and what to change."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse

from access.pages.place import find_place
from access.pages.scoping import visible_products
from engagement.models import Product, ScoreSet, User, Workspace
from marketplace.licenses import matching
from marketplace.licenses.matching import MatchReport, Reason, Silence
from marketplace.models import Connection, SyncRun

# Of each reason.
MAX_EXAMPLES = 5
# Of the others that may have a license; the report names no product that its reader may not see.
MAX_PRODUCTS = 50
# More are not counted.
MAX_COUNTED = 1_000


class ReasonText(NamedTuple):
    """*lines* names those of ``config/matching_lines.html`` that the app's code needs."""

    title: str
    meaning: str
    change: str
    lines: str = "cloud id"


class Example(NamedTuple):
    """An account or a site, and what it should be or is instead."""

    name: str
    url: str
    other: str = ""


class Group(NamedTuple):
    text: ReasonText
    number: int
    examples: Sequence[Example]


_SEND = "Send the Cloud ID of the site as the groupId, in each group and each event."
REASONS: dict[Reason, ReasonText] = {
    Reason.HOSTNAME: ReasonText(
        "The hostname instead of the Cloud ID",
        "The id is the hostname of a site that has a license.",
        _SEND,
    ),
    Reason.RENAMED: ReasonText(
        "The hostname of a site that was renamed",
        "A licensed site had this hostname before. Its Cloud ID has stayed the same.",
        _SEND,
    ),
    Reason.CAPITALS: ReasonText(
        "The Cloud ID in capitals",
        "Ids are compared letter by letter, and the marketplace writes Cloud IDs in lower case.",
        "Send the Cloud ID in lower case.",
        "bare id",
    ),
    Reason.ADDRESS: ReasonText(
        "The Cloud ID with something around it",
        "A scheme, a slash, a resource name, braces, or spaces, or its hyphens are missing.",
        "Send the Cloud ID alone.",
        "bare id",
    ),
    Reason.OTHER_PRODUCT: ReasonText(
        "The license of another product",
        "Another product here has a license of this site.",
        "Use the ingestion key of that product in its app, then deploy.",
        "key",
    ),
    Reason.UNKNOWN_HOSTNAME: ReasonText(
        "A hostname that no license has",
        "The site was renamed before the first sync, or it has no license.",
        _SEND,
    ),
    Reason.OTHER_FORM: ReasonText(
        "An id of another form",
        "A number, a name, or a Connect clientKey. No license has it.",
        _SEND,
    ),
    Reason.UNLICENSED: ReasonText(
        "A Cloud ID of no license",
        "A free or a development installation, or its license arrives with a later sync.",
        "Nothing. If it is a site of your own, give development and staging no ingestion key.",
        "",
    ),
}
SILENCES: dict[Silence, ReasonText] = {
    Silence.SENT_OTHERWISE: ReasonText(
        "Sent under another id",
        "Usage of the site arrives, but under an id from the list above.",
        "Nothing besides the changes above.",
        "",
    ),
    Silence.NO_USERS: ReasonText(
        "Traits, but no users",
        "The app has sent traits of the account, and no user has ever belonged to it.",
        "Send a group with the userId before the first event.",
    ),
    Silence.NOTHING: ReasonText(
        "Nothing has arrived",
        "The customer does not use the app, runs a version that does not send, or has blocked it.",
        "See whether the installed version sends: the ingestion log has every message.",
        "",
    ),
}


def matching_view(request: HttpRequest, site_context: dict[str, Any]) -> HttpResponse:
    """Why accounts and licenses of a product do not meet."""
    visible = visible_products(request.user)
    product = get_object_or_404(visible, pk=find_place(request).product_id or 0)
    score_set, connection = usual_scores(product), Connection.objects.filter(product=product)
    context = {**site_context, "title": "Match report", "subtitle": None}
    context |= {"product": product, "connection": connection.first(), "score_set": score_set}
    if score_set is not None and context["connection"] is not None:
        others = visible.exclude(pk=product.pk)[:MAX_PRODUCTS]
        names = {other.pk: other.name for other in others}
        report = matching.compare(score_set, names)
        context |= _report_context(report, product, names)
    return TemplateResponse(request, "config/matching.html", context)


def usual_scores(product: Product) -> ScoreSet | None:
    """The scores of the first workspace that counts all users, else of the first one."""
    workspaces = Workspace.objects.filter(product=product, scores__scored_day__isnull=False)
    rows = sorted(workspaces.select_related("scores"), key=lambda row: (bool(row.audience), row.pk))
    return rows[0].scores if rows else None


def _report_context(report: MatchReport, product: Product, names: dict[int, str]) -> dict[str, Any]:
    last_full = SyncRun.objects.filter(
        connection__product=product, since=None, state=SyncRun.State.SUCCEEDED
    ).first()
    outside = User.objects.filter(product=product, account=None, joined_to=None, is_identified=True)
    return {
        "report": report,
        "max_compared": matching.MAX_COMPARED,
        "matched": report.accounts - len(report.unlicensed),
        "with_users": report.sites - len(report.silent),
        "unlicensed": list(_unlicensed(report, product, names)),
        "silent": list(_silent(report)),
        "last_full": last_full,
        "without_account": outside[: MAX_COUNTED + 1].count(),
        "max_counted": MAX_COUNTED,
    }


def _unlicensed(report: MatchReport, product: Product, names: dict[int, str]) -> Iterator[Group]:
    for reason, text in REASONS.items():
        rows = [row for row in report.unlicensed if row.reason is reason]
        examples = [
            Example(
                row.external_id,
                reverse("admin:engagement_account_change", args=[row.account_id]),
                names[row.product_id] if row.product_id else row.cloud_id,
            )
            for row in islice(rows, MAX_EXAMPLES)
        ]
        if rows:
            yield Group(text, len(rows), examples)


def _silent(report: MatchReport) -> Iterator[Group]:
    for reason, text in SILENCES.items():
        rows = [row for row in report.silent if row.reason is reason]
        examples = [
            Example(row.hostname or row.cloud_id, "", row.cloud_id)
            for row in islice(rows, MAX_EXAMPLES)
        ]
        if rows:
            yield Group(text, len(rows), examples)
