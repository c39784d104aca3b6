"""Chances of accounts, as a look would have stored them."""

from datetime import timedelta
from typing import Any

from engagement.models import Account, AccountChance, Product
from tests.engagement.history import NOON

TODAY = NOON.date()


def add_chance(
    product: Product, account: str, kind: str, chance: float, **fields: Any
) -> AccountChance:
    """A chance of the account in the product's first workspace. *fields* replace any others."""
    values = {
        "license": "",
        "began_on": TODAY - timedelta(days=10),
        "day": TODAY + timedelta(days=20),
        "low": max(0, chance - 0.1),
        "high": min(1, chance + 0.1),
        "outcomes": 60,
        "is_share": False,
        "looked_on": TODAY,
        **fields,
    }
    return AccountChance.objects.create(
        product=product,
        workspace=product.workspaces.earliest("id"),
        account_id=Account.objects.get(product=product, external_id=account).pk,
        kind=kind,
        chance=chance,
        **values,
    )
