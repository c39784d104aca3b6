"""What happened to the licenses of accounts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from django.db.models import F, QuerySet
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThan, TupleLessThan
from django.utils import timezone
from rest_framework.response import Response

from engagement.models import Account
from engagement.rules import license_events
from readapi import changes, pagination, parameters, serializers
from readapi.pagination import Cursor, Order
from readapi.records import LicenseEventRecord
from readapi.views.base import ReadView

_CHANGES_LIST: Final = "license-events/changes"
# A transaction that writes events ends within that time. Later ones are in the next walk.
_SETTLED: Final = timedelta(minutes=5)
_CHANGES_PARAMETERS: Final = ("changed_since", "cursor", "limit")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = 250_000_000_000_000_000


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class _EventOrder(Order):
    """Events by a day or a time, and those of one moment by a hash of their ids: a cursor has only
    numbers."""

    def rows_after(
        self, rows: QuerySet[Any], position: tuple[int, ...], *, backwards: bool
    ) -> QuerySet[Any]:
        compare = TupleLessThan if self.descending != backwards else TupleGreaterThan
        columns = Tuple(*(F(name) for name in self.columns))
        return rows.filter(compare(columns, (self._moment(position[0]), position[1])))

    def position(self, row: Any) -> tuple[int, ...]:
        moment = getattr(row, self.columns[0])
        is_time = isinstance(moment, datetime)
        return _microseconds(moment) if is_time else moment.toordinal(), row.id_hash

    def _moment(self, number: int) -> date:
        if self.columns[0] == "date":
            # A cursor that somebody made up may name a day outside of the calendar.
            return date.fromordinal(min(max(1, number), date.max.toordinal()))
        return _EPOCH + timedelta(microseconds=min(number, _LATEST))


_BY_DATE = _EventOrder(("date", "id_hash"), descending=True)
_BY_CHANGE = _EventOrder(("changed_at", "id_hash"))


class LicenseEventList(ReadView):
    """What happened to licenses, the latest date first: evaluations, purchases, renewals, churn,
    seats, and so on, with reasons.

    An event that no longer follows from what is known is withdrawn: its `withdrawn_at` is set.
    Withdrawn events are there with `withdrawn=true` or `changed_since`.
    """

    PARAMETERS = (
        "account_id",
        "type",
        "since",
        "until",
        "withdrawn",
        "changed_since",
        *parameters.PAGING_PARAMETERS,
    )
    READS = ("account",)
    MAX_LIMIT = parameters.MAX_RANKED_LIMIT

    def build_response(self) -> Response:
        rows = license_events.events_of(self.product.pk)
        if "changed_since" in self.parameters:
            return self._changes_response(rows)
        rows = self._filter(rows)
        request = pagination.parse_page_request(
            self.parameters, "license-events", _BY_DATE, self.MAX_LIMIT
        )
        page = pagination.paginate(rows, _BY_DATE, request)
        return self.page_response(page, self._records(page.rows))

    def _filter(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        query = self.parameters
        since, until = parameters.day(query, "since"), parameters.day(query, "until")
        if (account_id := parameters.id_number(query, "account_id")) is not None:
            accounts = Account.objects.filter(product=self.product, pk=account_id)
            rows = rows.filter(cloud_id__in=list(accounts.values_list("external_id", flat=True)))
        if (type := parameters.choice(query, "type", list(license_events.labels()))) is not None:
            rows = rows.filter(type=type)
        if since is not None:
            rows = rows.filter(date__gte=since)
        if until is not None:
            rows = rows.filter(date__lt=until)
        return rows if parameters.flag(query, "withdrawn") else rows.filter(withdrawn_at=None)

    def _changes_response(self, rows: QuerySet[Any]) -> Response:
        """A page of a walk through all events in the order of their last changes."""
        query = self.parameters
        changes.require_accepted(query, _CHANGES_PARAMETERS)
        request = pagination.parse_page_request(query, _CHANGES_LIST, _BY_CHANGE, self.MAX_LIMIT)
        since: tuple[int, ...] = (0, 0)
        if query["changed_since"] != changes.START:
            token = query["changed_since"]
            since = Cursor.decode(token, _CHANGES_LIST, 2, "changed_since").position
            rows = _BY_CHANGE.rows_after(rows, since, backwards=False)
        page = pagination.paginate(rows, _BY_CHANGE, request)
        response = self.page_response(replace(page, prev=None), self._records(page.rows))
        if page.next is None:
            last = _BY_CHANGE.position(page.rows[-1]) if page.rows else since
            settled = _microseconds(timezone.now() - _SETTLED), 0
            token = request.cursor_at(min(last, max(since, settled)), 0, backwards=False)
            link = self.links.page(query, {"changed_since": token})
            response.data["_links"]["changes"] = link
        return response

    def _records(self, rows: Sequence[Any]) -> list[LicenseEventRecord]:
        accounts = Account.objects.filter(
            product=self.product, external_id__in={row.cloud_id for row in rows}
        ).only("external_id", "traits")
        by_id = {account.external_id: account for account in accounts}
        return [
            serializers.license_event(row, license_events.describe(row), by_id.get(row.cloud_id))
            for row in rows
        ]
