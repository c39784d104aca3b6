"""The reports of a vendor, printed from the lives of its licenses.

Every place in which the real reports have people has a planted one here, whose name a search of
the service must not find.
"""

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from functools import cached_property
from itertools import cycle, islice
from random import Random

from harness.marketplace.lives import (
    EVALUATION,
    PAID,
    Life,
    Line,
    Snapshot,
    Truth,
    generate_lives,
)
from harness.marketplace.records import (
    MISSING,
    ODDITIES,
    Record,
    Site,
    add_oddity,
    create_license,
)
from harness.marketplace.switches import USUAL, EventDate, Name, RecordCreated, Start, Switches
from harness.marketplace.vendor import SimulatedApp, SimulatedVendor, stable_id

# One in this many customers has an odd license.
ODD_EVERY = 10
# In each name, address, and message of a person.
PLANTED = "quillzander"
# The truths that each report of the metrics counts.
METRICS = {"churn": "churned", "conversion": "evaluation_bought", "renewal": "renewed"}
REPORTS = ("transactions", "feedback", *METRICS)


class VendorReports:
    """What a vendor's reports show on a day, of these lives. *seed* names its licenses."""

    def __init__(
        self,
        app: SimulatedApp,
        lives: Iterable[Life],
        today: date,
        *,
        seed: int = 1,
        switches: Switches = USUAL,
    ) -> None:
        self.app, self._lives, self.today, self.seed = app, lives, today, seed
        self.switches = switches

    @cached_property
    def lives(self) -> list[Life]:
        return list(self._lives)

    def truth(self) -> dict[str, list[Truth]]:
        """What a ledger has to find by today, by the Cloud ID of the customer's first site."""
        return {
            life.sites[0].cloud_id: sorted(truth for truth in life.truth if truth.on <= self.today)
            for life in self.lives
        }

    @cached_property
    def licenses(self) -> list[Record]:
        """A row for each license, as it is now."""
        return [
            self.license(life, snapshot)
            for life in self.lives
            for snapshot in _latest(life, self.today).values()
        ]

    def license(self, life: Life, snapshot: Snapshot) -> Record:
        return print_license(self.app, self.seed, life, snapshot)

    @cached_property
    def history(self) -> list[Record]:
        """A row for each state that a license had, with the day on which it was written."""
        rows = [
            {**self.license(life, snapshot), **self._created(snapshot)}
            for life in self.lives
            for snapshot in self._shown_snapshots(life)
        ]
        if self.switches.repeats_history:
            rows += rows[::3]
        if self.switches.shuffles_history:
            Random(self.seed).shuffle(rows)
        return rows

    def _shown_snapshots(self, life: Life) -> Iterator[Snapshot]:
        latest = _latest(life, self.today)
        for place, snapshot in enumerate(life.snapshots):
            is_left_out = self.switches.history_lacks_rows and place % 2 and place > 1
            if snapshot.on <= self.today and (
                not is_left_out or latest[snapshot.license] is snapshot
            ):
                yield snapshot

    def _created(self, snapshot: Snapshot) -> Record:
        match self.switches.record_created:
            case RecordCreated.INSTANT:
                return {"recordCreatedDate": f"{snapshot.on}T04:10:00.000Z"}
            case RecordCreated.DAY:
                return {"recordCreatedDate": f"{snapshot.on}"}
        return {}

    # --- Other reports ------------------------------------------------------------------------

    @cached_property
    def rows(self) -> dict[str, list[Record]]:
        """The rows of each of ``REPORTS``."""
        transactions = [
            self._transaction(life, place, line)
            for life in self.lives
            for place, line in enumerate(life.lines)
            if self._is_out(life, line.on)
        ]
        feedback = [
            self._feedback(life, answer.on, place)
            for life in self.lives
            for place, answer in enumerate(life.answers)
            if self._is_out(life, answer.on)
        ]
        details = {
            metric: [
                self._detail(life, truth)
                for life in self.lives
                for truth in life.truth
                if _counts(truth.event, event, life)
                and truth.on <= self.today
                and not life.is_sandbox
            ]
            for metric, event in METRICS.items()
        }
        return {"transactions": transactions, "feedback": feedback, **details}

    def _is_out(self, life: Life, on: date) -> bool:
        """Whether transactions and feedback of the day are in the reports."""
        return on + timedelta(days=life.switches.report_delay) <= self.today

    def _transaction(self, life: Life, place: int, line: Line) -> Record:
        site = life.sites[line.place]
        order = f"IN-{life.number:03}-{line.on:%y%m%d}"
        purchase: Record = {
            "saleDate": f"{line.on}",
            "licenseType": PAID,
            "hosting": "Cloud",
            "billingPeriod": "Annual" if line.months >= 12 else "Monthly",
            "tier": f"{line.seats} Users",
            "saleType": line.sale_type,
            "maintenanceStartDate": f"{line.start}",
            "maintenanceEndDate": f"{line.end}",
            "purchasePrice": line.price,
            "vendorAmount": round(line.price * 0.85, 2),
            "partnerDiscountAmount": 0,
            "changeInTier": "Not Applicable",
            "oldTier": f"{line.old_seats} Users" if line.old_seats else "",
            "parentProductName": "Jira",
        }
        if line.reason:
            purchase["refundReason"] = line.reason
        if line.is_prorated:
            purchase["proratedDetails"] = [{"addedUsers": line.seats, "date": f"{line.on}"}]
        return {
            "transactionId": order,
            "transactionLineItemId": f"{place}",
            **license_names(self.seed, life, line.license),
            "cloudId": site.cloud_id,
            "productId": self.app.product_id,
            "addonKey": self.app.key,
            "addonName": self.app.name,
            "hosting": "Cloud",
            "appEdition": "Standard",
            "licenseLevel": "single-instance",
            "lastUpdated": f"{line.on}",
            "paymentStatus": life.switches.payment_status,
            "customerDetails": {
                # Contacts fill this field, too.
                "company": person(site)["email"],
                "country": site.country,
                "region": site.region,
                "technicalContact": person(site),
                "billingContact": person(site),
            },
            "partnerDetails": {"partnerName": PLANTED, "billingContact": person(site)},
            "purchaseDetails": purchase,
        }

    def _feedback(self, life: Life, on: date, place: int) -> Record:
        answer = life.answers[place]
        site = life.sites[answer.place]
        names = license_names(self.seed, life, answer.license)
        row = {
            "addonKey": self.app.key,
            "productId": self.app.product_id,
            "addonVersion": "3.2.1",
            "hosting": "Cloud",
            "date": f"{on}",
            "feedbackType": answer.type,
            "reasonKey": answer.reason,
            "reason": f"The reason was: {answer.reason}.",
            "message": f"Ask {PLANTED}, or call me.",
            "email": person(site)["email"],
            "fullName": PLANTED,
        }
        match life.switches.feedback_name:
            case Name.ENTITLEMENT:
                return {**row, **names, "cloudId": site.cloud_id}
            case Name.LICENSE:
                return {**row, "licenseId": names["licenseId"]}
        return row

    def _detail(self, life: Life, truth: Truth) -> Record:
        """A row of the metrics' details."""
        snapshot = next(
            snapshot for snapshot in reversed(life.snapshots) if snapshot.on <= truth.on
        )
        site = life.sites[snapshot.place]
        days = {EventDate.END: 0, EventDate.NEXT_DAY: 1, EventDate.GRACE: 1}
        moved = days[life.switches.event_date] if truth.event == "churned" else 0
        license = {
            **license_names(self.seed, life, snapshot.license),
            "cloudId": site.cloud_id,
            "maintenanceStartDate": f"{snapshot.start}",
            "maintenanceEndDate": f"{snapshot.end}",
            "monthsValid": life.months,
        }
        row = {
            "addonKey": self.app.key,
            "productId": self.app.product_id,
            "addonName": self.app.name,
            "hosting": "Data center" if life.number % 50 == 49 else "Cloud",
            "appEdition": snapshot.edition,
            "lastUpdated": f"{truth.on}",
            "eventDate": f"{truth.on + timedelta(days=moved)}",
            "customerDetails": {"technicalContact": person(site)},
        }
        if life.switches.has_nested_details:
            return {**row, "licenseDetails": license}
        return {**row, "licenseDetails": None, **license}


