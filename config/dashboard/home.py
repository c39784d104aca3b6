"""The admin's home page: a card for each product that the person may see.

Each thing is asked once for all cards, but for the accounts that moved most, which are asked for
per set of scores.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from config.dashboard.cards import ProductSummary, build_card
from engagement.admin.scoping import request_access, sees_all_products, visible_products
from engagement.models import Product, ScoreSet, User, Workspace
from engagement.rescoring import sets
from engagement.segments import counts
from engagement.segments.movers import NO_MOVERS
from ingestion.admin.snippets import KEY_PLACEHOLDER, build_snippets
from ingestion.log import last_24h, status
from ingestion.models import IngestionKey
from marketplace.models import Connection

# So many products have a card; the list of products has all of them.
MAX_CARDS = 12


def home_context(request: HttpRequest) -> dict[str, Any]:
    """What ``config/home.html`` shows above the list of everything."""
    visible = visible_products(request.user)
    products = list(visible[: MAX_CARDS + 1])
    now, allowed = timezone.now(), request_access(request)
    is_superuser = sees_all_products(request.user)
    return {
        "cards": [
            build_card(facts, allowed, now)
            for facts in product_summaries(products[:MAX_CARDS], now)
        ],
        "more": visible.count() - MAX_CARDS if len(products) > MAX_CARDS else 0,
        "may_add": request.user.has_perm("engagement.add_product"),
        "is_superuser": is_superuser,
        # Nobody else may know of them.
        "strays": status.daily_drops(None, now).today if is_superuser else 0,
        "log_url": reverse("admin:ingestion_ingestionlog_changelist"),
        "first_event": build_snippets(request.build_absolute_uri("/"))[0].code,
        "placeholder": KEY_PLACEHOLDER,
        "products_url": reverse("admin:engagement_product_changelist"),
        "add_url": reverse("admin:engagement_product_add"),
    }


def product_summaries(products: Sequence[Product], now: datetime) -> list[ProductSummary]:
    """What the cards of the products are made from, in their order."""
    ids = [product.pk for product in products]
    workspaces = _workspaces(ids)
    # A card shows the scores of one workspace, the one that its product began with.
    scored = {one[0].product_id: scores for one in workspaces.values() if (scores := _read(one[0]))}
    totals = counts.subject_totals(scored.values())
    sent = last_24h.for_products(ids, now)
    keys = _keys(ids)
    known = _with_people(ids)
    connections = {one.product_id: one for one in Connection.objects.filter(product__in=ids)}
    return [
        ProductSummary(
            product=product,
            has_users=product.pk in known,
            workspaces=workspaces[product.pk],
            totals=totals[scored[product.pk].pk] if product.pk in scored else None,
            moved=counts.top_movers(scored[product.pk]) if product.pk in scored else NO_MOVERS,
            lately=sent[product.pk],
            keys=keys[product.pk],
            connection=connections.get(product.pk),
        )
        for product in products
    ]


def _workspaces(product_ids: Sequence[int]) -> dict[int, list[Workspace]]:
    """The products' workspaces, the first made first, with how their scores stand."""
    found: dict[int, list[Workspace]] = defaultdict(list)
    rows = sets.prefetch_building(Workspace.objects.filter(product__in=product_ids))
    for workspace in rows.select_related("scores__cached_counts").order_by("id"):
        found[workspace.product_id].append(workspace)
    return found


def _read(workspace: Workspace) -> ScoreSet | None:
    """The scores that readers of the workspace see; None where there are none yet."""
    scores = workspace.scores
    return scores if scores is not None and scores.scored_day is not None else None


def _keys(product_ids: Sequence[int]) -> dict[int, list[IngestionKey]]:
    found: dict[int, list[IngestionKey]] = defaultdict(list)
    for key in IngestionKey.objects.filter(product__in=product_ids).defer("secret").order_by("id"):
        found[key.product_id].append(key)
    return found


def _with_people(product_ids: Sequence[int]) -> set[int]:
    """Those of the products that know anybody, by whatever way they came."""
    anybody = Exists(User.objects.filter(product=OuterRef("pk")))
    return set(Product.objects.filter(anybody, pk__in=product_ids).values_list("pk", flat=True))
