"""Chances to show."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from engagement.models import Account, AccountChance, Product, Workspace
from outcomes.chances.results import Bin, Evidence, Fact, Feature, PastCase, Proof, Totals
from outcomes.kinds import Kind
from outcomes.models import ChanceLook, ChanceModel, LicenseRevision
from outcomes.statistics.estimates import Estimate

NOW = datetime.now(UTC)
TODAY, DAY = NOW.date(), timedelta(days=1)
PROOF = Proof(
    240, 0.142, 0.21, Estimate(0.068, 0.041, 0.095, 240), [Bin(0.2, Estimate(0.22, 0.1, 0.4, 40))]
)
FACTS = [Fact(Feature.USERS, 2, 5, -0.12), Fact(Feature.USER_DAYS_7, 1, 9, 0.004)]


def account(product: Product, name: str) -> Account:
    return Account.objects.create(
        product=product,
        external_id=name,
        is_identified=True,
        traits={"name": name.title()},
        first_seen_at=NOW,
        last_seen_at=NOW,
    )


def model(
    workspace: Workspace, kind: Kind = Kind.EVALUATION, age: int = 7, **values: Any
) -> ChanceModel:
    own: dict[str, Any] = {"fitted_at": NOW, "outcomes": 300, "good": 100, "coefficients": {}}
    return ChanceModel.objects.create(
        product=workspace.product, workspace=workspace, kind=kind, age=age, **(own | values)
    )


def chance(workspace: Workspace, name: str, value: float, **values: Any) -> AccountChance:
    own: dict[str, Any] = {
        "kind": Kind.EVALUATION,
        "license": f"of {name}",
        "began_on": TODAY - 9 * DAY,
        "day": TODAY + 21 * DAY,
        "low": value - 0.1,
        "high": value + 0.1,
        "outcomes": 300,
        "is_share": False,
        "seats": 10,
        "looked_on": TODAY,
    }
    return AccountChance.objects.create(
        product=workspace.product,
        workspace=workspace,
        account=account(workspace.product, name),
        chance=value,
        **(own | values),
    )


def look(workspace: Workspace, **totals: Totals) -> None:
    stored = msgspec.to_builtins(totals)
    ChanceLook.objects.create(
        workspace=workspace, looked_at=NOW - 3 * DAY / 24, score_set_id=1, totals=stored
    )


def make_radar(ours: Workspace) -> Workspace:
    """Two evaluations of 12: the less likely one has more seats."""
    LicenseRevision.objects.create(product=ours.product, revision=1)
    past = account(ours.product, "hooli")
    similar = [
        PastCase(past.pk, TODAY - 40 * DAY, "bought", True),
        PastCase(10**9, TODAY - 50 * DAY, "expired", False),
    ]
    evidence = msgspec.to_builtins(Evidence(FACTS, similar))
    version = model(ours, proof=msgspec.to_builtins(PROOF)).pk
    model(ours, age=21, outcomes=30, good=7, coefficients=None)
    chance(ours, "initech", 0.4, seats=50, evidence=evidence, version=version)
    chance(ours, "umbrella", 0.8, version=version)
    look(ours, evaluation=Totals(12, 11, 4.2, 1.6, 6.4, answered=3, too_young=2, without_data=1))
    return ours