def _counts(event: str, counted: str, life: Life) -> bool:
    """Whether the marketplace counts what happened as an event of a metric."""
    is_free = event == "became_free" and life.switches.counts_free_as_churn
    return event == counted or (is_free and counted == METRICS["churn"])


def print_license(app: SimulatedApp, seed: int, life: Life, snapshot: Snapshot) -> Record:
    """The row of a license in one of its states."""
    site, switches = life.sites[snapshot.place], life.switches
    chance = Random(f"license {seed}/{life.number}")
    row = create_license(app, site, chance, snapshot.on)
    is_trial = snapshot.type == EVALUATION
    row |= {
        **license_names(seed, life, snapshot.license),
        **_dates(snapshot, switches, is_paid=not is_trial),
        "hostEntitlementId": stable_id(seed, f"host/{life.number}/{snapshot.place}"),
        "lastUpdated": f"{snapshot.on}",
        "licenseType": switches.evaluation_type if is_trial else snapshot.type,
        "status": snapshot.status,
        "tier": "Evaluation" if is_trial else f"{snapshot.seats} Users",
        "evaluationOpportunitySize": f"{snapshot.seats}" if is_trial else "NA",
        "appEdition": snapshot.edition,
        "installedOnSandbox": "Yes" if life.is_sandbox else "No",
        "inGracePeriod": "Yes" if snapshot.is_overdue else "No",
        "parentProductBillingCycle": "ANNUAL" if life.months >= 12 else "MONTHLY",
        "transactionAccountId": stable_id(seed, f"account/{life.number}"),
        "contactDetails": {
            "technicalContact": person(site),
            "billingContact": person(site),
            # Wherever the customer moves.
            "company": life.sites[0].company,
            "country": life.sites[0].country,
            "region": site.region,
        },
        "partnerDetails": {"billingContact": person(site)},
    }
    if snapshot.tries_since is not None and switches.names_edition_trial:
        row["licenseType"] = "UPGRADE_EVALUATION"
        row["latestEvaluationStartDate"] = f"{snapshot.tries_since}"
    elif snapshot.tries_since is not None:
        row["upgradeEvaluationStartDate"] = f"{snapshot.tries_since}"
        row["upgradeEvaluatingEdition"] = "Advanced"
    if not switches.shares_account:
        row["transactionAccountId"] = MISSING
    if switches.names_trial_license and snapshot.trial_license is not None:
        row["evaluationLicense"] = license_names(seed, life, snapshot.trial_license)[
            "appEntitlementId"
        ]
    return {name: value for name, value in row.items() if value is not MISSING}


