"""How likely what is being decided about accounts is to end well, and why."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import msgspec
from django.db.models import BigIntegerField, F, Func, QuerySet, Value
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThan, TupleLessThan
from rest_framework.response import Response

from engagement.models import Account, AccountChance
from outcomes.chances import storage, texts
from outcomes.chances.results import Evidence
from outcomes.kinds import Kind
from outcomes.sources import licenses
from outcomes.statistics.estimates import Estimate
from readapi import pagination, parameters, queries, serializers
from readapi.pagination import Order
from readapi.records import ChanceRecord, SimilarCase
from readapi.views.base import ReadView


@dataclass(frozen=True)
class _ChanceOrder(Order):
    """Chances by a day or by a number from 0 on, which a cursor has as the bits of its float: they
    are in the same order. Those of one account are in the order of a hash of the license."""

    def rows_after(
        self, rows: QuerySet[Any], position: tuple[int, ...], *, backwards: bool
    ) -> QuerySet[Any]:
        compare = TupleLessThan if self.descending != backwards else TupleGreaterThan
        columns = Tuple(*(F(name) for name in self.columns))
        return rows.filter(compare(columns, (self._value(position[0]), *position[1:])))

    def position(self, row: Any) -> tuple[int, ...]:
        value = getattr(row, self.columns[0])
        is_day = isinstance(value, date)
        number = value.toordinal() if is_day else struct.unpack(">q", struct.pack(">d", value))[0]
        return number, row.account_id, row.license_hash

    def _value(self, number: int) -> date | float:
        if self.columns[0] == "day":
            # A cursor that somebody made up may name a day outside of the calendar.
            return date.fromordinal(min(max(1, number), date.max.toordinal()))
        value: float = struct.unpack(">d", struct.pack(">q", number))[0]
        return value


_REST: Final = ("account_id", "license_hash")
ORDERS: Final = {
    "expected_seats": _ChanceOrder(("worth", *_REST), descending=True),
    "chance": _ChanceOrder(("chance", *_REST)),
    "day": _ChanceOrder(("day", *_REST)),
}


class _LicenseHash(Func):
    """A number from 0 on."""

    template = "(hashtextextended(%(expressions)s) & 9223372036854775807)"
    output_field = BigIntegerField()


class ChanceList(ReadView):
    """How likely each running evaluation of the workspace is to be bought; with `kind`, how likely
    terms are to be renewed, and so on. Each chance has its interval, the facts that moved it most,
    and the most similar past cases.

    Chances are computed in the background, each night and after new licenses or scores.
    """

    PARAMETERS = ("kind", "order", *parameters.PAGING_PARAMETERS)
    READS = ("account",)

    def build_response(self, workspace_id: int) -> Response:
        workspace = queries.workspace(self.product, workspace_id)
        kind = Kind(parameters.choice(self.parameters, "kind", [*Kind]) or Kind.EVALUATION)
        # Accounts without licenses may be a million, and have no seats: only an index orders them.
        default = "expected_seats" if kind in licenses.KINDS else "chance"
        name = parameters.choice(self.parameters, "order", [*ORDERS]) or default
        order = ORDERS[name]
        request = pagination.parse_page_request(self.parameters, f"chances/{kind}/{name}", order)
        rows = storage.by_seats(storage.running(workspace, kind))
        rows = rows.annotate(license_hash=_LicenseHash(F("license"), Value(0)))
        page = pagination.paginate(rows, order, request)
        return self.page_response(page, self._records(page.rows))

    def _records(self, rows: list[AccountChance]) -> list[ChanceRecord]:
        evidence = [storage.evidence_of(row) for row in rows]
        ids = {row.account_id for row in rows}
        ids |= {case.account for why in evidence for case in why.similar}
        accounts = Account.objects.filter(product=self.product, pk__in=ids, is_identified=True)
        by_id = {account.pk: account for account in accounts.defer("trait_stamps")}
        return [
            _record(row, why, by_id)
            for row, why in zip(rows, evidence, strict=True)
            if row.account_id in by_id
        ]


def _record(row: AccountChance, why: Evidence, accounts: dict[int, Account]) -> ChanceRecord:
    return {
        "account": serializers.account_name(accounts[row.account_id]),
        "kind": Kind(row.kind),
        "license": row.license or None,
        "began_on": row.began_on.isoformat(),
        "day": row.day.isoformat(),
        "chance": msgspec.to_builtins(Estimate(row.chance, row.low, row.high, row.outcomes)),
        "is_share": row.is_share,
        "seats": row.seats,
        "cents": row.cents,
        "facts": [
            {
                "feature": fact.feature,
                "value": fact.value,
                "usual": fact.usual,
                "effect": fact.effect,
                "text": f"{texts.fact_text(fact)}: {texts.effect_text(fact.effect)}.",
            }
            for fact in why.facts
        ],
        "similar": list(_similar(why, accounts)),
        "version": row.version,
        "looked_on": row.looked_on.isoformat(),
    }


def _similar(why: Evidence, accounts: dict[int, Account]) -> Iterable[SimilarCase]:
    """Without the accounts that were forgotten since."""
    for case in why.similar:
        if account := accounts.get(case.account):
            yield {
                "account": serializers.account_name(account),
                "day": case.day.isoformat(),
                "result": case.result,
                "is_good": case.is_good,
            }
