"""What an account pays: the trait ``mrr``, its monthly recurring revenue in cents.

Nobody tells the service which currency that is, so amounts are shown without one.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

MRR_TRAIT: Final = "mrr"
MRR_LABEL: Final = "MRR"
Cents: TypeAlias = int | float
# Larger amounts are something else.
_LIMIT = 10**15
# As ``engagement.rules.trait_filters.TraitNumber`` reads texts.
_NUMBER = re.compile(r"[-+]?[0-9]{1,16}(\.[0-9]{1,16})?", re.ASCII)


def mrr_of(traits: Mapping[str, Any]) -> Cents | None:
    """The account's monthly recurring revenue in cents, or None if no trait says a number."""
    value = traits.get(MRR_TRAIT)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value) if "." in value else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < _LIMIT else None


def format_cents(cents: Cents) -> str:
    """Cents as people write an amount: 123400 is "1,234.00"."""
    return f"{Decimal(str(cents)) / 100:,.2f}"