def _dates(snapshot: Snapshot, switches: Switches, *, is_paid: bool) -> Record:
    """The dates of a row, in the form that the marketplace has."""
    since = snapshot.since or snapshot.start
    starts = {
        Start.CYCLE: snapshot.start,
        Start.ANNIVERSARY: since,
        Start.TRIAL: snapshot.trial or since,
    }
    start = starts[switches.start] if is_paid else snapshot.start
    sold = snapshot.sold
    values = {
        "maintenanceStartDate": start,
        "maintenanceEndDate": snapshot.end,
        "latestMaintenanceStartDate": snapshot.start
        if is_paid and switches.has_latest_start
        else None,
        "latestEvaluationStartDate": snapshot.trial,
        "evaluationStartDate": snapshot.trial,
        "evaluationEndDate": snapshot.trial_end,
        "evaluationSaleDate": sold if switches.has_latest_start else None,
    }
    return {name: f"{day}" if day else MISSING for name, day in values.items()}


def license_names(seed: int, life: Life, license: int) -> Record:
    """The ids of a license."""
    uuid = stable_id(seed, f"license/{life.number}/{license}")
    digits = uuid.replace("-", "").upper()
    return {
        "appEntitlementId": uuid,
        "appEntitlementNumber": f"E-{digits[:3]}-{digits[3:6]}-{digits[6:9]}-{digits[9:12]}",
        "licenseId": f"L-{digits[12:20]}",
    }


def person(site: Site) -> Record:
    return {"name": f"Quinn {PLANTED}", "email": f"{PLANTED}@{site.hostname}", "phone": PLANTED}


def _latest(life: Life, today: date) -> dict[int, Snapshot]:
    """The state of each of the customer's licenses on a day."""
    return {snapshot.license: snapshot for snapshot in life.snapshots if snapshot.on <= today}


# --- Generated licenses ---------------------------------------------------------------------


def generate_licenses(
    vendor: SimulatedVendor, seed: int, number: int, today: date
) -> Iterator[Record]:
    """Generate licenses of the vendor's app as of a day: the last states of five years."""
    return islice(_with_oddities(vendor.app, seed, today), number)


def generate_reports(
    vendor: SimulatedVendor, seed: int, customers: int, today: date
) -> VendorReports:
    """The other reports of the customers to whom generated licenses belong."""
    lives = islice(generate_lives(seed, today), customers)
    return VendorReports(vendor.app, lives, today, seed=seed)


def _with_oddities(app: SimulatedApp, seed: int, today: date) -> Iterator[Record]:
    kinds = cycle(ODDITIES)
    for life in generate_lives(seed, today):
        latest = _latest(life, today).values()
        *others, last = [print_license(app, seed, life, snapshot) for snapshot in latest]
        yield from others
        is_odd = life.number % ODD_EVERY == ODD_EVERY - 1
        yield add_oddity(last, next(kinds)) if is_odd else last
