"""The admin's home page: a card for each product that the login may see, or one of them.

Each query serves all cards, except for the accounts that moved most, which take a few per score
set.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils import timezone

from access.pages.place import PRODUCT_PARAMS, WORKSPACE_PARAMS, Place, find_place
from access.pages.scoping import request_access, sees_all_products, visible_products
from access.trail import sign_ins
from console.dashboard.cards import build_card
from console.dashboard.checklist import find_steps
from console.dashboard.summary import ProductSummary
from core import expiry
from core.database import distribution, nodes
from destinations import runs as record_runs
from engagement.activity import product as product_alarms
from engagement.limits import limits
from engagement.models import Credential, Product, ScoreSet, User, Workspace
from engagement.rescoring import sets
from engagement.segments import counts
from engagement.segments.attention import NO_ATTENTION, Attention
from exports import runs as export_runs
from ingestion.log import last_24h, status
from ingestion.log.last_24h import Last24Hours
from ingestion.models import IngestionKey
from ingestion.snippets import KEY_PLACEHOLDER, build_snippets
from marketplace.licenses import matching
from marketplace.licenses.matching import MatchReport
from marketplace.models import Connection
from marketplace.runs.timetable import load_timetable
from marketplace.status.health import LastRuns, load_last_runs
from notifications.models import Destination
from outcomes.forecasts.storage import latest_of
from readapi.models import ApiToken
from trends import curves
from trends.changes import whose
from trends.changes.nights import ready_changes
from trends.changes.results import Cadence, Changes
from trends.models import WHOLE, DayFigures

# The list of products has all of them.
MAX_CARDS = 6
# The accounts with the highest scores whose licenses an overview looks for.
MATCHED_ACCOUNTS = 200
# Tokens, of all cards.
MAX_EXPIRING = 20
# Logins whose address somebody else has.
MAX_TAKEN = 5
# Of the curve in a card: twelve weeks.
WEEKLY_DAYS = 84


def home_context(request: HttpRequest) -> dict[str, Any]:
    """The context of ``config/home.html``."""
    place = _requested_place(request)
    visible = visible_products(request.user)
    if place.product_id is not None:
        visible = visible.filter(pk=place.product_id)
    products = list(visible[: MAX_CARDS + 1])
    overview = products[0] if place.product_id is not None or len(products) == 1 else None
    now, access = timezone.now(), request_access(request)
    is_superuser = sees_all_products(request.user)
    summaries = product_summaries(
        products[:MAX_CARDS], now, place.workspace_id, is_overview=overview is not None
    )
    steps = find_steps(summaries[0], access, now) if overview else []
    return {
        "title": overview.name if overview else "Your products",
        "overview": overview,
        "cards": [build_card(summary, access, now) for summary in summaries],
        "steps": steps,
        "steps_done": sum(step.is_done for step in steps),
        "dismiss_url": reverse("admin:engagement_product_dismiss_checklist", args=[overview.pk])
        if overview and overview.pk in access.managed
        else "",
        "more": visible.count() - MAX_CARDS if len(products) > MAX_CARDS else 0,
        "may_add": request.user.has_perm("engagement.add_product"),
        "is_superuser": is_superuser,
        # For superusers only: they belong to no product.
        "unknown_key_count": status.daily_drops(None, now).today
        if is_superuser and place.product_id is None
        else 0,
        "taken_addresses": list(sign_ins.taken_addresses()[:MAX_TAKEN])
        if is_superuser and place.product_id is None
        else [],
        "log_url": reverse("admin:ingestion_ingestionlog_changelist"),
        "first_event": build_snippets(request.build_absolute_uri("/"))[0].code,
        "placeholder": KEY_PLACEHOLDER,
        "products_url": reverse("admin:engagement_product_changelist"),
        "add_url": reverse("admin:engagement_product_add"),
    }


def _requested_place(request: HttpRequest) -> Place:
    """The product and workspace in the address, if any. Raises ``Http404`` for others' ones."""
    place = find_place(request)
    is_named = any(request.GET.get(name) for name in (*PRODUCT_PARAMS, *WORKSPACE_PARAMS))
    if is_named and place.product_id is None:
        raise Http404
    return place


