"""In the end each record has our values, and each request had a reason."""

import pytest
from django.db import connection

from core.jobs import run as jobs
from destinations import runs, sending
from destinations.models import RecordDestination, RecordLink, RecordRun
from engagement.models import Account, Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from harness.crm.hubspot import FakeHubSpot
from harness.crm.server import instead, lost, normal
from tests.destinations.rows import (
    PLAN,
    SCORE,
    hubspot_destination,
    link_of,
    move,
    numbers,
    resume,
    run_now,
    scored,
    set_traits,
    work,
)
from tests.notifications.rows import Clock

State, LinkState, Kind = RecordRun.State, RecordLink.State, RecordRun.Kind


def test_scores_reach_the_records_with_the_accounts_domains_and_nothing_is_created(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35.4, "hooli": 80, "nobody": 50})
    initech = hubspot.add(domain="initech.example")
    hooli = hubspot.add(domain="other.example", hs_additional_domains="x.example;hooli.example")
    hubspot.add(domain="notinitech.example")
    destination = hubspot_destination(acme, hubspot)
    run = run_now(destination, clock)
    assert (run.state, run.error, run.kind) == (State.DONE, "", Kind.COMPARE)
    assert numbers(run) == {"updated": 2, "skipped": 1}
    scores = {id: record.get("eds_score") for id, record in hubspot.records.items()}
    assert scores == {initech: "35", hooli: "80", "502": None}
    assert link_of(destination, "initech").last_sent == {"eds_score": 35.4}
    assert len(hubspot.records) == 3 and not hubspot.created
    # Two searches, one for other domains, one read and one write.
    assert run.calls == len(hubspot.calls) == 4


def test_a_run_of_changes_sends_what_moved_by_a_point_or_more_and_nothing_else(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    names = [f"a{number}" for number in range(5)]
    workspace = scored(acme, dict.fromkeys(names, 40.0))
    ids = [hubspot.add(domain=f"{name}.example") for name in names]
    destination = hubspot_destination(acme, hubspot, mapping=[SCORE, PLAN])
    run_now(destination, clock)
    hubspot.calls.clear()
    move(workspace, dict.fromkeys(names, 40.6))
    run = run_now(destination, clock)
    assert (run.kind, numbers(run), hubspot.calls) == (Kind.CHANGES, {"unchanged": 5}, [])
    # Together with an earlier move it is a point.
    move(workspace, {"a0": 41.0})
    set_traits(acme, "a1", plan="gold")
    assert numbers(run_now(destination, clock)) == {"updated": 2}
    assert hubspot.records[ids[0]]["eds_score"] == "41"
    # What is sent anyway has the small move, too.
    assert hubspot.records[ids[1]] == {"domain": "a1.example", "eds_score": "41", "plan": "gold"}
    assert hubspot.records[ids[2]]["eds_score"] == "40"
    assert len(hubspot.calls) == 1 and hubspot.idle_writes == 0
    assert numbers(run_now(destination, clock)) == {} and len(hubspot.calls) == 1


def test_the_daily_comparison_makes_every_record_right_again(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    workspace = scored(acme, {"initech": 40.4, "hooli": 50})
    initech, hooli = (hubspot.add(domain=f"{name}.example") for name in ("initech", "hooli"))
    destination = hubspot_destination(acme, hubspot)
    run_now(destination, clock)
    move(workspace, {"initech": 40.5})
    hubspot.records[hooli]["eds_score"] = "7"
    clock.step(24 * 3600)
    run = run_now(destination, clock)
    assert (run.kind, numbers(run)) == (Kind.COMPARE, {"updated": 2})
    assert [hubspot.records[id]["eds_score"] for id in (initech, hooli)] == ["41", "50"]
    assert hubspot.idle_writes == 0


def test_a_dry_run_shows_what_would_be_sent_and_writes_nothing(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35.4, "nobody": 50})
    initech = hubspot.add(domain="initech.example", eds_score="12")
    draft = RecordDestination.State.DRAFT
    destination = hubspot_destination(acme, hubspot, state=draft)
    run = run_now(destination, clock, Kind.DRY)
    assert numbers(run) == {"updated": 1, "skipped": 1}
    assert run.sample == [["Initech", "Eds score", "12", 35]]
    assert hubspot.records[initech]["eds_score"] == "12" and hubspot.written_rows == 0
    # The link that it found is used, and nobody looks for it again.
    runs.start(destination, clock.step())
    hubspot.calls.clear()
    run_now(destination, clock)
    assert hubspot.records[initech]["eds_score"] == "35"
    searched = [value for call in hubspot.paths("/search") for value in str(call.body).split("'")]
    assert "initech.example" not in searched and "nobody.example" in searched


def test_what_is_empty_is_cleared_or_left_and_what_people_filled_is_kept(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35, "hooli": 40})
    set_traits(acme, "hooli", plan="gold")
    initech = hubspot.add(domain="initech.example", plan="silver", name="By hand", cloud_id="c-1")
    hooli = hubspot.add(domain="hooli.example", plan="silver")
    mapping = [
        {"source": "trait:plan", "field": "plan", "rule": "leave"},
        {"source": "name", "field": "name", "rule": "fill"},
        {"source": "trait:cloud", "field": "cloud_id", "rule": "clear"},
    ]
    destination = hubspot_destination(acme, hubspot, mapping=mapping)
    run_now(destination, clock)
    assert hubspot.records[initech] == {
        **{"domain": "initech.example", "plan": "silver", "name": "By hand", "cloud_id": ""}
    }
    assert hubspot.records[hooli] == {"domain": "hooli.example", "plan": "gold", "name": "Hooli"}
    hubspot.calls.clear()
    assert numbers(run_now(destination, clock)) == {} and hubspot.calls == []


