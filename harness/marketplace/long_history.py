"""Histories of very many licenses, printed while they are sent.

A few lives are told. Each license is one of them under its own ids, so a row costs a replacement of
bytes, and the simulated marketplace is not what is measured.
"""

from collections.abc import Iterator
from datetime import date, timedelta

import msgspec

from harness.marketplace.faults import SimulatedResponse, error_response
from harness.marketplace.lives import Life, add_months
from harness.marketplace.records import Record, Site
from harness.marketplace.report_endpoints import PAGE_SIZE, ReportEndpoints
from harness.marketplace.reports import print_license
from harness.marketplace.switches import Start, Switches
from harness.marketplace.vendor import SimulatedApp

# As many lives, with terms of so many months.
LIVES = 40
_MONTHS = (2, 3, 6, 12)
# In a printed row, the number of its license.
_NUMBER = b"@@@@@@@@"
_IDS = (
    *("appEntitlementId", "appEntitlementNumber", "licenseId", "hostEntitlementId"),
    *("hostEntitlementNumber", "transactionAccountId"),
)
# The start of a license stays, so that the parts of an export are of many quarters.
_SWITCHES = Switches(start=Start.ANNIVERSARY)


class LongHistory(ReportEndpoints):
    """The history of *licenses*, each of which was bought and renewed until it had *rows* states.

    Without *has_export*, only pages bring it.
    """

    def __init__(
        self, app: SimulatedApp, licenses: int, rows: int, today: date, *, has_export: bool
    ) -> None:
        super().__init__()
        self._licenses, self._rows_each, self._has_export = licenses, rows, has_export
        lives = [_tell(number, rows, today) for number in range(LIVES)]
        self._starts = [life.snapshots[0].on for life in lives]
        self._printed = [_print(app, life) for life in lives]

    def current(self) -> Iterator[bytes]:
        """The licenses as they are now."""
        return (self._row(number, -1) for number in range(self._licenses))

    def _row(self, license: int, place: int) -> bytes:
        return self._printed[license % LIVES][place].replace(_NUMBER, b"%08d" % license)

    def _history(self, parameters: dict[str, str], moved: int) -> SimulatedResponse:
        offset = int(parameters.get("offset", 0))
        total = self._licenses * self._rows_each
        body = b",".join(
            self._row(*divmod(place, self._rows_each))
            for place in range(offset, min(offset + PAGE_SIZE, total))
        )
        next_link = b'"next":{"href":"/licenses"}' if offset + PAGE_SIZE < total else b""
        return SimulatedResponse(body=b'{"_links":{%b},"licenses":[%b]}' % (next_link, body))

    def _start(self, report: str, parameters: dict[str, str]) -> SimulatedResponse:
        if report != "history":
            return super()._start(report, parameters)
        if not self._has_export:
            return error_response(404, "There is no such export.")
        first = date.fromisoformat(parameters.get("startDate", "0001-01-01"))
        last = date.fromisoformat(parameters.get("endDate", "9999-12-31"))
        rows = [
            msgspec.Raw(self._row(license, place))
            for life, start in enumerate(self._starts)
            if first <= start <= last
            for license in range(life, self._licenses, LIVES)
            for place in range(self._rows_each)
        ]
        name = f"history-{first}-{last}"
        # Only the latest one: each may have hundreds of megabytes.
        self._exports = {name: rows}
        return self._status(["licenses"], name)


def _tell(number: int, rows: int, today: date) -> Life:
    months = _MONTHS[number % len(_MONTHS)]
    mark = _NUMBER.decode()
    site = Site(f"site-{mark}", f"{mark}.example", f"Company {mark}", "Germany", "EMEA")
    life = Life(number, (site, site), months=months, switches=_SWITCHES)
    shift = number // len(_MONTHS) * months * 30 // (LIVES // len(_MONTHS))
    # The last term goes on today.
    life.purchase(add_months(today - timedelta(days=shift), -months * (rows - 1)))
    for _ in range(rows - 1):
        life.renew()
    return life


def _print(app: SimulatedApp, life: Life) -> list[bytes]:
    rows: list[Record] = [
        {**print_license(app, 1, life, snapshot), "recordCreatedDate": f"{snapshot.on}"}
        for snapshot in life.snapshots
    ]
    for row in rows:
        row |= {name: f"{name[:4]}-{_NUMBER.decode()}" for name in _IDS}
        row["appEntitlementNumber"] = f"E-{_NUMBER.decode()}"
    return [msgspec.json.encode(row) for row in rows]
