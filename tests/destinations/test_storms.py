"""At each CRM, whatever goes wrong meanwhile: in the end each mapped value is right, no record was
created against the mode or twice, no write changed nothing, no day had more requests than our share
of the quota, and what is not sent is listed with its reason.

What goes wrong is drawn by a number, so that a failure can be repeated.
"""

import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import date, timedelta
from typing import Any

import pytest

from core.models import Job
from core.outbound import requests
from destinations import runs, sending
from destinations.models import RecordDestination, RecordLink, RecordRun
from destinations.records import domain_of
from destinations.vendors import base
from engagement.models import Account, AccountEngagement, Product, Workspace
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from engagement.scores.metrics import compute_scores
from harness.crm.hubspot import FakeHubSpot
from harness.crm.salesforce import FakeSalesforce
from harness.crm.server import FakeCrm, Fault, instead, lost, normal
from tests.destinations.rows import (
    PLAN,
    SCORE,
    SF_NAME,
    SF_PLAN,
    SF_SCORE,
    hubspot_destination,
    move,
    salesforce_destination,
    scored,
    set_traits,
    work,
)
from tests.notifications.rows import Clock

# Each of them takes seconds.
pytestmark = pytest.mark.slow
LinkState = RecordLink.State
SEEDS = (1,)
ROUNDS, ACCOUNTS = 8, 100
# Accounts without a record, and with a domain that two records have, that another account has, or
# that many companies share.
MISSING, TWICE, SECOND, MAILER = ("a0", "a1", "a2", "a3"), "a4", "a5", "a6"
# The rows that a CRM refuses: one of a batch, and with it the whole batch of HubSpot.
BAD, BROKEN = "odd", "broken"
NEEDED = "cloud_id"
# Requests of a day, of which 20% are ours.
DAILY = 200
DOWN = (lost, instead(500, "<html>Oops</html>"), instead(200, "<html>Sign in</html>"))
FAULTS: dict[str, tuple[Fault, ...]] = {
    "hubspot": (
        *DOWN,
        instead(429, {"policyName": "TEN_SECONDLY_ROLLING"}),
        instead(423, {"message": "locked"}),
        instead(200, {"status": "COMPLETE", "results": []}),
        instead(524, ""),
    ),
    "salesforce": (
        *DOWN,
        instead(503, [{"errorCode": "SERVER_UNAVAILABLE", "message": "too busy"}]),
        instead(403, [{"errorCode": "REQUEST_LIMIT_EXCEEDED", "message": "TotalRequests"}]),
        instead(429, ""),
    ),
}


class Killed(BaseException):
    """The worker's process ends here."""