def test_two_records_or_two_accounts_are_ambiguous_and_free_mail_matches_nobody(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"twice": 35, "initech": 40, "second": 50, "mailer": 60})
    set_traits(acme, "second", domain="https://WWW.initech.example:443/about")
    set_traits(acme, "mailer", domain="gmail.com")
    for domain in ("twice.example", "twice.example", "initech.example", "gmail.com"):
        hubspot.add(domain=domain)
    destination = hubspot_destination(acme, hubspot)
    run = run_now(destination, clock)
    assert numbers(run) == {"updated": 1, "ambiguous": 2, "skipped": 1}
    assert link_of(destination, "twice").error == "2 records match."
    assert link_of(destination, "second").error == "The record belongs to initech already."
    hubspot.calls.clear()
    for name in ("twice", "second", "mailer"):
        set_traits(acme, name, other=1)
    # Nothing new to look for.
    assert numbers(run_now(destination, clock)) == {"ambiguous": 2, "skipped": 1}
    assert hubspot.calls == []
    set_traits(acme, "mailer", domain="twice.example")
    run_now(destination, clock)
    assert len(hubspot.paths("/search")) == 1


def test_a_bad_row_is_rejected_alone_and_sent_again_on_request(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    names = [f"a{number}" for number in range(100)]
    scored(acme, dict.fromkeys(names, 40.0))
    ids = [hubspot.add(domain=f"{name}.example") for name in names]
    set_traits(acme, "a70", plan="broken")
    set_traits(acme, "a20", plan="odd")
    hubspot.bad_values, hubspot.rejected = {"broken"}, {"odd"}
    destination = hubspot_destination(acme, hubspot, mapping=[SCORE, PLAN])
    run = run_now(destination, clock)
    assert numbers(run) == {"updated": 98, "rejected": 2} and run.state == State.DONE
    # Each of seven halvings costs two calls at most.
    assert len(hubspot.paths("/update")) <= 15
    assert "INVALID_EMAIL" in link_of(destination, "a70").error
    assert "breaks a rule" in link_of(destination, "a20").error
    hubspot.bad_values, hubspot.rejected = set(), set()
    hubspot.calls.clear()
    assert numbers(run_now(destination, clock, Kind.RETRY)) == {"updated": 2}
    assert {hubspot.records[id]["eds_score"] for id in ids} == {"40"}
    assert hubspot.idle_writes == 0 and len(hubspot.calls) == 2


def test_merged_and_deleted_records_are_looked_for_again(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    workspace = scored(acme, {"merged": 40, "deleted": 50, "stays": 60})
    merged, deleted, _ = (
        hubspot.add(domain=f"{name}.example") for name in ("merged", "deleted", "stays")
    )
    target = hubspot.add(domain="target.example", hs_additional_domains="merged.example")
    del hubspot.records[target]["hs_additional_domains"]
    destination = hubspot_destination(acme, hubspot)
    run_now(destination, clock)
    hubspot.records[target]["hs_additional_domains"] = "merged.example"
    hubspot.merge(merged, target)
    del hubspot.records[deleted]
    move(workspace, {"merged": 45, "deleted": 55, "stays": 65})
    run = run_now(destination, clock)
    assert numbers(run) == {"updated": 2, "skipped": 1}
    assert link_of(destination, "merged").remote_id == target
    assert hubspot.records[target]["eds_score"] == "45"
    assert link_of(destination, "deleted").state == LinkState.UNMATCHED
    assert not hubspot.created


def test_a_mode_that_creates_creates_each_record_once(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    workspace = scored(acme, {"initech": 35, "new": 50})
    initech = hubspot.add(domain="initech.example")
    destination = hubspot_destination(
        acme,
        hubspot,
        mode=RecordDestination.Mode.CREATE,
        id_field="eds_id",
        mapping=[SCORE, {"source": "domain", "field": "domain", "rule": "fill"}],
    )
    # The response to the creation is lost, and the search does not know the new record yet.
    hubspot.faults = [normal] * 4
    hubspot.faults += [normal, lost]
    run = run_now(destination, clock)
    hubspot.unindexed = set(hubspot.created)
    resume(clock)
    run.refresh_from_db()
    assert run.state == State.DONE and len(hubspot.created) == 1
    (new,) = hubspot.created
    assert hubspot.records[initech]["eds_id"] == "initech"
    assert hubspot.records[new] == {**{"eds_id": "new", "domain": "new.example", "eds_score": "50"}}
    move(workspace, {"new": 60})
    run_now(destination, clock)
    assert hubspot.records[new]["eds_score"] == "60" and len(hubspot.created) == 1
    assert hubspot.idle_writes == 0


def test_a_new_record_gets_a_score_of_zero(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"quiet": 0})
    mode = RecordDestination.Mode.CREATE
    destination = hubspot_destination(acme, hubspot, mode=mode, id_field="eds_id")
    run_now(destination, clock)
    (new,) = hubspot.created
    assert hubspot.records[new] == {"eds_id": "quiet", "eds_score": "0"}


# --- Failures -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        lost,
        instead(500, "<html>Oops</html>"),
        instead(200, "<html>Sign in</html>"),
        instead(200, {"status": "COMPLETE", "results": []}),
        instead(429, {"policyName": "TEN_SECONDLY_ROLLING"}),
        instead(423, {"message": "locked"}),
        instead(524, ""),
    ],
)
def test_after_a_failure_every_value_is_right_and_no_write_was_idle(
    acme: Product, hubspot: FakeHubSpot, clock: Clock, fault: object
) -> None:
    names = [f"a{number}" for number in range(250)]
    workspace = scored(acme, dict.fromkeys(names, 40.0))
    ids = [hubspot.add(domain=f"{name}.example") for name in names]
    destination = hubspot_destination(acme, hubspot)
    run_now(destination, clock)
    move(workspace, dict.fromkeys(names, 60.0))
    hubspot.calls.clear()
    hubspot.faults = [normal, fault]  # type: ignore[list-item]
    run = run_now(destination, clock)
    assert run.state == State.RUNNING and run.error
    resume(clock)
    run.refresh_from_db()
    assert (run.state, run.error) == (State.DONE, "")
    assert numbers(run) == {"updated": 250} or fault is lost
    assert numbers(run).get("rejected", 0) == 0 and sum(numbers(run).values()) == 250
    assert {hubspot.records[id]["eds_score"] for id in ids} == {"60"}
    assert hubspot.idle_writes == 0
    # Three batches, one repeated; and what was not stored is read first.
    assert len(hubspot.paths("/update")) <= 4 and len(hubspot.paths("/read")) <= 2


