"""Destinations, and accounts with the scores that a test gives them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from core.jobs import kinds
from core.jobs.run import run_kinds
from core.models import Job
from destinations import runs
from destinations.models import RecordDestination, RecordLink, RecordRun, Vendor
from destinations.vendors import open_client
from engagement import changes
from engagement.models import Account, AccountEngagement, Product, ScoreSet, Workspace
from harness.crm.hubspot import FakeHubSpot
from harness.crm.salesforce import FakeSalesforce
from harness.crm.server import FakeCrm
from tests.engagement.history import NOON
from tests.notifications.rows import Clock

BENCHMARK = 1_000_000
ZEROS = {"raw": 0, "event_count": 0, "active_days": 0, "active_users": 0}
DOMAIN = [{"source": "domain", "field": "domain"}]
SCORE = {"source": "score", "field": "eds_score", "rule": "clear"}
PLAN = {"source": "trait:plan", "field": "plan", "rule": "clear"}
# The same in Salesforce.
SITE = [{"source": "domain", "field": "Website"}]
SF_SCORE = {"source": "score", "field": "EDS_Score__c", "rule": "clear"}
SF_PLAN = {"source": "trait:plan", "field": "Plan__c", "rule": "clear"}
SF_NAME = {"source": "name", "field": "Name", "rule": "fill"}


def scored(product: Product, scores: Mapping[str, float], **traits: Any) -> Workspace:
    """Accounts with these scores. The domain of an account is its name with .example."""
    workspace = product.workspaces.get()
    workspace.scores = ScoreSet.objects.create(
        product=product,
        workspace=workspace,
        state=ScoreSet.State.CURRENT,
        lookback_days=workspace.lookback_days,
        default_weight=workspace.default_weight,
        scored_day=NOON.date(),
        user_benchmark=BENCHMARK,
        account_benchmark=BENCHMARK,
    )
    workspace.save(update_fields=["scores"])
    accounts = Account.objects.bulk_create(
        Account(
            product=product,
            external_id=name,
            traits={"name": name.title(), "domain": f"{name}.example", **traits},
            is_identified=True,
            first_seen_at=NOON,
            last_seen_at=NOON,
        )
        for name in scores
    )
    AccountEngagement.objects.bulk_create(
        AccountEngagement(product=product, score_set=workspace.scores, account=account, **ZEROS)
        for account in accounts
    )
    move(workspace, scores)
    return workspace


def move(workspace: Workspace, scores: Mapping[str, float]) -> None:
    """Give accounts other scores, as scoring does."""
    score_set = workspace.scores
    assert score_set is not None
    rows = AccountEngagement.objects.filter(
        score_set=score_set, account__external_id__in=scores
    ).select_related("account")
    moved = list(rows)
    for row in moved:
        row.raw = raw_for(scores[row.account.external_id])
    AccountEngagement.objects.bulk_update(moved, ["raw"])
    touch(workspace.product_id, scores)


def touch(product_id: int, names: Sequence[str] | Mapping[str, Any]) -> None:
    ids = Account.objects.filter(product=product_id, external_id__in=names)
    changes.stamp(product_id, {"account": list(ids.values_list("pk", flat=True))})


def set_traits(product: Product, name: str, **traits: Any) -> None:
    account = Account.objects.get(product=product, external_id=name)
    account.traits |= traits
    account.save(update_fields=["traits"])
    touch(product.pk, [name])


def raw_for(score: float) -> int:
    """The raw score that is shown as this score."""
    return round(-BENCHMARK * math.log10(1 - score / 100))


def a_destination(product: Product, **values: Any) -> RecordDestination:
    """An active destination in HubSpot that sends scores by domain."""
    return RecordDestination.objects.create(
        **{
            "product": product,
            "workspace": Workspace.objects.filter(product=product).order_by("pk").first(),
            "vendor": Vendor.HUBSPOT,
            "key": "planted-key",
            "match": DOMAIN,
            "mapping": [SCORE],
            "base_url": "https://eds.example",
            "state": RecordDestination.State.ACTIVE,
            "next_run_at": NOON,
            **values,
        }
    )


def hubspot_destination(product: Product, crm: FakeHubSpot, **values: Any) -> RecordDestination:
    return _with_fields(a_destination(product, **values), crm)


def salesforce_destination(
    product: Product, crm: FakeSalesforce, **values: Any
) -> RecordDestination:
    own = {
        **{"vendor": Vendor.SALESFORCE, "host": "acme.my.salesforce.com"},
        **{"client_id": crm.client_id, "match": SITE, "mapping": [SF_SCORE]},
    }
    return _with_fields(a_destination(product, **{**own, **values}), crm)


def _with_fields(destination: RecordDestination, crm: FakeCrm) -> RecordDestination:
    destination.fields = msgspec.to_builtins(open_client(destination, lambda: None).fields())
    destination.save(update_fields=["fields"])
    crm.calls.clear()
    return destination


def work(clock: Clock) -> int:
    """Go on with the runs that are due, as a worker does."""
    kind = kinds.get(runs.KIND)
    assert kind is not None
    steps = run_kinds([kind], clock, lambda: False)
    # A failure that nobody expected begins with the name of its class.
    assert not [error for error in failing_jobs() if ": " in error.partition(" ")[0] + " "]
    return steps


def run_now(destination: RecordDestination, clock: Clock, kind: str = "") -> RecordRun:
    """Request a run of the kind that is due, and go on until it rests."""
    destination.refresh_from_db()
    now = clock.step()
    own_kind = RecordRun.Kind(kind) if kind else runs.due_kind(destination, now)
    assert runs.request_run(destination, own_kind, now)
    work(clock)
    return RecordRun.objects.filter(destination=destination).first() or RecordRun()


def resume(clock: Clock, seconds: float = 4000) -> None:
    """Some time later, go on with what waits."""
    clock.step(seconds)
    work(clock)


def numbers(run: RecordRun) -> dict[str, int]:
    run.refresh_from_db()
    return {name: getattr(run, name) for name in RecordRun.COUNTERS if getattr(run, name)}


def link_of(destination: RecordDestination, name: str) -> RecordLink:
    return RecordLink.objects.get(destination=destination, external_id=name)


def failing_jobs() -> list[str]:
    return list(Job.objects.filter(kind=runs.KIND, failures__gt=0).values_list("error", flat=True))
