"""What the simulated marketplace answers at each address, and how it is changed meanwhile."""

import base64
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from marketplace.simulator.faults import (
    AnyFault,
    Endpoint,
    Fault,
    Faults,
    SimulatedResponse,
    error_response,
)
from marketplace.simulator.feed import COMMERCIAL, Feed, FeedQuery, without_insights
from marketplace.simulator.vendor import SimulatedVendor

PAGE_SIZE = 50
# Small, so that a vendor with a handful of apps has several pages of them.
LISTING_PAGE_SIZE = 2
BOUNDARIES = {COMMERCIAL, "fedramp_moderate", "isolated_cloud"}
CONTROL_PREFIX = "/simulator"


@dataclass(frozen=True)
class RecordedRequest:
    """A request as the simulator got it; the credentials are not kept."""

    endpoint: Endpoint | None
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]
    status: int = 0

    @property
    def offset(self) -> int:
        given = self.parameters.get("offset", "")
        return int(given) if given.isdecimal() else 0


class Marketplace:
    """The addresses of one vendor."""

    def __init__(self, feed: Feed, vendor: SimulatedVendor, *, mixes_passes: bool = False) -> None:
        self.feed = feed
        self.vendor = vendor
        # Whether always free licenses come with all the others instead of alone.
        self.mixes_passes = mixes_passes
        self.faults = Faults()
        self.asked: deque[RecordedRequest] = deque(maxlen=10_000)

    # --- Changing it while it runs ------------------------------------------------------------

    def replace_token(self, token: str | None = None) -> str:
        """Accept this token (None: a new random one) and no longer the one before."""
        self.vendor = replace(self.vendor, token=token or f"simulated-token-{secrets.token_hex(6)}")
        return self.vendor.token

    def add_faults(self, *faults: Fault) -> None:
        """Have these faults befall requests, on top of those that already do."""
        self.faults.add(*faults)

    def clear_faults(self) -> None:
        """Lift all faults."""
        self.faults.clear()

    # --- Answering ----------------------------------------------------------------------------

    def answer(self, target: str, headers: dict[str, str]) -> SimulatedResponse:
        parts = urlsplit(target)
        given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        endpoint, reply = self._address(parts.path, given)
        asked = RecordedRequest(endpoint, parts.path, given, _without_credentials(headers))
        faults = self.faults.matching(endpoint, asked.offset)
        if self._knows(headers.get("Authorization", "")):
            answer = reply(sum(fault.shift(asked.offset // PAGE_SIZE) for fault in faults))
        else:
            answer = error_response(401)
        for fault in faults:
            answer = fault.befall(answer)
        self.asked.append(replace(asked, status=answer.status))
        return answer

    def _knows(self, authorization: str) -> bool:
        known = f"{self.vendor.user_name}:{self.vendor.token}"
        expected = "Basic " + base64.b64encode(known.encode()).decode()
        return secrets.compare_digest(authorization.encode(), expected.encode())

    def _address(
        self, path: str, given: dict[str, str]
    ) -> tuple[Endpoint | None, Callable[[int], SimulatedResponse]]:
        """Which address this is, and what it answers with a list that has moved by some rows."""
        match path.removeprefix("/marketplace/rest/3/").split("/"):
            case ["developer-space", "vendor", number]:
                return Endpoint.VENDOR, lambda _: self._vendor(number)
            case ["product-listing", "developer-space", space]:
                return Endpoint.LISTING, lambda _: self._listing(space, given)
            case ["reporting", "developer-space", space, "licenses"]:
                return Endpoint.LICENSES, lambda moved: self._licenses(space, given, moved)
        return None, lambda _: error_response(404, "No such address.")

    def _vendor(self, number: str) -> SimulatedResponse:
        if number != self.vendor.vendor_id:
            return error_response(404, f"No developer space for vendor {number}")
        return SimulatedResponse.of({"developerId": self.vendor.developer_id})

    def _listing(self, space: str, given: dict[str, str]) -> SimulatedResponse:
        """A page of the vendor's apps; its cursor carries what the first request asked for."""
        if space != self.vendor.developer_id:
            return error_response(403, "You do not have permission to view this developer space.")
        try:
            is_private, start = _read_cursor(given.get("cursor", ""))
        except ValueError:
            return error_response(400, "cursor: is not one of ours")
        is_private = is_private or given.get("includePrivate") == "true"
        apps = [app for app in self.vendor.apps if is_private or app.state == "PUBLIC"]
        own = f"/rest/3/product-listing/developer-space/{space}?limit={PAGE_SIZE}"
        links = {"self": own}
        if start + LISTING_PAGE_SIZE < len(apps):
            links["next"] = f"{own}&cursor={_cursor(is_private, start + LISTING_PAGE_SIZE)}"
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
        return SimulatedResponse.of({"links": links, "items": items})

    def _licenses(self, space: str, given: dict[str, str], moved: int) -> SimulatedResponse:
        if space != self.vendor.developer_id:
            return error_response(403, "You do not have permission to view this developer space.")
        try:
            query = _query(given)
            offset, limit = int(given.get("offset", 0)), int(given.get("limit", PAGE_SIZE))
        except ValueError as error:
            return error_response(400, str(error))
        if offset < 0 or not 1 <= limit <= PAGE_SIZE:
            return error_response(400, f"limit: must be between 1 and {PAGE_SIZE}")
        rows = self.feed.matching(query)
        if query.always_free and self.mixes_passes:
            rows = [*self.feed.matching(query._replace(always_free=False)), *rows]
        start = max(offset - moved, 0)
        page = rows[start : start + limit]
        if given.get("withDataInsights") != "true":
            page = [without_insights(row) for row in page]
        return SimulatedResponse(
            body=_page(page, has_more=start + limit < len(rows), offset=offset + limit)
        )

    # --- Being told what to do ----------------------------------------------------------------

    def control(self, target: str, body: bytes) -> SimulatedResponse:
        """``POST /simulator/…``: what a person or another process changes while it runs."""
        try:
            match urlsplit(target).path.removeprefix(CONTROL_PREFIX):
                case "/misbehave":
                    self.add_faults(msgspec.json.decode(body, type=AnyFault))
                case "/behave":
                    self.clear_faults()
                case "/replace-token":
                    return SimulatedResponse.of(
                        {"token": self.replace_token(body.decode().strip() or None)}
                    )
                case "/touch":
                    told = msgspec.json.decode(body, type=_Touch)
                    self.feed.touch(told.licenses, told.on, **told.fields)
                case _:
                    return error_response(404, "No such address.")
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return error_response(400, str(error))
        return SimulatedResponse.of({"faults": self.faults.current()})


class _Touch(msgspec.Struct, forbid_unknown_fields=True):
    """The first so many licenses get new values, as of a day."""

    licenses: int
    on: date
    fields: dict[str, Any] = {}


def _query(given: dict[str, str]) -> FeedQuery:
    """What the parameters ask for; ValueError for what the marketplace refuses. Unknown ones are
    ignored, as there."""
    boundary = given.get("cloudComplianceBoundaries", COMMERCIAL)
    if boundary not in BOUNDARIES:
        raise ValueError(f"cloudComplianceBoundaries: must be one of {sorted(BOUNDARIES)}")
    since = given.get("lastUpdated")
    return FeedQuery(
        given.get("productId"),
        date.fromisoformat(since) if since else None,
        given.get("showLifeTimeFreeLicenses") == "true",
        boundary,
    )


def _page(rows: list[bytes], *, has_more: bool, offset: int) -> bytes:
    """A page of licenses. That there is a next one is true, where it is said to be is not."""
    unreliable = f"/rest/1.0/reporting/licenses?offset={offset}".encode()
    links = b'{"self":{"href":"/licenses"}'
    if has_more:
        links += b',"next":{"href":"' + unreliable + b'"}'
    return b'{"_links":' + links + b'},"licenses":[' + b",".join(rows) + b"]}"


def _cursor(is_private: bool, start: int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([is_private, start])).decode()


def _read_cursor(cursor: str) -> tuple[bool, int]:
    """Whether private apps are listed, and from which place on; ValueError for a broken cursor."""
    if not cursor:
        return False, 0
    return msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=tuple[bool, int])


def _without_credentials(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "Authorization"}