def test_a_worker_that_dies_after_a_batch_leaves_it_to_another_one(
    acme: Product, hubspot: FakeHubSpot, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"a{number}" for number in range(150)]
    workspace = scored(acme, dict.fromkeys(names, 40.0))
    ids = [hubspot.add(domain=f"{name}.example") for name in names]
    destination = hubspot_destination(acme, hubspot)
    run_now(destination, clock)
    move(workspace, dict.fromkeys(names, 60.0))

    class Killed(BaseException):
        pass

    store, stored = sending._Sender._store, []

    def dies(self: object, items: object, counts: object) -> object:
        stored.append(items)
        if len(stored) == 2:
            raise Killed
        return store(self, items, counts)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(sending._Sender, "_store", dies)
        run_now(destination, clock)
    run = RecordRun.objects.first()
    assert run is not None and run.state == State.RUNNING
    resume(clock, 300)
    resume(clock)
    run.refresh_from_db()
    assert run.state == State.DONE and sum(numbers(run).values()) == 150
    assert {hubspot.records[id]["eds_score"] for id in ids} == {"60"}
    assert hubspot.idle_writes == 0


def test_a_rejected_key_pauses_and_a_missing_scope_does_not(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    workspace = scored(acme, {"initech": 35})
    initech = hubspot.add(domain="initech.example")
    destination = hubspot_destination(acme, hubspot)
    hubspot.is_scope_missing = True
    run = run_now(destination, clock)
    destination.refresh_from_db()
    assert (run.state, destination.state) == (State.FAILED, RecordDestination.State.ACTIVE)
    assert run.error == "The key lacks a scope. HubSpot: crm.objects"
    assert runs.problem(destination).endswith("HubSpot: crm.objects")
    hubspot.is_scope_missing, hubspot.key = False, "another-key"
    run = run_now(destination, clock)
    destination.refresh_from_db()
    assert (run.state, destination.state) == (State.STOPPED, RecordDestination.State.PAUSED)
    assert destination.pause_reason == "HubSpot rejects the key. Enter a new one."
    assert runs.request_due(clock.step()) == 0
    RecordDestination.objects.filter(pk=destination.pk).update(key="another-key")
    runs.start(destination, clock.step())
    assert runs.request_due(clock()) == 1
    work(clock)
    assert hubspot.records[initech]["eds_score"] == "35"
    assert workspace.pk and runs.problem(RecordDestination.objects.get()) == ""


def test_a_property_that_is_gone_ends_the_run_and_is_named(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35})
    hubspot.add(domain="initech.example")
    destination = hubspot_destination(acme, hubspot)
    del hubspot.properties["eds_score"]
    run = run_now(destination, clock)
    text = "HubSpot does not take the property eds_score any more. Edit the mapping."
    assert (run.state, run.error) == (State.FAILED, text)


