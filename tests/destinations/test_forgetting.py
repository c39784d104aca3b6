"""At each CRM: who is forgotten has our fields cleared and no link, whatever happens in between."""

from typing import Any, NamedTuple

import pytest

from core.outbound import requests
from destinations import runs
from destinations.models import RecordDestination, RecordLink, RecordRun
from destinations.vendors import base
from engagement.models import Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from harness.crm.hubspot import FakeHubSpot
from harness.crm.server import FakeCrm, instead, lost, normal
from tests.destinations.rows import (
    PLAN,
    SCORE,
    SF_NAME,
    SF_PLAN,
    SF_SCORE,
    hubspot_destination,
    numbers,
    resume,
    run_now,
    salesforce_destination,
    scored,
    work,
)
from tests.notifications.rows import Clock

State, LinkState = RecordRun.State, RecordLink.State
EMPTY = (None, "")


class Killed(BaseException):
    """The worker's process ends here."""


class Forgetting(NamedTuple):
    """Initech and Hooli, and a CRM that has a record of Hooli, and on demand of Initech."""

    product: Product
    crm: Any
    clock: Clock
    site: str
    ours: tuple[str, ...]
    destination: RecordDestination

    def add(self, name: str) -> str:
        id: str = self.crm.add(**{self.site: f"{name}.example"})
        return id

    def forget(self) -> None:
        forget(SubjectRef(self.product.pk, SubjectScope.ACCOUNT, "initech"), self.clock())

    def run_due(self) -> RecordRun:
        assert runs.request_due(self.clock.step(24 * 3600)) == 1
        work(self.clock)
        return RecordRun.objects.latest("pk")

    def ours_of(self, id: str) -> list[Any]:
        return [self.crm.records[id].get(name) for name in self.ours]

    def is_clear(self, id: str) -> bool:
        return all(value in EMPTY for value in self.ours_of(id))


@pytest.fixture(params=["hubspot", "salesforce"])
def world(request: pytest.FixtureRequest, acme: Product, clock: Clock) -> Forgetting:
    crm: FakeCrm = request.getfixturevalue(request.param)
    scored(acme, {"initech": 35, "hooli": 40}, plan="gold")
    if isinstance(crm, FakeHubSpot):
        own = {"mapping": [SCORE, PLAN], "mode": "create", "id_field": "eds_id"}
        destination = hubspot_destination(acme, crm, **own)
        site, ours = "domain", ("eds_score", "plan", "eds_id")
    else:
        own = {"mapping": [SF_SCORE, SF_PLAN, SF_NAME], "mode": "create", "id_field": "EDS_Id__c"}
        destination = salesforce_destination(acme, crm, **own)  # type: ignore[arg-type]
        site, ours = "Website", ("EDS_Score__c", "Plan__c", "EDS_Id__c")
    world = Forgetting(acme, crm, clock, site, ours, destination)
    world.add("hooli")
    return world


def test_the_fields_are_cleared_and_the_link_is_gone(world: Forgetting) -> None:
    initech = world.add("initech")
    run_now(world.destination, world.clock)
    assert not world.is_clear(initech)
    world.forget()
    world.run_due()
    assert world.is_clear(initech)
    assert world.crm.records[initech][world.site] == "initech.example"
    assert [link.external_id for link in RecordLink.objects.all()] == ["hooli"]


def test_a_response_that_was_lost_before_leaves_nothing(world: Forgetting) -> None:
    """Nobody knows whether the first batch of the record was written."""
    initech = world.add("initech")
    fault_of_writes(world.crm, lost)
    run_now(world.destination, world.clock)
    assert not world.is_clear(initech)
    world.forget()
    resume(world.clock)
    assert world.is_clear(initech) and world.crm.idle_writes == 0
    assert [link.external_id for link in RecordLink.objects.all()] == ["hooli"]


def test_a_record_whose_creation_nobody_heard_of_is_cleared(world: Forgetting) -> None:
    run_until_created(world)
    (initech,) = world.crm.created
    assert not world.is_clear(initech)
    world.forget()
    link = RecordLink.objects.get(state=LinkState.FORGOTTEN)
    # Until then our id stays, to find the record by it.
    assert (link.external_id, link.remote_id, link.tried) == ("", "", ["initech"])
    resume(world.clock)
    assert world.is_clear(initech) and world.crm.created == [initech]
    assert [link.external_id for link in RecordLink.objects.all()] == ["hooli"]


def test_a_worker_that_dies_after_clearing_leaves_nothing_to_write(
    world: Forgetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    initech = world.add("initech")
    run_now(world.destination, world.clock)
    world.forget()
    send, before = requests.send_now, world.crm.written_rows

    def dies(*args: Any) -> Any:
        result = send(*args)
        if world.crm.written_rows > before:
            raise Killed
        return result

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(base, "send_now", dies)
        world.run_due()
    assert world.is_clear(initech) and RecordLink.objects.count() == 2
    resume(world.clock, 300)
    resume(world.clock)
    assert RecordRun.objects.latest("pk").state == State.DONE
    assert world.crm.idle_writes == 0
    assert [link.external_id for link in RecordLink.objects.all()] == ["hooli"]


def test_a_record_that_was_merged_meanwhile_stops_no_run(world: Forgetting) -> None:
    initech, target = world.add("initech"), world.add("target")
    run_now(world.destination, world.clock)
    if isinstance(world.crm, FakeHubSpot):
        world.crm.merge(initech, target)
    else:
        world.crm.remove(initech, into=target)
    world.forget()
    run = world.run_due()
    assert (run.state, run.error) == (State.DONE, "")
    assert [link.external_id for link in RecordLink.objects.all()] == ["hooli"]


def test_a_run_that_was_given_up_leaves_what_it_announced_to_the_next_one(
    world: Forgetting,
) -> None:
    """The next run reads the records first, although it is a run of changes."""
    initech = world.add("initech")
    run_now(world.destination, world.clock)
    RecordLink.objects.filter(external_id="initech").update(last_sent={"plan": "silver"})
    world.crm.records[initech] |= dict.fromkeys(world.ours[:2], "")
    fault_of_writes(world.crm, lost, then=instead(500, ""))
    run = run_now(world.destination, world.clock, RecordRun.Kind.COMPARE)
    for _ in range(6):
        resume(world.clock)
    run.refresh_from_db()
    assert run.state == State.FAILED
    world.crm.faults = []
    RecordDestination.objects.update(compared_at=world.clock())
    run = run_now(world.destination, world.clock, RecordRun.Kind.CHANGES)
    assert run.state == State.DONE and numbers(run).get("updated", 0) == 0
    assert world.crm.idle_writes == 0 and not world.is_clear(initech)


def fault_of_writes(crm: FakeCrm, fault: Any, then: Any = normal) -> None:
    """The next request that writes fails, and those after it."""

    def each(call: Any, answer: Any) -> Any:
        rows = crm.written_rows
        result = answer()
        if crm.written_rows == rows:
            crm.faults = [each]
            return result
        crm.faults = [then] * 20 if then is not normal else []
        return fault(call, lambda: None)

    crm.faults = [each]


def run_until_created(world: Forgetting) -> None:
    """The response to the request that creates the record is lost."""

    def each(call: Any, answer: Any) -> Any:
        result = answer()
        if world.crm.created:
            world.crm.faults = []
            return None
        world.crm.faults = [each]
        return result

    world.crm.faults = [each]
    run_now(world.destination, world.clock)