def product_summaries(
    products: Sequence[Product],
    now: datetime,
    workspace_id: int | None = None,
    *,
    is_overview: bool = False,
) -> list[ProductSummary]:
    """The data for the cards of the products, in the same order.

    A card shows the scores of the workspace, or else of the product's first one. The overview of
    one product names the accounts that need attention. Beside others a card has their numbers, as
    last counted.
    """
    ids = [product.pk for product in products]
    workspaces = _workspaces(ids, workspace_id)
    missing = {pk: node for node, pks in nodes.missing_nodes().items() for pk in pks}
    # What is asked of a node, is not asked of a missing one.
    on_nodes = [pk for pk in ids if pk not in missing]
    score_sets = _published_scores({pk: workspaces[pk] for pk in on_nodes if pk in workspaces})
    totals = counts.subject_totals(score_sets.values())
    messages, keys, with_users = last_24h.for_products(ids, now), _keys(ids), _with_users(on_nodes)
    connections, destinations = _connections(ids), _paused_destinations(ids)
    timetable, failed_exports = load_timetable(), export_runs.last_failures(ids)
    failing = record_runs.failing(ids)
    states, expiring = limits.load(ids), _expiring_credentials(keys, ids, now)
    firsts = {product_id: own[0].pk for product_id, own in workspaces.items()}
    activities = product_alarms.activities(firsts.values(), now)
    silent = {each.product.pk: each for each in product_alarms.silent_senders(now, ids)}
    forecasts = latest_of(list(firsts.values()))
    weekly = {} if len(products) == 1 else _weekly_accounts(firsts.values(), now)
    summaries = []
    for product in products:
        score_set = score_sets.get(product.pk)
        connection, last_syncs = connections.get(product.pk, (None, LastRuns()))
        summaries.append(
            ProductSummary(
                product=product,
                has_users=product.pk in with_users or product.pk in missing,
                workspaces=workspaces.get(product.pk, []),
                totals=totals[score_set.pk] if score_set else None,
                last_24h=messages[product.pk],
                keys=keys[product.pk],
                connection=connection,
                last_syncs=last_syncs,
                timetable=timetable,
                attention=_attention(score_set, is_overview=is_overview),
                changes=_changes(workspaces[product.pk][0]) if score_set and is_overview else None,
                matches=_matches(product, score_set, connection) if is_overview else None,
                trends=curves.strip(workspaces[product.pk][0]) if score_set and is_overview else (),
                destinations=destinations[product.pk],
                failed_exports=[run for run in failed_exports if run.product_id == product.pk],
                failing_crms=[each for each in failing if each[0].product_id == product.pk],
                expiring=expiring[product.pk],
                near_limits=_near_limits(states[product.pk], messages[product.pk]),
                is_alone=len(products) == 1,
                weekly_accounts=weekly.get(firsts.get(product.pk, 0), ()),
                activity=activities.get(firsts.get(product.pk, 0)),
                silent_sender=silent.get(product.pk),
                missing_node=missing.get(product.pk, ""),
                forecast=forecasts.get(firsts.get(product.pk, 0)),
            )
        )
    return summaries


def _attention(score_set: ScoreSet | None, *, is_overview: bool) -> Attention:
    if score_set is None:
        return NO_ATTENTION
    if is_overview:
        return counts.accounts_needing_attention(score_set)
    return Attention(counts.last_insight_counts(score_set), {})


def _matches(
    product: Product, score_set: ScoreSet | None, connection: Connection | None
) -> MatchReport | None:
    if score_set is None or not (connection or product.shows_checklist):
        return None
    return matching.compare(score_set, limit=MATCHED_ACCOUNTS)


def _changes(workspace: Workspace) -> Changes | None:
    return ready_changes(whose.of_workspace(workspace), Cadence.WEEK)