def test_the_share_of_the_quota_ends_the_day_and_the_run_goes_on_the_next(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    names = [f"a{number}" for number in range(700)]
    scored(acme, dict.fromkeys(names, 40.0))
    ids = [hubspot.add(domain=f"{name}.example") for name in names]
    hubspot.daily_limit = 50
    destination = hubspot_destination(acme, hubspot, daily_limit=50)
    run = run_now(destination, clock)
    assert len(hubspot.calls) == 10 and run.state == State.RUNNING
    assert run.error.startswith("20% of the CRM’s daily requests are used.")
    resume(clock, 3600)
    assert len(hubspot.calls) == 10
    for _ in range(2):
        assert run.state == State.RUNNING
        before = len(hubspot.calls)
        resume(clock, 24 * 3600)
        run.refresh_from_db()
        assert len(hubspot.calls) - before <= 10
    assert run.state == State.DONE
    assert {hubspot.records[id].get("eds_score") for id in ids} == {"40"}
    assert hubspot.idle_writes == 0


# --- Forgetting -----------------------------------------------------------------------------


def test_forgetting_clears_the_fields_and_drops_the_link(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35, "hooli": 40})
    initech = hubspot.add(domain="initech.example", name="Initech Inc.")
    hubspot.add(domain="hooli.example")
    mapping = [SCORE, {"source": "name", "field": "name", "rule": "fill"}]
    destination = hubspot_destination(acme, hubspot, mapping=mapping, id_field="eds_id")
    dry = run_now(destination, clock, Kind.DRY)
    run_now(destination, clock)
    assert hubspot.records[initech]["eds_id"] == "initech"
    forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "initech"), clock())
    dry.refresh_from_db()
    assert dry.sample == []
    link = RecordLink.objects.get(remote_id=initech)
    assert (link.external_id, link.last_sent, link.tried, link.subject_id) == ("", {}, [], None)
    assert runs.request_due(clock.step(24 * 3600)) == 1
    work(clock)
    values = {"domain": "initech.example", "name": "Initech Inc.", "eds_score": "", "eds_id": ""}
    assert hubspot.records[initech] == values
    assert [each.external_id for each in RecordLink.objects.all()] == ["hooli"]


