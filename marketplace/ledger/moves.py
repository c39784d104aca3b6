"""Licenses that perhaps moved to another site, and what people decide about them.

If the marketplace names no purchasers, all that two licenses of a customer share may be the name of
the company and its country.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from core.jobs import run as jobs
from marketplace.ledger import recomputation
from marketplace.ledger.inputs import MOVES
from marketplace.models import LedgerLicense, LicenseEvent


@dataclass(frozen=True)
class PerhapsMove:
    """A license that left a site, and one that began elsewhere. ``is_move`` is what a person
    decided, None if nobody did."""

    leaver: str
    arrival: str
    is_move: bool | None


def moves_of(product_id: int, cloud_id: str) -> list[PerhapsMove]:
    """Those of the account's licenses, the undecided ones first."""
    events = LicenseEvent.objects.filter(
        Q(details__has_key="perhaps_to") | Q(details__has_key="perhaps_from"),
        product=product_id,
        cloud_id=cloud_id,
        withdrawn_at=None,
    )
    pairs: dict[tuple[str, str], bool | None] = {}
    for license, details in events.order_by("license").values_list("license", "details"):
        leaver = details.get("perhaps_from", license)
        pairs[leaver, details.get("perhaps_to", license)] = None
    leavers = Q(cloud_id=cloud_id) | Q(license__in={leaver for leaver, _ in pairs})
    rows = LedgerLicense.objects.filter(leavers, product=product_id, facts__has_key=MOVES)
    for leaver, facts in rows.order_by("license").values_list("license", "facts"):
        pairs |= {(leaver, arrival): is_move for arrival, is_move in facts[MOVES].items()}
    moves = [PerhapsMove(*pair, is_move) for pair, is_move in pairs.items()]
    return sorted(moves, key=lambda move: move.is_move is not None)


def decide(product_id: int, move: PerhapsMove, now: datetime) -> None:
    """Note what a person decided, or that it is open again. The events follow in the background."""
    with transaction.atomic():
        rows = LedgerLicense.objects.filter(product=product_id, license=move.leaver)
        row = rows.select_for_update(no_key=True).get()
        decided = {**row.facts.get(MOVES, {}), move.arrival: move.is_move}
        moves = {license: is_move for license, is_move in decided.items() if is_move is not None}
        others = {name: value for name, value in row.facts.items() if name != MOVES}
        rows.update(
            facts={**others, MOVES: moves} if moves else others, stale=LedgerLicense.Stale.CHANGED
        )
        jobs.request(recomputation.KIND, now, product_id)
