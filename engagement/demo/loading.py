"""Fills a new product with an invented population and has it scored."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString

from django.conf import settings
from django.db.models import QuerySet

from engagement.database import sql
from engagement.database.partitions import maintain_partitions
from engagement.demo import copy_writer, message_writer, population, vocabulary
from engagement.demo.population import Size
from engagement.demo.vocabulary import Catalog, Company
from engagement.models import EventName, EventWeight, Product, ScoreSet, Segment, Workspace
from engagement.rescoring import rescore, sets

# More people than these are copied into the tables instead of recorded as messages.
MAX_USERS_AS_MESSAGES = 20_000
# Seconds between two looks at what another worker is scoring.
POLL_SECONDS = 0.2

_ADMINS: dict[str, Any] = {
    "match": "all",
    "conditions": [{"kind": "trait", "trait": "role", "operator": "is", "value": "admin"}],
}


def populate(
    product: Product,
    catalog: Catalog,
    size: Size,
    now: datetime,
    *,
    seed: int = 1,
    company: Callable[[int], Company] = vocabulary.company,
) -> Iterator[int]:
    """Give the product weights and a population; yields after each piece how many people it had.

    The product must be new. Recorded in the caller's transaction, if there is one.
    """
    _weigh(product, catalog)
    maintain_partitions(now.astimezone(UTC).date(), settings.EVENT_RETENTION_DAYS)
    write = (
        message_writer.write_as_messages
        if size.users <= MAX_USERS_AS_MESSAGES
        else copy_writer.copy_customers
    )
    yield from write(product.pk, population.generate(catalog, size, now, seed, company))
    if write is copy_writer.copy_customers:
        # Nothing was marked stale, and nobody has looked at the tables yet.
        for pk in product.workspaces.values_list("pk", flat=True):
            sets.request_score_set(pk)
        sql.execute(_LEARN)


_LEARN: LiteralString = """
    ANALYZE engagement_user, engagement_account, engagement_membership, engagement_dailycount
"""


def _weigh(product: Product, catalog: Catalog) -> None:
    """Have each of the product's workspaces weigh its events as the catalog does."""
    wanted = [EventName(product=product, name=feature.event) for feature in catalog.features]
    EventName.objects.bulk_create(wanted, ignore_conflicts=True)
    known = EventName.objects.filter(product=product)
    names = dict(known.values_list("name", "pk"))
    EventWeight.objects.bulk_create(
        (
            EventWeight(workspace=workspace, event_name_id=names[event], weight=weight)
            for workspace in product.workspaces.all()
            for event, weight, _, _ in catalog.features
        ),
        ignore_conflicts=True,
    )


def add_workspaces(product: Product) -> None:
    """A look at a whole month, one at admins only, and segments beyond the default ones."""
    Workspace.objects.create(
        product=product, name="Monthly", lookback_days=Workspace.Lookback.MONTH
    )
    Workspace.objects.create(product=product, name="Admins", audience=_ADMINS)
    Segment.objects.bulk_create(
        Segment(workspace=workspace, scope=scope, name=name, conditions=conditions)
        for workspace in product.workspaces.all()
        for scope, name, conditions in vocabulary.SEGMENTS
    )


def score_products(
    products: Sequence[Product], clock: Callable[[], datetime], report: Callable[[str], bool]
) -> None:
    """Return once the products' scores are complete and published.

    *report* is told now and then how far that is, in words, and says whether to stop waiting. Where
    another worker scores the products, it is waited for.
    """
    building = ScoreSet.objects.filter(product__in=products, state=ScoreSet.State.BUILDING)
    unscored = Workspace.objects.filter(product__in=products, scores=None)

    def over() -> bool:
        return report(_how_far(building))

    rescore.rescore(clock(), out_of_time=over)
    while (building.exists() or unscored.exists()) and not over():
        time.sleep(POLL_SECONDS)
        rescore.rescore(clock(), out_of_time=over)


def _how_far(building: QuerySet[ScoreSet]) -> str:
    under_way = building.exclude(to_build=None).first()
    if under_way is None:
        return "scoring"
    return f"scoring: {under_way.built:,} of {under_way.to_build:,} {under_way.phase}"
