"""The vendor of the simulated apps: the values to enter when connecting, and the apps.

Everything derives from a seed, so a restarted simulator is the same vendor.
"""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID, uuid5

_NAMESPACE = UUID("5b7d1d3e-8a52-4f0a-9c53-0f6a8b0f7f10")
_APPS = [
    ("com.lumenworks.board-lens", "Board Lens for Jira", "PUBLIC"),
    ("com.lumenworks.page-lens", "Page Lens for Confluence", "PRIVATE"),
    ("com.lumenworks.queue-lens", "Queue Lens for Jira Service Management", "PUBLIC"),
]


class WithoutStart(StrEnum):
    """The report if data insights are requested without a start date."""

    COMPLETE = "complete"
    REJECTED = "rejected"
    WITHOUT_INSIGHTS = "without insights"
    WITHOUT_OLD_LICENSES = "without old licenses"


@dataclass(frozen=True)
class SimulatedApp:
    product_id: str
    key: str
    name: str
    state: str


@dataclass(frozen=True)
class SimulatedVendor:
    """A vendor with its apps. The simulator serves the licenses of the first one."""

    user_name: str
    token: str
    vendor_id: str
    developer_id: str
    apps: tuple[SimulatedApp, ...]
    # What kind of vendor it is. A large one gets 500 for each list of more than this many licenses
    # (-1: for each list). A report that is asked for data insights without a start date from July
    # 2018 on may reject the request, or quietly lack the insights or the older licenses.
    max_report_rows: int | None = None
    has_exports: bool = True
    has_date_filter: bool = True
    without_start: WithoutStart = WithoutStart.COMPLETE
    reports_totals: bool = False

    @property
    def app(self) -> SimulatedApp:
        return self.apps[0]


def create_vendor(seed: int = 1) -> SimulatedVendor:
    return SimulatedVendor(
        user_name="reports@lumenworks.example",
        token=f"simulated-token-{stable_id(seed, 'token')[-12:]}",
        vendor_id=str(1_234_566 + seed),
        developer_id=stable_id(seed, "developer"),
        apps=tuple(
            SimulatedApp(stable_id(seed, key), key, name, state) for key, name, state in _APPS
        ),
    )


def stable_id(seed: int, name: str) -> str:
    """The UUID for this seed and name, always the same."""
    return str(uuid5(_NAMESPACE, f"{seed}/{name}"))
