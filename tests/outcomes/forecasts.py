"""Terms that end in the months ahead, planted as looks at chances and the ledger leave them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from engagement.models import Account, AccountChance, Product, Workspace
from outcomes.kinds import Kind
from outcomes.models import ChanceLook
from outcomes.sources import licenses


@dataclass(frozen=True)
class Planted:
    """A term with its chance, None without one. ``result`` and ``exclusion`` are of its outcome."""

    license: str
    day: date
    chance: float | None = 0.8
    seats: int | None = 10
    cents: int | None = None
    kind: Kind = Kind.RENEWAL
    result: str = "open"
    exclusion: str = "open"
    answered_on: date | None = None
    account: str = ""
    uncertainty: float = 0.0

    @property
    def site(self) -> str:
        return self.account or f"site of {self.license}"

    def ended(self, result: str = "renewed", exclusion: str = "") -> "Planted":
        return replace(self, result=result, exclusion=exclusion, chance=None)


def plant(product: Product, terms: Sequence[Planted], today: date, revision: int = 1) -> Workspace:
    """Store the terms as of the day, instead of those of another one. Returns the workspace."""
    workspace = product.workspaces.get()
    now = datetime(today.year, today.month, today.day, 6, tzinfo=UTC)
    accounts = {}
    for site in sorted({term.site for term in terms}):
        values = {"is_identified": True, "first_seen_at": now, "last_seen_at": now}
        accounts[site], _ = Account.objects.get_or_create(
            product=product, external_id=site, defaults=values
        )
    decide(product, terms, revision)
    AccountChance.objects.filter(product=product).delete()
    AccountChance.objects.bulk_create(
        AccountChance(
            product=product,
            workspace=workspace,
            account_id=accounts[term.site].pk,
            kind=term.kind,
            license=term.license,
            began_on=term.day - timedelta(days=365),
            day=term.day,
            chance=term.chance,
            low=max(term.chance - term.uncertainty, 0),
            high=min(term.chance + term.uncertainty, 1),
            outcomes=200,
            is_share=False,
            version=7,
            seats=term.seats,
            cents=term.cents,
            looked_on=today,
        )
        for term in terms
        if term.chance is not None
    )
    look = {"looked_at": now, "revision": revision, "score_set_id": workspace.scores_id or 0}
    ChanceLook.objects.update_or_create(workspace=workspace, defaults=look)
    return workspace


def decide(product: Product, terms: Sequence[Planted], revision: int = 1) -> None:
    """Store what the ledger knows of the terms."""
    rows = list(_rows(terms))
    licenses.replace(product.pk, sorted({row.license for row in rows}), rows)
    licenses.follow(product.pk, revision)


def _rows(terms: Sequence[Planted]) -> Iterator[licenses.OutcomeRow]:
    for term in terms:
        is_open = term.exclusion == "open"
        yield licenses.OutcomeRow(
            license=term.license,
            kind=term.kind,
            day=term.day,
            cloud_id=term.site,
            began_on=term.day - timedelta(days=365),
            known_on=None if is_open else term.day,
            answered_on=term.answered_on,
            decided_on=None if is_open else term.day,
            result=term.result,
            exclusion=term.exclusion,
            seats=term.seats,
            cents=term.cents,
        )
