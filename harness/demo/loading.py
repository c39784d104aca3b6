"""Fills a new product with a synthetic population, and scores it."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, LiteralString

from django.db.models import QuerySet

from core.database import sql
from core.database.partitions import maintain_partitions
from core.jobs import run
from core.jobs.kinds import More
from engagement.models import (
    EventName,
    EventWeight,
    Feature,
    Product,
    SavedView,
    ScoreSet,
    Segment,
    Workspace,
)
from engagement.models.kept_defaults import event_retention_days
from engagement.nights.jobs import DECIDE_ALARMS
from engagement.rescoring import activation, rescore, sets
from engagement.rules.steps import Step
from engagement.search import entries
from harness.demo import copy_writer, population, vocabulary
from harness.demo.population import Customer, Size
from harness.demo.subscriptions import Subscriptions, SubscriptionTruth
from harness.demo.vocabulary import Catalog, Company
from trends.usage import features
from trends.usage.nights import JOB as COUNT_USAGE

# How often to check the progress of another worker.
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
    truth: SubscriptionTruth | None = None,
    others: Iterable[Customer] = (),
) -> Iterator[int]:
    """Give a new product weights and a population; yields the number of people in each batch.
    With a *truth*, its customers have subscriptions; *others* have none.

    Works in the caller's transaction, if there is one.
    """
    _set_weights(product, catalog)
    for name, events in catalog.groups.items():
        feature, _ = Feature.objects.get_or_create(product=product, name=name)
        features.set_events(feature, events)
    _choose_steps(product, catalog)
    today = now.astimezone(UTC).date()
    maintain_partitions(today, event_retention_days())
    customers = population.generate(catalog, size, now, seed, company)
    if truth is None:
        yield from copy_writer.copy_customers(product.pk, chain(customers, others))
    else:
        weights = {feature.event: feature.weight for feature in catalog.features}
        since = today - timedelta(days=size.days - 1)
        subscriptions = Subscriptions(truth, weights, since, today, seed)
        planted = chain(subscriptions.plant(customers), others)
        yield from copy_writer.copy_customers(product.pk, planted)
        subscriptions.store(product)
    # Copying enqueues nothing to score, and the tables have no statistics yet.
    for pk in product.workspaces.values_list("pk", flat=True):
        sets.request_score_set(pk)
    entries.open_backlog(product.pk, now)
    sql.execute(_ANALYZE)


_ANALYZE: LiteralString = """
    ANALYZE engagement_user, engagement_account, engagement_membership, engagement_dailycount
"""


def _choose_steps(product: Product, catalog: Catalog) -> None:
    """Give the first workspace steps of activation. Few accounts do the last one: the others are
    stuck there."""
    first, second, *others = (feature.event for feature in catalog.features)
    invite = next(event for event in others if event.endswith("Invited"))
    steps = [
        Step("Look around", "event", first, within_days=7),
        Step("Work on three days", "event", second, at_least=3, unit="days", within_days=30),
        Step("Invite somebody", "event", invite, within_days=60),
    ]
    activation.request(product.workspaces.earliest("id"), "account", steps)


def _set_weights(product: Product, catalog: Catalog) -> None:
    """Give each of the product's workspaces the weights of the catalog."""
    EventName.objects.bulk_create(
        [EventName(product=product, name=feature.event) for feature in catalog.features],
        ignore_conflicts=True,
    )
    names = dict(EventName.objects.filter(product=product).values_list("name", "pk"))
    EventWeight.objects.bulk_create(
        (
            EventWeight(workspace=workspace, event_name_id=names[event], weight=weight)
            for workspace in product.workspaces.all()
            for event, weight, _, _ in catalog.features
        ),
        ignore_conflicts=True,
    )


def add_workspaces(product: Product, *, with_licenses: bool = False) -> None:
    """Add a monthly workspace, one about admins only, custom segments, and shared views."""
    first = product.workspaces.earliest("id")
    Workspace.objects.create(
        product=product, name="Monthly", lookback_days=Workspace.Lookback.MONTH
    )
    Workspace.objects.create(product=product, name="Admins", audience=_ADMINS)
    Segment.objects.bulk_create(
        Segment(workspace=workspace, scope=scope, name=name, conditions=conditions)
        for workspace in product.workspaces.all()
        for scope, name, conditions in (
            *vocabulary.SEGMENTS,
            *(vocabulary.LICENSE_SEGMENTS if with_licenses else ()),
        )
    )
    views = vocabulary.VIEWS | (vocabulary.LICENSE_VIEWS if with_licenses else {})
    SavedView.objects.bulk_create(
        SavedView(
            product=product,
            workspace=first,
            scope=Segment.Scope.ACCOUNT,
            name=name,
            filters=filters,
            sort=order,
        )
        for name, (filters, order) in views.items()
    )


def score_products(
    products: Sequence[Product], clock: Callable[[], datetime], report: Callable[[str], bool]
) -> None:
    """Score the products, or wait while another worker does, until all scores are published. Then
    decide the alarms of their first workspaces, and count the use of events. The alarms of the
    other workspaces follow in the background.

    Calls *report* now and then with the progress as text. It returns true to stop.
    """
    building = ScoreSet.objects.filter(product__in=products, state=ScoreSet.State.BUILDING)
    unscored = Workspace.objects.filter(product__in=products, scores=None)

    def is_scored() -> bool:
        return not (building.exists() or unscored.exists())

    def should_stop() -> bool:
        return report(_describe_progress(building))

    def is_over() -> bool:
        return should_stop() or is_scored()

    rescore.rescore(clock(), out_of_time=is_over)
    while not is_over():
        time.sleep(POLL_SECONDS)
        rescore.rescore(clock(), out_of_time=is_over)
    for product in products:
        if not should_stop():
            first = product.workspaces.earliest("id")
            run.finish(DECIDE_ALARMS, first.pk, clock, partial(_report_nights, report))
            run.finish(COUNT_USAGE, product.pk, clock)


def _report_nights(report: Callable[[str], bool], step: More) -> None:
    if step.total:
        report(f"alarms: {step.progress:,} of {step.total:,} days")


def _describe_progress(building: QuerySet[ScoreSet]) -> str:
    score_set = building.exclude(to_build=None).first()
    if score_set is None:
        return "scoring"
    return f"scoring: {score_set.built:,} of {score_set.to_build:,} {score_set.phase}"