def _workspaces(
    product_ids: Sequence[int], chosen_id: int | None = None
) -> dict[int, list[Workspace]]:
    """The workspaces of each product with the progress of their scores: the chosen one first, then
    the oldest."""
    workspaces: dict[int, list[Workspace]] = defaultdict(list)
    rows = sets.prefetch_building(Workspace.objects.filter(product__in=product_ids))
    for workspace in rows.select_related("scores__cached_counts").order_by("id"):
        workspaces[workspace.product_id].append(workspace)
    for siblings in workspaces.values():
        siblings.sort(key=lambda workspace: workspace.pk != chosen_id)
    return workspaces


def _published_scores(workspaces: Mapping[int, Sequence[Workspace]]) -> dict[int, ScoreSet]:
    """The scores of the first workspace of each product that has some."""
    return {
        product_id: first.scores
        for product_id, (first, *_) in workspaces.items()
        if first.scores is not None and first.scores.scored_day is not None
    }


def _weekly_accounts(workspaces: Iterable[int], now: datetime) -> dict[int, list[int | None]]:
    """How many accounts were active in the week that ends with each of the last complete days."""
    days = [now.astimezone(UTC).date() - timedelta(days=ago) for ago in range(WEEKLY_DAYS, 0, -1)]
    figures = DayFigures.objects.filter(workspace__in=workspaces, segment_id=WHOLE, day__in=days)
    counts: dict[int, dict[date, int | None]] = defaultdict(dict)
    for workspace, day, accounts in figures.values_list("workspace", "day", "weekly_accounts"):
        counts[workspace][day] = accounts
    return {workspace: [of.get(day) for day in days] for workspace, of in counts.items()}


def _connections(product_ids: Sequence[int]) -> dict[int, tuple[Connection, LastRuns]]:
    connections = list(Connection.objects.filter(product__in=product_ids))
    last_runs = load_last_runs([connection.pk for connection in connections])
    return {each.product_id: (each, last_runs[each.pk]) for each in connections}


def _keys(product_ids: Sequence[int]) -> dict[int, list[IngestionKey]]:
    keys: dict[int, list[IngestionKey]] = defaultdict(list)
    for key in IngestionKey.objects.filter(product__in=product_ids).defer("secret").order_by("id"):
        keys[key.product_id].append(key)
    return keys


def _near_limits(state: limits.ProductState, messages: Last24Hours) -> list[limits.UsedLimit]:
    recorded = limits.UsedLimit(
        "Messages in 24 hours", sum(messages.recorded), state.limits.messages_per_day
    )
    return [limit for limit in (*limits.used_limits(state), recorded) if limit.is_near]


def _expiring_credentials(
    keys: Mapping[int, Sequence[IngestionKey]], product_ids: Sequence[int], now: datetime
) -> dict[int, list[Credential]]:
    """Those of the keys, and the tokens, that expire soon or expired in the last 30 days."""
    begin, end = now - expiry.NOTICE_BEFORE, now + expiry.NOTICE_BEFORE
    credentials: dict[int, list[Credential]] = defaultdict(list)
    for key in (key for of_product in keys.values() for key in of_product):
        if key.revoked_at is None and key.expires_at and begin <= key.expires_at <= end:
            credentials[key.product_id].append(key)
    tokens = ApiToken.objects.filter(product__in=product_ids, revoked_at=None)
    tokens = tokens.filter(expires_at__range=(begin, end)).defer("secret").order_by("expires_at")
    for token in tokens[:MAX_EXPIRING]:
        credentials[token.product_id].append(token)
    return credentials


def _paused_destinations(product_ids: Sequence[int]) -> dict[int, list[Destination]]:
    destinations: dict[int, list[Destination]] = defaultdict(list)
    paused = Destination.objects.filter(state=Destination.State.PAUSED, product__in=product_ids)
    for destination in paused:
        destinations[destination.product_id].append(destination)
    return destinations


def _with_users(product_ids: Sequence[int]) -> set[int]:
    if distribution.is_distributed():
        # Products are on the coordinator. Each statement asks the node of one of them.
        return {id for id in product_ids if User.objects.filter(product_id=id).exists()}
    has_users = Exists(User.objects.filter(product=OuterRef("pk")))
    return set(Product.objects.filter(has_users, pk__in=product_ids).values_list("pk", flat=True))
