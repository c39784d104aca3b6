"""The simulated marketplace's endpoints, and the control endpoints that change it."""

import base64
import hashlib
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from harness.marketplace.faults import (
    AnyFault,
    Endpoint,
    Fault,
    Faults,
    SimulatedResponse,
    error_response,
)
from harness.marketplace.feed import COMMERCIAL, Feed, FeedQuery, without_insights
from harness.marketplace.report_endpoints import ReportEndpoints
from harness.marketplace.reports import VendorReports
from harness.marketplace.vendor import SimulatedVendor, WithoutStart

PAGE_SIZE = 50
# Small, so that a vendor with a few apps has several pages.
LISTING_PAGE_SIZE = 2
# The first day of data insights.
FIRST_DAY_OF_INSIGHTS = date(2018, 7, 1)
BOUNDARIES = {COMMERCIAL, "fedramp_moderate", "isolated_cloud"}
CONTROL_PREFIX = "/simulator"


@dataclass(frozen=True)
class RecordedRequest:
    """A request that the simulator received, without the credentials."""

    endpoint: Endpoint | None
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]
    status: int = 0

    @property
    def offset(self) -> int:
        offset = self.parameters.get("offset", "")
        return int(offset) if offset.isdecimal() else 0


class Marketplace:
    """The marketplace of one vendor."""

    def __init__(self, feed: Feed, vendor: SimulatedVendor, *, mixes_passes: bool = False) -> None:
        self.feed = feed
        self.vendor = vendor
        # Whether the list of always free licenses contains all others, too.
        self.mixes_passes = mixes_passes
        # Tokens that are alive and refused, with the status of the refusal.
        self.scoped_tokens: dict[str, int] = {}
        self.faults = Faults()
        # The rows of each export by its id.
        self.exports: dict[str, list[bytes]] = {}
        self.other_reports = ReportEndpoints()
        self.requests: deque[RecordedRequest] = deque(maxlen=10_000)

    # --- Changes at run time ------------------------------------------------------------------

    def replace_token(self, token: str | None = None) -> str:
        """Accept only this token from now on (None: a new random one), and return it."""
        self.vendor = replace(self.vendor, token=token or f"simulated-token-{secrets.token_hex(6)}")
        return self.vendor.token

    def expire_token(self) -> None:
        """Accept no token until there is a new one."""
        self.replace_token()

    def create_scoped_token(self, status: int = 401) -> str:
        """A new token with scopes: alive, and refused with 401 or 403 by these endpoints."""
        token = f"scoped-token-{secrets.token_hex(6)}"
        self.scoped_tokens[token] = status
        return token

    def show(self, reports: VendorReports) -> None:
        """Answer with these reports from now on, their licenses included."""
        self.feed.replace(reports.licenses)
        self.other_reports.reports = reports

    def delay_reports(self) -> None:
        """Answer with the licenses as they are now, until the reports are refreshed. Real reports
        lag behind by up to a day."""
        self.feed.hold()

    def refresh_reports(self) -> None:
        """Answer with the licenses as they are."""
        self.feed.release()

    def add_faults(self, *faults: Fault) -> None:
        """Apply these faults, in addition to the current ones."""
        self.faults.add(*faults)

    def clear_faults(self) -> None:
        """Remove all faults."""
        self.faults.clear()

    # --- Responses ----------------------------------------------------------------------------

    def respond(
        self, target: str, headers: dict[str, str], method: str = "GET"
    ) -> SimulatedResponse:
        """The response to a request, with the faults that match it."""
        parts = urlsplit(target)
        parameters = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        endpoint, view = self._route(method, parts.path, parameters)
        request = RecordedRequest(endpoint, parts.path, parameters, _without_credentials(headers))
        faults = self.faults.matching(endpoint, request.offset)
        refusal = self._refusal(headers.get("Authorization", ""))
        if refusal is None:
            response = view(sum(fault.shift(request.offset // PAGE_SIZE) for fault in faults))
        else:
            response = refusal
        for fault in faults:
            response = fault.apply(response)
        self.requests.append(replace(request, status=response.status))
        return response

    def _refusal(self, authorization: str) -> SimulatedResponse | None:
        """The response to credentials that are not accepted; None if they are."""
        if self._is_sent(authorization, self.vendor.token):
            return None
        for token, status in self.scoped_tokens.items():
            if self._is_sent(authorization, token):
                message = {"code": status, "message": "Unauthorized; scope does not match"}
                return SimulatedResponse.from_value(message, status)
        return error_response(401)

    def _is_sent(self, authorization: str, token: str) -> bool:
        credentials = f"{self.vendor.user_name}:{token}"
        expected = "Basic " + base64.b64encode(credentials.encode()).decode()
        return secrets.compare_digest(authorization.encode(), expected.encode())

    def _route(
        self, method: str, path: str, parameters: dict[str, str]
    ) -> tuple[Endpoint | None, Callable[[int], SimulatedResponse]]:
        """The endpoint, and its view, which takes the number of rows that the list has moved."""
        names = path.removeprefix("/marketplace/rest/3/").split("/")
        if names[:2] == ["reporting", "developer-space"] and len(names) > 2:
            space, *report = names[2:]
            if route := self.other_reports.route(method, space, report, parameters):
                return route if space == self.vendor.developer_id else (route[0], _forbidden)
        match method, *names:
            case ["GET", "developer-space", "vendor", number]:
                return Endpoint.VENDOR, lambda _: self._vendor(number)
            case ["GET", "product-listing", "developer-space", space]:
                return Endpoint.LISTING, lambda _: self._listing(space, parameters)
            case ["GET", "reporting", "developer-space", space, "licenses"]:
                return Endpoint.LICENSES, lambda moved: self._licenses(space, parameters, moved)
            case ["POST", "reporting", "developer-space", space, "licenses", "async", "export"]:
                return Endpoint.EXPORT, lambda _: self._start_export(space, parameters)
            case ["GET", "reporting", _, _, "licenses", "async", "export", name, "status"]:
                return Endpoint.EXPORT_STATUS, lambda _: self._export_status(name)
            case ["GET", "reporting", _, _, "licenses", "async", "export", name]:
                return Endpoint.EXPORT_FILE, lambda _: self._export_file(name)
        return None, lambda _: error_response(404, "No such endpoint.")

    def _vendor(self, number: str) -> SimulatedResponse:
        if number != self.vendor.vendor_id:
            return error_response(404, f"No developer space for vendor {number}")
        return SimulatedResponse.from_value({"developerId": self.vendor.developer_id})

    def _listing(self, space: str, parameters: dict[str, str]) -> SimulatedResponse:
        """A page of the vendor's apps. The cursor repeats the parameters of the first request."""
        if space != self.vendor.developer_id:
            return error_response(403, "You do not have permission to view this developer space.")
        try:
            is_private, start = _read_cursor(parameters.get("cursor", ""))
        except ValueError:
            return error_response(400, "cursor: is not valid")
        is_private = is_private or parameters.get("includePrivate") == "true"
        apps = [app for app in self.vendor.apps if is_private or app.state == "PUBLIC"]
        path = f"/rest/3/product-listing/developer-space/{space}?limit={PAGE_SIZE}"
        links = {"self": path}
        if start + LISTING_PAGE_SIZE < len(apps):
            links["next"] = f"{path}&cursor={_cursor(is_private, start + LISTING_PAGE_SIZE)}"
        items = [
            {
                "productId": app.product_id,
                "appKey": app.key,
                "developerId": space,
                "appName": app.name,
                "state": app.state,
                "approvalStatus": "APPROVED",
                "revision": 1,
            }
            for app in apps[start : start + LISTING_PAGE_SIZE]
        ]
        return SimulatedResponse.from_value({"links": links, "items": items})

    def _licenses(self, space: str, parameters: dict[str, str], moved: int) -> SimulatedResponse:
        if space != self.vendor.developer_id:
            return error_response(403, "You do not have permission to view this developer space.")
        try:
            query = self._query(parameters)
            offset = int(parameters.get("offset", 0))
            limit = int(parameters.get("limit", PAGE_SIZE))
        except ValueError as error:
            return error_response(400, str(error))
        if offset < 0 or not 1 <= limit <= PAGE_SIZE:
            return error_response(400, f"limit: must be between 1 and {PAGE_SIZE}")
        if parameters.get("includeAtlassianLicenses") == "true":
            query = query._replace(with_staff=True)
        rows = self.feed.matching(query)
        if query.always_free and self.mixes_passes:
            rows = [*self.feed.matching(query._replace(always_free=False)), *rows]
        if self.vendor.max_report_rows is not None and len(rows) > self.vendor.max_report_rows:
            return error_response(500, "The report is too large.")
        start = max(offset - moved, 0)
        page = rows[start : start + limit]
        if not self._shows_insights(parameters, query):
            page = [without_insights(row) for row in page]
        return SimulatedResponse(
            body=_page(
                page,
                has_more=start + limit < len(rows),
                offset=offset + limit,
                total=len(rows) if self.vendor.reports_totals else None,
            )
        )

    def _query(self, parameters: dict[str, str]) -> FeedQuery:
        """The query in the parameters. Raises ValueError for values that this vendor's marketplace
        rejects."""
        query = _query(parameters)
        if not self.vendor.has_date_filter and (query.first_day or query.last_day):
            raise ValueError("startDate: is not supported")
        if _lacks_start(parameters, query):
            if self.vendor.without_start == WithoutStart.REJECTED:
                raise ValueError("withDataInsights: requires a startDate from 2018-07-01")
            if self.vendor.without_start == WithoutStart.WITHOUT_OLD_LICENSES:
                return query._replace(first_day=FIRST_DAY_OF_INSIGHTS)
        return query

    def _shows_insights(self, parameters: dict[str, str], query: FeedQuery) -> bool:
        is_thin = self.vendor.without_start == WithoutStart.WITHOUT_INSIGHTS
        return parameters.get("withDataInsights") == "true" and not (
            is_thin and _lacks_start(parameters, query)
        )

    # --- Exports ------------------------------------------------------------------------------

    def _start_export(self, space: str, parameters: dict[str, str]) -> SimulatedResponse:
        """Begin an export. The same parameters lead to the same one; the file stays as it is."""
        if space != self.vendor.developer_id:
            return error_response(403, "You do not have permission to view this developer space.")
        if not self.vendor.has_exports:
            return error_response(404, "No such endpoint.")
        try:
            query = self._query(parameters)
        except ValueError as error:
            return error_response(400, str(error))
        if parameters.get("accept") != "json":
            return error_response(400, "accept: only json is simulated")
        name = _export_name(parameters)
        rows = self.feed.matching(query)
        if not self._shows_insights(parameters, query):
            rows = [without_insights(row) for row in rows]
        self.exports.setdefault(name, rows)
        return self._export_status(name)

    def _export_status(self, name: str) -> SimulatedResponse:
        if name not in self.exports:
            return error_response(404, "No such export.")
        # Links without the prefix /rest/3, as the marketplace has them.
        path = f"/reporting/developer-space/{self.vendor.developer_id}/licenses/async/export/{name}"
        links = {"status": {"href": f"{path}/status"}, "download": {"href": path}}
        return SimulatedResponse.from_value(
            {"export": {"id": name, "status": "COMPLETED"}, "_links": links}
        )

    def _export_file(self, name: str) -> SimulatedResponse:
        if name not in self.exports:
            return error_response(404, "Export is being processed")
        return SimulatedResponse(body=b"[" + b",".join(self.exports[name]) + b"]")

    # --- Control endpoints --------------------------------------------------------------------

    def control(self, target: str, body: bytes) -> SimulatedResponse:
        """The response to ``POST /simulator/…``, which changes the simulator at run time."""
        try:
            match urlsplit(target).path.removeprefix(CONTROL_PREFIX):
                case "/misbehave":
                    self.add_faults(msgspec.json.decode(body, type=AnyFault))
                case "/behave":
                    self.clear_faults()
                case "/replace-token":
                    return SimulatedResponse.from_value(
                        {"token": self.replace_token(body.decode().strip() or None)}
                    )
                case "/scoped-token":
                    return SimulatedResponse.from_value({"token": self.create_scoped_token()})
                case "/expire-token":
                    self.expire_token()
                case "/delay-reports":
                    self.delay_reports()
                case "/refresh-reports":
                    self.refresh_reports()
                case "/touch":
                    touch = msgspec.json.decode(body, type=_Touch)
                    self.feed.touch(touch.licenses, touch.on, **touch.fields)
                case _:
                    return error_response(404, "No such endpoint.")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return error_response(400, str(error))
        return SimulatedResponse.from_value({"faults": self.faults.current()})


def _forbidden(_: int) -> SimulatedResponse:
    return error_response(403, "You do not have permission to view this developer space.")


class _Touch(msgspec.Struct, forbid_unknown_fields=True):
    """Gives the first *licenses* licenses new values, updated *on* a day."""

    licenses: int
    on: date
    fields: dict[str, Any] = {}


def _query(parameters: dict[str, str]) -> FeedQuery:
    """The query in the parameters. Raises ValueError for values that the marketplace rejects;
    ignores unknown parameters, as it does."""
    boundary = parameters.get("cloudComplianceBoundaries", COMMERCIAL)
    if boundary not in BOUNDARIES:
        raise ValueError(f"cloudComplianceBoundaries: must be one of {sorted(BOUNDARIES)}")
    return FeedQuery(
        parameters.get("productId"),
        _day(parameters.get("lastUpdated")),
        parameters.get("showLifeTimeFreeLicenses") == "true",
        boundary,
        _day(parameters.get("startDate")),
        _day(parameters.get("endDate")),
    )


def _lacks_start(parameters: dict[str, str], query: FeedQuery) -> bool:
    """Whether data insights are requested without a start date from their first day on."""
    starts = query.first_day is not None and query.first_day >= FIRST_DAY_OF_INSIGHTS
    return parameters.get("withDataInsights") == "true" and not starts


def _day(text: str | None) -> date | None:
    return date.fromisoformat(text) if text else None


def _export_name(parameters: dict[str, str]) -> str:
    encoded = msgspec.json.encode(parameters, order="sorted")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def _page(rows: list[bytes], *, has_more: bool, offset: int, total: int | None) -> bytes:
    """A page of licenses. Only the presence of the next link is reliable, not its target."""
    unreliable = f"/rest/1.0/reporting/licenses?offset={offset}".encode()
    links = b'{"self":{"href":"/licenses"}'
    if has_more:
        links += b',"next":{"href":"' + unreliable + b'"}'
    count = b"" if total is None else b',"totalCount":' + str(total).encode()
    return b'{"_links":' + links + b"}" + count + b',"licenses":[' + b",".join(rows) + b"]}"


def _cursor(is_private: bool, start: int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([is_private, start])).decode()


def _read_cursor(cursor: str) -> tuple[bool, int]:
    """Whether private apps are listed, and the start index. Raises ValueError."""
    if not cursor:
        return False, 0
    return msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=tuple[bool, int])


def _without_credentials(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "Authorization"}