class Storm:
    """A product, a CRM with a record of most accounts, and what happens to both."""

    def __init__(self, seed: int, product: Product, crm: FakeCrm, mode: str, clock: Clock) -> None:
        self.chance, self.crm, self.clock = random.Random(seed), crm, clock
        self.product, self.creates = product, mode == "create"
        self.names = [f"a{number}" for number in range(ACCOUNTS)]
        self.scores = {name: float(self.chance.randint(10, 80)) for name in self.names}
        self.workspace: Workspace = scored(product, self.scores)
        is_hubspot = isinstance(crm, FakeHubSpot)
        self.site, self.id_field = ("domain", "eds_id") if is_hubspot else ("Website", "EDS_Id__c")
        self.score, self.plan = ("eds_score", "plan") if is_hubspot else ("EDS_Score__c", "Plan__c")
        for name in (*self.names, TWICE):
            if name not in (*MISSING, SECOND, MAILER):
                self._add(f"{name}.example")
        self._add("gmail.com")
        set_traits(product, SECOND, domain="www.a7.example")
        set_traits(product, MAILER, domain="gmail.com")
        connect: Any = hubspot_destination if is_hubspot else salesforce_destination
        self.destination = connect(
            product,
            crm,
            mapping=[SCORE, PLAN] if is_hubspot else [SF_SCORE, SF_PLAN, SF_NAME],
            mode=mode,
            daily_limit=DAILY,
            **({"id_field": self.id_field} if self.creates else {}),
        )
        self.forgotten: dict[str, str] = {}
        self.merged: set[str] = set()
        self.calls_by_day: Counter[date] = Counter()
        if isinstance(crm, FakeHubSpot):
            crm.daily_limit, crm.required_names = DAILY, {NEEDED}
            crm.rejected, crm.bad_values = {BAD}, {BROKEN}
        elif isinstance(crm, FakeSalesforce):
            crm.limit, crm.required_names = DAILY, {"Name", NEEDED}
            crm.rejected_values = {BAD, BROKEN}

    def _add(self, site: str) -> None:
        self.crm.add(**{self.site: site})  # type: ignore[attr-defined]

    # --- What happens ---------------------------------------------------------------------------

    def change(self) -> None:
        """Scores move, traits change, records are merged and deleted, and somebody is forgotten."""
        names = [name for name in self.names if name not in self.forgotten]
        for name in self.chance.sample(names, 30):
            self.scores[name] += self.chance.choice((-3, -0.4, 0.3, 2, 7))
        move(self.workspace, {name: self.scores[name] for name in names})
        for name in self.chance.sample(names, 8):
            plan = self.chance.choice(("gold", "silver", "", BAD, BROKEN))
            set_traits(self.product, name, plan=plan)
        old, target, deleted = self.chance.sample(sorted(self.crm.records), 3)
        self.merged |= {old, target}
        if isinstance(self.crm, FakeHubSpot):
            self.crm.merge(old, target)
            # The id is used by nobody afterwards.
            self.crm.merged[deleted] = ""
            del self.crm.records[deleted]
        elif isinstance(self.crm, FakeSalesforce):
            self.crm.remove(old, into=target)
            self.crm.remove(deleted)
        self._forget(self.chance.choice(names))

    def _forget(self, name: str) -> None:
        link = self.destination.links.filter(external_id=name).first()
        self.forgotten[name] = link.remote_id if link else ""
        forget(SubjectRef(self.product.pk, SubjectScope.ACCOUNT, name), self.clock())

    def rain(self) -> None:
        """Some of the next requests fail, and locks and sessions end."""
        faults = FAULTS[self.destination.vendor]
        self.crm.faults = [
            self.chance.choice(faults) if self.chance.random() < 0.4 else normal for _ in range(10)
        ]
        if isinstance(self.crm, FakeSalesforce):
            locked = self.chance.sample(sorted(self.crm.records), 3)
            self.crm.locks = dict.fromkeys(locked, 1)
            self.crm.sessions.clear()

    def run(self, danger: float = 0) -> None:
        """Run what is due until nothing is unfinished. The worker may die around each request, and
        after it has stored what became of a batch."""
        destination = RecordDestination.objects.get(pk=self.destination.pk)
        assert destination.state == RecordDestination.State.ACTIVE, destination.pause_reason
        runs.request_due(self.clock.step(16 * 60))
        store, send = sending._Sender._store, requests.send_now

        def may_die() -> None:
            if self.chance.random() < danger:
                raise Killed

        def stores(*args: Any, **values: Any) -> Any:
            stored = store(*args, **values)
            may_die()
            return stored

        def sends(*args: Any) -> Any:
            may_die()
            result = send(*args)
            may_die()
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sending._Sender, "_store", stores)
            patch.setattr(base, "send_now", sends)
            for _ in range(200):
                self._work()
                if not RecordRun.unfinished().exists():
                    return
                self.clock.step(3700)
        raise AssertionError(list(Job.objects.values_list("kind", "error")))

    def _work(self) -> None:
        today, before = self.clock().date(), len(self.crm.calls)
        if isinstance(self.crm, FakeSalesforce) and today not in self.calls_by_day:
            self.crm.usage = 0
        with suppress(Killed):
            work(self.clock)
        self.calls_by_day[today] += len(self.crm.calls) - before

    def settle(self) -> None:
        """Some days without faults."""
        self.crm.faults = []
        if isinstance(self.crm, FakeSalesforce):
            self.crm.locks = {}
        for _ in range(3):
            self.clock.step(timedelta(days=1).total_seconds())
            self.run()

    def forgive(self) -> None:
        """From now on the CRM takes everything."""
        if isinstance(self.crm, FakeHubSpot):
            self.crm.required_names, self.crm.rejected, self.crm.bad_values = set(), set(), set()
        elif isinstance(self.crm, FakeSalesforce):
            self.crm.required_names, self.crm.rejected_values = {"Name"}, set()

    # --- What must be ---------------------------------------------------------------------------

    def check(self) -> None:
        links = {link.external_id: link for link in self.destination.links.all()}
        assert links.keys() == {*self.names} - self.forgotten.keys()
        self._check_records(links)
        self._check_forgotten({link.remote_id for link in links.values()})
        assert self.crm.idle_writes == 0
        assert max(self.calls_by_day.values()) <= DAILY // 5
        owned = Counter(link.remote_id for link in links.values() if link.remote_id)
        owned += Counter(each.get(self.id_field) or "" for each in self.crm.records.values())
        assert owned.keys() and all(count == 1 for id, count in owned.items() if id), owned

    def _check_records(self, links: dict[str, RecordLink]) -> None:
        """Each record has what is shown of its account, and each account without a record says why
        it has none."""
        rows = AccountEngagement.objects.filter(score_set=self.workspace.scores_id)
        accounts = Account.objects.filter(product=self.product).in_bulk()
        owners = {link.remote_id for link in links.values()}
        for row in rows:
            account = accounts[row.account_id]
            link, plan = links[account.external_id], account.traits.get("plan") or ""
            ids = set(self._ids_with(account.traits["domain"]))
            match link.state:
                case LinkState.LINKED:
                    record = self.crm.records[link.remote_id]
                    score = compute_scores(row, self.workspace.scores).now  # type: ignore[arg-type]
                    assert float(record[self.score]) == int(score + 0.5), (link, record)
                    assert (record.get(self.plan) or "") == plan, (link, record)
                case LinkState.REJECTED:
                    is_bad, is_new = plan in (BAD, BROKEN), self.creates and not ids
                    reasons = ["rule", "INVALID_EMAIL"] * is_bad + [NEEDED] * is_new
                    assert any(reason in link.error for reason in reasons), (link, link.error)
                case LinkState.AMBIGUOUS:
                    assert len(ids) > 1 or ids < owners, (link, ids)
                    assert "match." in link.error or "belongs to" in link.error, link.error
                case _:
                    assert link.state == LinkState.UNMATCHED and not self.creates, link.state
                    assert not ids, (link, ids)

    def _ids_with(self, domain: str) -> Iterable[str]:
        host = domain_of(domain)
        for id, record in self.crm.records.items():
            if host != "gmail.com" and record.get(self.site) == host:
                yield id

    def _check_forgotten(self, owners: set[str]) -> None:
        """Nobody's record has our values, unless it was merged into another one."""
        for name, id in self.forgotten.items():
            if id not in {*owners, *self.merged} and (record := self.crm.records.get(id)):
                ours = [record.get(field) for field in (self.score, self.plan, self.id_field)]
                assert not any(each not in (None, "") for each in ours), (name, record)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["update", "create"])
@pytest.mark.parametrize("vendor", ["hubspot", "salesforce"])
def test_after_a_storm_everything_is_right_or_listed(
    acme: Product, clock: Clock, vendor: str, mode: str, seed: int, request: pytest.FixtureRequest
) -> None:
    crm: FakeCrm = request.getfixturevalue(vendor)
    storm = Storm(seed, acme, crm, mode, clock)
    for _ in range(ROUNDS):
        storm.change()
        storm.rain()
        storm.run(danger=0.05)
    storm.settle()
    storm.check()
    rejected = storm.destination.links.filter(state=LinkState.REJECTED)
    assert rejected.exists()
    assert not crm.created
    # Once nothing is bad any more, nothing is rejected.
    storm.forgive()
    storm.settle()
    storm.check()
    assert not rejected.exists()
    assert storm.creates == bool(crm.created)
