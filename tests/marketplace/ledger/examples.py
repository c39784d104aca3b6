"""The worked examples of the license ledger: what the marketplace shows of invented customers, and
which events follow.

A row is written as ``seen | type status start→end, then further fields``. C and E are COMMERCIAL
and EVALUATION; a, i, and x are active, inactive, and cancelled; lms and les are
latestMaintenanceStartDate and latestEvaluationStartDate. Days are of 2026 unless they say so.
"""

from dataclasses import dataclass
from datetime import date
from typing import Any

from marketplace.ledger.inputs import FeedbackEntry, TransactionLine

_TYPES = {"C": "COMMERCIAL", "E": "EVALUATION"}
_STATUS = {"a": "active", "i": "inactive", "x": "cancelled"}
_FIELDS = {
    "lms": "latestMaintenanceStartDate",
    "les": "latestEvaluationStartDate",
    "cloud": "cloudId",
    "edition": "appEdition",
    "trying": "upgradeEvaluatingEdition",
    "uess": "upgradeEvaluationStartDate",
    "grace": "inGracePeriod",
    "dunning": "invoiceDunningReason",
    "sandbox": "installedOnSandbox",
    "trial": "evaluationLicense",
    "sold": "evaluationSaleDate",
    "account": "transactionAccountId",
}
_DAYS = {"lms", "les", "uess", "sold"}
LOOK = date(2026, 10, 15)


def day(text: str) -> date:
    """ "03-02" is in 2026, and "25-03-02" in 2025."""
    return date.fromisoformat(f"20{text}" if len(text) > 5 else f"2026-{text}")


@dataclass(frozen=True)
class Row:
    """A license's record as of a day: the fields that the marketplace sends."""

    seen: date
    fields: dict[str, Any]


def row(text: str) -> Row:
    """``04-01 C a 03-31→04-30 25 lms=03-31``"""
    on, type, status, period, *others = text.split()
    start, _, end = period.partition("→")
    fields = {
        "licenseType": _TYPES.get(type, type),
        "status": _STATUS[status],
        "maintenanceEndDate": day(end).isoformat(),
        "cloudId": "site",
        "hosting": "Cloud",
    }
    if start:
        fields["maintenanceStartDate"] = day(start).isoformat()
    for other in others:
        name, is_named, value = other.partition("=")
        if not is_named:
            fields["tier"] = f"{name} Users"
        else:
            fields[_FIELDS[name]] = day(value).isoformat() if name in _DAYS else value
    return Row(day(on), fields)


def rows(*texts: str) -> tuple[Row, ...]:
    return tuple(map(row, texts))


@dataclass(frozen=True)
class ExampleLicense:
    """What the marketplace shows of one license, and its events as (day, type, some details)."""

    rows: tuple[Row, ...]
    events: list[tuple[Any, ...]]
    transactions: tuple[TransactionLine, ...] = ()
    feedback: tuple[FeedbackEntry, ...] = ()
    listings: tuple[tuple[date, bool], ...] = ()


@dataclass(frozen=True)
class Example:
    number: int
    story: str
    licenses: dict[str, ExampleLicense]
    look: date = LOOK
    has_history: bool = True

    def __str__(self) -> str:
        return f"{self.number} {self.story}"


def example(
    number: int,
    story: str,
    *texts: str,
    events: list[tuple[Any, ...]],
    look: str = "10-15",
    has_history: bool = True,
    **inputs: Any,
) -> Example:
    """An example of a single license, A."""
    license = ExampleLicense(rows(*texts), events, **inputs)
    return Example(number, story, {"A": license}, day(look), has_history)


def line(
    sale_type: str, sold: str, period: str, tier: int = 0, amount: float = 100.0, **fields: Any
) -> TransactionLine:
    start, _, end = period.partition("→")
    values = {
        "saleType": sale_type,
        "tier": f"{tier} Users",
        "maintenanceStartDate": day(start).isoformat(),
        "maintenanceEndDate": day(end).isoformat(),
        "purchasePrice": amount,
        **fields,
    }
    return TransactionLine(f"AT-{sale_type}-{sold}-{period}", "1", day(sold), values)


