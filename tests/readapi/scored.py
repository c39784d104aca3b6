"""A product with scores computed from events."""

from datetime import timedelta
from typing import Any

from engagement.models import Account, Product, ScoreSet, Seats, User, Workspace
from engagement.rescoring.rescore import rescore
from tests.engagement.history import NOON, group, identify, tell, track

TODAY = NOON.date()
WEEK = 7 * 24


def fill(product: Product) -> Workspace:
    """Initech, which is rising thanks to ann, and hooli, which is inactive."""
    Product.objects.filter(pk=product.pk).update(licensed_for=Seats.APP)
    license: dict[str, Any] = {
        "am.tier.number": 50,
        "am.maintenanceEndDate": f"{TODAY + timedelta(days=20)}",
    }
    tell(
        product,
        group("initech", -24 * 50, name="Initech", domain="initech.example", **license),
        group("hooli", -24 * 300, name="Hooli"),
        identify("ann", -24 * 50, "initech", name="Ann", email="ann@initech.example"),
        identify("bob", -24 * 50, "initech"),
        identify("cyd", -24 * 300, "hooli", plan="pro"),
    )
    tell(product, *(track("ann", "shared", hours=-24 * day) for day in range(5)))
    tell(product, *(track("ann", "opened") for _ in range(3)))
    tell(product, track("bob", "opened"), track("bob", "opened", hours=-WEEK - 24))
    tell(product, *(track("cyd", "opened", hours=-WEEK - 24 * day) for day in range(3)))
    rescore(NOON)
    return Workspace.objects.select_related("scores").get(product=product)


def scores_of(workspace: Workspace) -> ScoreSet:
    assert workspace.scores is not None
    return workspace.scores


def account_id(product: Product, name: str) -> int:
    return Account.objects.get(product=product, external_id=name).pk


def user_id(product: Product, name: str) -> int:
    return User.objects.get(product=product, external_id=name).pk