def test_forgetting_clears_values_that_the_record_had_already(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35})
    initech = hubspot.add(domain="initech.example", eds_score="35")
    assert numbers(run_now(hubspot_destination(acme, hubspot), clock)) == {"unchanged": 1}
    forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "initech"), clock())
    assert runs.request_due(clock.step(24 * 3600)) == 1
    work(clock)
    assert hubspot.records[initech] == {"domain": "initech.example", "eds_score": ""}


@pytest.mark.django_db(transaction=True)
def test_who_is_forgotten_while_a_batch_is_under_way_gets_no_link_again(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35, "hooli": 40})
    initech = hubspot.add(domain="initech.example")
    hubspot.add(domain="hooli.example")
    destination = hubspot_destination(acme, hubspot)
    workspace_run = run_now(destination, clock)
    assert numbers(workspace_run) == {"updated": 2}
    move(acme.workspaces.get(), {"initech": 60, "hooli": 60})

    def forgets(call: object, answer: object) -> object:
        forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "initech"), clock())
        connection.close()
        return answer()  # type: ignore[operator]

    hubspot.faults = [forgets]  # type: ignore[list-item]
    run_now(destination, clock)
    assert hubspot.records[initech]["eds_score"] == "60"
    assert set(RecordLink.objects.values_list("external_id", "state")) == {
        ("", "forgotten"),
        ("hooli", "linked"),
    }
    destination.refresh_from_db()
    assert destination.next_run_at is not None and destination.next_run_at <= clock.step()
    assert runs.request_due(clock()) == 1
    work(clock)
    assert hubspot.records[initech]["eds_score"] == ""
    assert RecordLink.objects.count() == 1


def test_a_stopped_run_writes_nothing_more(
    acme: Product, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35})
    hubspot.add(domain="initech.example")
    destination = hubspot_destination(acme, hubspot)
    assert runs.request_run(destination, Kind.COMPARE, clock.step())
    assert not runs.request_run(destination, Kind.COMPARE, clock())
    runs.pause(destination, "Paused by ann.", clock())
    work(clock)
    assert hubspot.calls == [] and jobs.pause(0) is False
    assert RecordRun.objects.get().state == State.STOPPED
    assert Account.objects.filter(product=acme).exists()