_LEFT = ("08-01 C a 08-01→09-01", "08-12 C x 08-01→09-01", "09-02 C i 08-01→09-01")
_STARTED = ("03-01", "evaluation_started")
_BOUGHT = ("03-31", "evaluation_bought", {"seats": 25})
_ANNUAL = "25-09-01 C a 25-09-01→26-09-01"

EXAMPLES = [
    example(
        1,
        "Brindle Tea buys its trial",
        "03-02 E a 03-01→03-31 les=03-01",
        "04-01 C a 03-31→04-30 25 lms=03-31",
        events=[_STARTED, _BOUGHT],
        look="05-10",
    ),
    example(
        2,
        "the paid row keeps the trial's start",
        "03-02 E a 03-01→03-31 les=03-01",
        "04-01 C a 03-01→04-30 25 lms=03-31",
        events=[_STARTED, _BOUGHT],
        look="05-10",
    ),
    example(
        3,
        "nothing but the end moves",
        "03-02 E a 03-01→03-31 les=03-01",
        "04-01 C a 03-01→04-30 25",
        events=[_STARTED, _BOUGHT],
        look="05-10",
    ),
    example(
        4,
        "Moss Lane Optics extends and leaves",
        "05-02 E a 05-01→05-31",
        "05-28 E a 05-01→06-30",
        "07-01 E i 05-01→06-30",
        events=[
            ("05-01", "evaluation_started"),
            ("05-28", "evaluation_extended", {"days": 30}),
            ("06-30", "evaluation_expired"),
        ],
    ),
    example(
        5,
        "a trial is aligned to the billing day",
        "05-02 E a 05-01→05-31",
        "05-03 E a 05-01→06-04",
        events=[("05-01", "evaluation_started")],
        look="06-10",
    ),
    example(
        6,
        "a cancelled trial lingers",
        "05-02 E a 05-01→05-31",
        "05-12 E x 05-01→05-31",
        events=[
            ("05-01", "evaluation_started"),
            ("05-12", "cancelled"),
            ("05-31", "evaluation_expired"),
        ],
    ),
    example(
        7,
        "two trials of one license",
        "01-06 E a 01-05→02-04",
        "02-05 E i 01-05→02-04",
        "08-11 E a 08-10→09-09 les=08-10",
        events=[
            ("01-05", "evaluation_started"),
            ("02-04", "evaluation_expired"),
            ("08-10", "evaluation_started"),
        ],
        look="08-20",
    ),
    example(
        8,
        "Otter & Pine pays monthly",
        "06-01 C a 06-01→07-01 12",
        "07-01 C a 07-01→08-01 12",
        "08-01 C a 08-01→09-01 12",
        "09-01 C a 09-01→10-01 12",
        events=[
            ("06-01", "purchased"),
            ("07-01", "renewed", {"until": "2026-08-01", "gap_days": 0, "periods": 1}),
            ("08-01", "renewed"),
            ("09-01", "renewed"),
        ],
        look="09-15",
    ),
    example(
        9,
        "Tallow & Reed renews three weeks early",
        "25-09-10 C a 25-09-10→26-09-10 250",
        "08-21 C a 26-09-10→27-09-10 250",
        events=[("25-09-10", "purchased"), ("09-10", "renewed", {"until": "2027-09-10"})],
    ),
    example(
        10,
        "seats in mid-term",
        "01-15 C a 01-15→27-01-15 500",
        "06-03 C a 01-15→27-01-15 600",
        events=[("01-15", "purchased"), ("06-03", "seats_up", {"from": 500, "to": 600})],
    ),
    example(
        11,
        "fewer seats with the renewal",
        "25-09-10 C a 25-09-10→26-09-10 100",
        "09-12 C a 26-09-10→27-09-10 75",
        events=[("25-09-10", "purchased"), ("09-10", "renewed"), ("09-10", "seats_down")],
    ),
    example(
        12,
        "an edition on trial",
        "02-01 C a 02-01→27-02-01 edition=Standard",
        "05-05 C a 02-01→27-02-01 edition=Standard uess=05-04 trying=Advanced",
        "06-04 C a 02-01→27-02-01 edition=Advanced",
        events=[
            ("02-01", "purchased"),
            ("05-04", "edition_trial_started", {"edition": "Advanced"}),
            ("06-04", "edition_up", {"from": "Standard", "to": "Advanced"}),
        ],
    ),
    example(
        13,
        "monthly to annual",
        "07-01 C a 07-01→08-01 lms=07-01",
        "08-01 C a 08-01→27-08-01 lms=08-01",
        events=[
            ("07-01", "purchased"),
            ("08-01", "billing_changed", {"from": "monthly", "to": "annual"}),
            ("08-01", "renewed"),
        ],
    ),
    example(
        14,
        "nobody looked for months",
        "03-01 C a 03-01→04-01",
        "08-05 C a 08-01→09-01",
        events=[
            ("03-01", "first_seen"),
            ("04-01", "renewed", {"unseen": True, "gap_days": 122, "periods": 5}),
        ],
        look="09-10",
        has_history=False,
    ),
    example(
        15,
        "left",
        *_LEFT,
        events=[
            ("08-01", "purchased"),
            ("08-12", "cancelled"),
            ("09-01", "churned"),
        ],
    ),
    example(
        16,
        "Gull Harbour pays late",
        _ANNUAL,
        "09-02 C a 25-09-01→26-09-01 grace=Yes",
        "09-13 C a 26-09-01→27-09-01 grace=No",
        events=[
            ("25-09-01", "purchased"),
            ("09-01", "renewed"),
            ("09-02", "payment_failed"),
            ("09-13", "payment_recovered"),
        ],
    ),
    example(
        17,
        "inactive at once, and paid within grace",
        _ANNUAL,
        "09-02 C i 25-09-01→26-09-01",
        "09-20 C a 26-09-01→27-09-01",
        events=[
            ("25-09-01", "purchased"),
            ("09-01", "renewed"),
        ],
    ),
    example(
        18,
        "Gull Harbour before it pays",
        _ANNUAL,
        "09-02 C a 25-09-01→26-09-01 grace=Yes",
        events=[("25-09-01", "purchased"), ("09-02", "payment_failed")],
        look="09-21",
    ),
    example(
        19,
        "comes back after three months",
        "01-01 C a 01-01→02-01",
        "02-02 C i 01-01→02-01",
        "05-10 C a 05-10→06-10",
        events=[("01-01", "purchased"), ("02-01", "churned"), ("05-10", "won_back")],
        look="06-15",
    ),
    example(
        20,
        "money back",
        "05-01 C a 05-01→27-05-01",
        "05-19 C i 05-01→27-05-01",
        events=[("05-01", "purchased"), ("05-19", "churned"), ("05-19", "ended_early")],
    ),
    example(
        21,
        "the migration of billing",
        "25-03-01 STARTER a 25-03-01→26-03-01",
        "25-04-02 FREE a 25-03-01→26-03-01",
        events=[("25-03-01", "free_started")],
    ),
    example(
        22,
        "a legacy free license remains",
        "25-11-01 C a 25-11-01→26-11-01 60",
        "07-02 LEGACY_FREE a 25-11-01→26-11-01 60",
        events=[("25-11-01", "purchased"), ("07-02", "became_free")],
    ),
    example(
        23,
        "another site, the same license",
        "03-01 C a 03-01→27-03-01 cloud=S1",
        "07-02 C a 03-01→27-03-01 cloud=S2",
        events=[
            ("03-01", "purchased"),
            ("07-02", "moved_site", {"from_site": "S1", "to_site": "S2"}),
        ],
    ),
    example(
        24,
        "twins, and the tiers of a sandbox",
        "03-01 C a 03-01→27-03-01 7 sandbox=Yes",
        "03-01 C a 03-01→27-03-01 7",
        "04-01 C a 03-01→27-03-01 9 sandbox=Yes",
        "05-01 C a 03-01→27-03-01 8 sandbox=Yes",
        events=[("03-01", "purchased")],
    ),
    example(
        25,
        "cancels, and thinks again",
        "03-01 C a 03-01→27-03-01",
        "04-01 C x 03-01→27-03-01",
        "04-09 C a 03-01→27-03-01",
        events=[("03-01", "purchased"), ("04-01", "cancelled"), ("04-09", "resumed")],
    ),
    Example(
        26,
        "Wren Metals buys its trial as another license",
        {
            "A": ExampleLicense(
                rows("03-02 E a 03-01→03-31 cloud=S9", "04-01 E i 03-01→03-31 cloud=S9"),
                [_STARTED, ("03-28", "evaluation_bought", {"license": "B"})],
            ),
            "B": ExampleLicense(rows("03-28 C a 03-28→27-03-28 cloud=S9 trial=A"), []),
        },
    ),
    Example(
        27,
        "the same without a name of the trial",
        {
            "A": ExampleLicense(
                rows("03-02 E a 03-01→03-31 cloud=S9", "04-01 E i 03-01→03-31 cloud=S9"),
                [_STARTED, ("04-20", "evaluation_bought", {"license": "B"})],
            ),
            "B": ExampleLicense(rows("04-20 C a 04-20→27-04-20 cloud=S9"), []),
        },
    ),
    Example(
        28,
        "a purchaser moves to another site with another license",
        {
            "A": ExampleLicense(
                rows(
                    "25-11-01 C a 25-11-01→26-11-01 60 cloud=S1 account=T1",
                    "07-02 LEGACY_FREE a 25-11-01→26-11-01 60 cloud=S1 account=T1",
                ),
                [
                    ("25-11-01", "purchased"),
                    ("07-02", "became_free"),
                    ("07-02", "moved_site", {"license": "B", "direction": "to"}),
                ],
            ),
            "B": ExampleLicense(
                rows("06-20 C a 06-20→27-06-20 60 cloud=S2 account=T1"),
                [("07-02", "moved_site", {"license": "A", "direction": "from"})],
            ),
        },
    ),
    example(
        29,
        "an upgrade in transactions is a refund and a sale",
        "03-01 C a 03-01→27-03-01 500",
        "06-03 C a 03-01→27-03-01 600",
        events=[("03-01", "purchased"), ("06-03", "seats_up")],
        transactions=(
            line("New", "03-01", "03-01→27-03-01", 500, 4000),
            line("Refund", "06-03", "03-01→27-03-01", 500, -4000),
            line("Upgrade", "06-03", "03-01→27-03-01", 600, 4800),
        ),
    ),
    example(
        30,
        "money back in transactions",
        "05-01 C a 05-01→27-05-01",
        "05-19 C i 05-01→27-05-01",
        events=[
            ("05-01", "purchased"),
            ("05-19", "churned", {"reason": "refund"}),
            ("05-19", "ended_early"),
            ("05-19", "refunded", {"reason": "not needed"}),
        ],
        transactions=(
            line("New", "05-01", "05-01→27-05-01", 10, 900),
            line("Refund", "05-19", "05-01→27-05-01", 10, -900, refundReason="not needed"),
        ),
    ),
    example(
        31,
        "why",
        *_LEFT,
        events=[
            ("08-01", "purchased"),
            ("08-12", "cancelled", {"reason": "not-meeting-needs"}),
            ("08-12", "feedback", {"type": "unsubscribe"}),
            ("09-01", "churned", {"reason": "not-meeting-needs"}),
        ],
        feedback=(FeedbackEntry(day("08-12"), "unsubscribe", "not-meeting-needs"),),
    ),
    example(
        32,
        "users added in mid-month, and a renewal of no days",
        "07-01 C a 07-01→08-01 20",
        "08-01 C a 08-01→09-01 20",
        events=[("07-01", "purchased"), ("08-01", "renewed")],
        look="09-05",
        transactions=(
            line("New", "07-01", "07-01→08-01", billingPeriod="Monthly"),
            line("Renewal", "07-12", "07-12→08-01", billingPeriod="Annual", proratedDetails=[1]),
            line("Renewal", "08-01", "08-01→08-01", billingPeriod="Annual"),
            line("Renewal", "08-01", "08-01→09-01", billingPeriod="Monthly"),
        ),
    ),
    example(
        33,
        "left the reports and returned",
        "03-01 C a 03-01→27-03-01",
        events=[("03-01", "purchased"), ("06-07", "unlisted"), ("06-21", "relisted")],
        listings=((day("06-07"), False), (day("06-21"), True)),
    ),
]
