"""The endpoints of the reports beside the licenses: transactions, feedback, the metrics' details,
the history of licenses, and the list of what an account may read.
"""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import msgspec

from harness.marketplace.faults import Endpoint, SimulatedResponse, error_response
from harness.marketplace.records import Record
from harness.marketplace.reports import METRICS, VendorReports
from harness.marketplace.switches import HistoryDoor

PAGE_SIZE = 50
# The list of rows in the pages of each report, and where its rows have their day.
ROWS_NAME = {"transactions": "transactions", "feedback": "feedback"} | dict.fromkeys(
    METRICS, "events"
)
PATHS = {
    "transactions": ("sales", "transactions"),
    "feedback": ("feedback", "details"),
    **{metric: ("sales", "metrics", metric, "details") for metric in METRICS},
}
_REPORT_BY_PATH = {path: report for report, path in PATHS.items()}
_LINKS = {
    "licenses": "licenses",
    "transactions": "sales/transactions",
    "cloudChurn": "sales/metrics/churn",
    "renewal": "sales/metrics/renewal",
    "cloudConversion": "sales/metrics/conversion",
    "feedbackLinks": "feedback/details",
}

View = Callable[[int], SimulatedResponse]


class ReportEndpoints:
    """Serves the reports of a vendor, and the exports of some."""

    def __init__(self) -> None:
        # None: all reports are empty.
        self.reports: VendorReports | None = None
        # What the account may not read, by the names of the links.
        self.hidden_links: set[str] = set()
        self._exports: dict[str, Sequence[Any]] = {}

    def route(
        self, method: str, space: str, path: list[str], parameters: dict[str, str]
    ) -> tuple[Endpoint, View] | None:
        """The endpoint of a report and its view; None if the path is none of them."""
        is_history = parameters.get("showLicensesHistory") == "true"
        match method, path:
            case "GET", [] | [""]:
                return Endpoint.CAPABILITIES, lambda _: self._capabilities(space)
            case "POST", ["sales", "transactions", "async", "export"]:
                return Endpoint.TRANSACTIONS_EXPORT, lambda _: self._start(
                    "transactions", parameters
                )
            case "POST", ["licenses", "async", "export"] if is_history:
                return Endpoint.HISTORY_EXPORT, lambda _: self._start("history", parameters)
            case "GET", [*report, "async", "export", name, "status"] if name in self._exports:
                return self._of_export(report), lambda _: self._status(report, name)
            case "GET", [*report, "async", "export", name] if name in self._exports:
                body = msgspec.json.encode(self._exports[name])
                return self._of_export(report), lambda _: SimulatedResponse(body=body)
            case "GET", ["licenses"] if is_history:
                return Endpoint.HISTORY, lambda moved: self._history(parameters, moved)
            case "GET", _ if report_name := _REPORT_BY_PATH.get(tuple(path)):
                return Endpoint(report_name), lambda moved: self._page(
                    report_name, parameters, moved
                )
        return None

    @staticmethod
    def _of_export(report: list[str]) -> Endpoint:
        is_history = report == ["licenses"]
        return Endpoint.HISTORY_EXPORT_FILE if is_history else Endpoint.TRANSACTIONS_EXPORT_FILE

    def _capabilities(self, space: str) -> SimulatedResponse:
        base = f"/rest/3/reporting/developer-space/{space}"
        links = {
            name: {"href": f"{base}/{path}{{?startDate,endDate}}", "templated": True}
            for name, path in _LINKS.items()
            if name not in self.hidden_links
        }
        return SimulatedResponse.from_value({"_links": {"self": {"href": base}, **links}})

    # --- Pages --------------------------------------------------------------------------------

    def _page(self, report: str, parameters: dict[str, str], moved: int) -> SimulatedResponse:
        try:
            rows = self._rows(report, parameters)
            return self._paged(ROWS_NAME[report], rows, parameters, moved)
        except ValueError as error:
            return error_response(400, str(error))

    def _history(self, parameters: dict[str, str], moved: int) -> SimulatedResponse:
        reports = self.reports
        door = reports.switches.history_door if reports else HistoryDoor.EXPORT
        if door == HistoryDoor.REJECTED:
            return error_response(400, "showLicensesHistory: is not supported")
        is_hidden = door == HistoryDoor.TEXT and "text" not in parameters
        if door == HistoryDoor.IGNORED or is_hidden:
            rows = reports.licenses if reports else []
        else:
            rows = reports.history if reports else []
        return self._paged("licenses", self._filter_licenses(rows, parameters), parameters, moved)

    def _paged(
        self, name: str, rows: list[Record], parameters: dict[str, str], moved: int
    ) -> SimulatedResponse:
        """Raises ValueError."""
        offset, limit = int(parameters.get("offset", 0)), int(parameters.get("limit", PAGE_SIZE))
        if offset < 0 or not 1 <= limit <= PAGE_SIZE:
            raise ValueError(f"limit: must be between 1 and {PAGE_SIZE}")
        start = max(offset - moved, 0)
        links: dict[str, Any] = {"self": {"href": f"/{name}"}}
        if start + limit < len(rows):
            links["next"] = {"href": f"/rest/1.0/{name}?offset={offset + limit}"}
        page: dict[str, Any] = {"_links": links, name: rows[start : start + limit]}
        if name == "events" and self.reports and not self.reports.switches.has_nested_details:
            # As in the description of the API: lists at the top.
            page = {"query": [], "export": [], name: page[name]}
            page["next"] = [links["next"]] if "next" in links else []
        return SimulatedResponse.from_value(page)

    def _rows(self, report: str, parameters: dict[str, str]) -> list[Record]:
        """The rows of the report that the parameters choose. Raises ValueError."""
        first, last = _day(parameters.get("startDate")), _day(parameters.get("endDate"))
        since = _day(parameters.get("lastUpdated"))
        product = parameters.get("productId")
        return [
            row
            for row in (self.reports.rows[report] if self.reports else [])
            if (product is None or row["productId"] == product)
            and (first is None or _day_of(row) >= first)
            and (last is None or _day_of(row) <= last)
            and (since is None or row.get("lastUpdated", "9999") >= since)
        ]

    def _filter_licenses(self, rows: list[Record], parameters: dict[str, str]) -> list[Record]:
        """The rows that the dates and the text choose: of rows, or of the licenses they belong to,
        as the switches say."""
        text = parameters.get("text", "").lower()
        first = parameters.get("startDate", "")
        last = parameters.get("endDate", "9999")
        is_of_rows = self.reports is not None and self.reports.switches.filters_snapshots
        current = {row["appEntitlementNumber"]: row for row in rows}
        if self.reports is not None and not is_of_rows:
            current |= {row["appEntitlementNumber"]: row for row in self.reports.licenses}
        matches: list[Record] = []
        for row in rows:
            own = row if is_of_rows else current[row["appEntitlementNumber"]]
            searched = f"{row['appEntitlementNumber']} {row['appEntitlementId']} {row['cloudId']}"
            if first <= own["maintenanceStartDate"] <= last and text in searched.lower():
                matches.append(row)
        return matches

    # --- Exports ------------------------------------------------------------------------------

    def _start(self, report: str, parameters: dict[str, str]) -> SimulatedResponse:
        name = f"{report}-{abs(hash(tuple(sorted(parameters.items())))):x}"
        try:
            if report == "transactions":
                rows = self._rows(report, parameters)
            elif self.reports is None:
                rows = []
            elif self.reports.switches.history_door == HistoryDoor.REJECTED:
                return error_response(400, "showLicensesHistory: is not supported")
            else:
                has_history = self.reports.switches.history_door == HistoryDoor.EXPORT
                rows = self.reports.history if has_history else self.reports.licenses
                rows = self._filter_licenses(rows, parameters)
        except ValueError as error:
            return error_response(400, str(error))
        self._exports[name] = rows
        return self._status([report], name)

    def _status(self, report: list[str], name: str) -> SimulatedResponse:
        path = f"/reporting/{'/'.join(report)}/async/export/{name}"
        links = {"status": {"href": f"{path}/status"}, "download": {"href": path}}
        return SimulatedResponse.from_value(
            {"export": {"id": name, "status": "COMPLETED"}, "_links": links}
        )


def _day(text: str | None) -> str | None:
    """The day in a parameter. Raises ValueError."""
    return date.fromisoformat(text).isoformat() if text else None


def _day_of(row: Record) -> str:
    """The day by which a report's dates choose the row."""
    purchase: Record = row.get("purchaseDetails", {})
    day: str = purchase.get("saleDate") or row.get("eventDate") or row["date"]
    return day
