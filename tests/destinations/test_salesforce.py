"""What is Salesforce's own: sessions, batches with a result for each row, and its limits."""

import logging

import pytest
from pytest_django import Settings

from destinations import runs, uploads
from destinations.models import RecordDestination, RecordLink, RecordRun
from destinations.vendors import open_client
from destinations.vendors.base import CredentialsRejected, VendorError
from destinations.vendors.salesforce import Salesforce, is_my_domain
from engagement.models import Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from harness.crm.salesforce import FakeSalesforce
from harness.crm.server import instead, lost, normal
from tests.destinations.rows import (
    SF_NAME,
    SF_PLAN,
    SF_SCORE,
    link_of,
    move,
    numbers,
    resume,
    run_now,
    salesforce_destination,
    scored,
    set_traits,
    work,
)
from tests.notifications.rows import Clock

State, Kind, Mode = RecordRun.State, RecordRun.Kind, RecordDestination.Mode


def test_scores_reach_the_accounts_with_the_same_host_and_nothing_is_created(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    scored(acme, {"initech": 35.4, "o'hara": 80, "nobody": 50})
    set_traits(acme, "o'hara", domain="o_hara.example")
    initech = salesforce.add(Website="https://www.Initech.example/about")
    salesforce.add(Website="notinitech.example")
    salesforce.add(Website="oxhara.example")
    hara = salesforce.add(Website="o_hara.example")
    destination = salesforce_destination(acme, salesforce)
    run = run_now(destination, clock)
    assert (run.state, run.error, numbers(run)) == (State.DONE, "", {"updated": 2, "skipped": 1})
    scores = [record.get("EDS_Score__c") for record in salesforce.records.values()]
    assert scores == [35, None, None, 80] and salesforce.records[initech] and hara
    # A session, a query for the sites, one for the values, and a batch.
    assert run.calls == len(salesforce.calls) == 4 and not salesforce.created
    move(acme.workspaces.get(), {"initech": 35.9})
    assert numbers(run_now(destination, clock)) == {"unchanged": 1}
    assert len(salesforce.calls) == 4
    destination.refresh_from_db()
    assert destination.daily_limit == salesforce.limit


def test_what_fields_cannot_hold_is_made_to_fit(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    scored(
        acme, {"initech": 35.46}, plan="  a plan with a name of more than forty characters", n="7"
    )
    initech = salesforce.add(Website="initech.example", EDS_At_Risk__c=True, Name="Initech Inc.")
    mapping = [
        *(SF_SCORE, SF_PLAN, {"source": "first_seen_at", "field": "EDS_Seen__c", "rule": "clear"}),
        {"source": "first_seen_at", "field": "EDS_Active__c", "rule": "clear"},
        {"source": "trait:none", "field": "EDS_At_Risk__c", "rule": "clear"},
        {"source": "trait:gone", "field": "Name", "rule": "clear"},
        {"source": "trait:n", "field": "Cloud__c", "rule": "clear"},
    ]
    destination = salesforce_destination(acme, salesforce, mapping=mapping, points=0.5)
    assert numbers(run_now(destination, clock)) == {"updated": 1}
    day = clock().date().isoformat()
    assert salesforce.records[initech] == {
        "Website": "initech.example",
        "EDS_Score__c": 35.5,
        "Plan__c": "a plan with a name of more than forty ch",
        "EDS_Seen__c": f"{day}T00:00:00Z",
        "EDS_Active__c": day,
        "EDS_At_Risk__c": False,
        # Each record has one.
        "Name": "Initech Inc.",
        "Cloud__c": "7",
    }
    # The comparison of the next day finds nothing to do.
    clock.step(25 * 3600)
    assert numbers(run_now(destination, clock)) == {"unchanged": 1}
    assert salesforce.written_rows == 1


def test_a_session_that_ends_in_the_middle_is_renewed_once(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    scored(acme, {"initech": 35})
    initech = salesforce.add(Website="initech.example")
    destination = salesforce_destination(acme, salesforce)

    def ends(call: object, answer: object) -> object:
        salesforce.sessions.clear()
        return answer()  # type: ignore[operator]

    salesforce.faults = [normal, normal, ends]  # type: ignore[list-item]
    logins = salesforce.logins
    run = run_now(destination, clock)
    assert (run.state, run.error, salesforce.logins - logins) == (State.DONE, "", 2)
    assert salesforce.records[initech]["EDS_Score__c"] == 35


def test_a_rejected_secret_pauses_and_a_hidden_field_ends_the_run(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    scored(acme, {"initech": 35})
    initech = salesforce.add(Website="initech.example")
    destination = salesforce_destination(acme, salesforce)
    salesforce.hidden_names = {"EDS_Score__c"}
    run = run_now(destination, clock)
    assert run.state == State.FAILED and "No such column 'EDS_Score__c'" in run.error
    salesforce.hidden_names, salesforce.key = set(), "another-secret"
    salesforce.sessions.clear()
    run_now(destination, clock)
    destination.refresh_from_db()
    assert destination.state == RecordDestination.State.PAUSED
    assert "rejects the consumer key or its secret (invalid secret)" in destination.pause_reason
    RecordDestination.objects.filter(pk=destination.pk).update(key="another-secret")
    runs.start(destination, clock.step())
    assert runs.request_due(clock()) == 1
    work(clock)
    assert salesforce.records[initech]["EDS_Score__c"] == 35


def test_the_secret_goes_to_no_other_address(
    acme: Product, salesforce: FakeSalesforce, settings: Settings
) -> None:
    destination = salesforce_destination(acme, salesforce)
    salesforce.instance_url = "https://evil.example"
    with pytest.raises(VendorError, match="an address that is none of its own"):
        open_client(destination, lambda: None).fields()
    assert [call.path for call in salesforce.calls] == ["/services/oauth2/token"]
    redirect = instead(302, "", Location="https://evil.example/token")
    salesforce.faults = [redirect]
    with pytest.raises(VendorError, match="Redirects are not followed"):
        open_client(destination, lambda: None).fields()
    settings.SALESFORCE_URL = ""
    for host in ("127.0.0.1", "evil.example", "my.salesforce.com.evil.example", ""):
        destination.host = host
        with pytest.raises(CredentialsRejected):
            open_client(destination, lambda: None).fields()
    assert is_my_domain("acme--dev.sandbox.my.salesforce.com")
    # The name of a customer's host leads where the operator's rules forbid.
    destination.host = "localhost.my.salesforce.com"
    with pytest.raises(VendorError, match="cannot be reached"):
        open_client(destination, lambda: None).fields()


def test_locked_rows_are_sent_again_and_others_once(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    names = [f"a{number}" for number in range(60)]
    scored(acme, dict.fromkeys(names, 40.0))
    ids = [salesforce.add(Website=f"{name}.example") for name in names]
    salesforce.locks = {**dict.fromkeys(ids[:30], 1), ids[40]: 5}
    destination = salesforce_destination(acme, salesforce)
    assert numbers(run_now(destination, clock)) == {"updated": 59, "rejected": 1}
    assert link_of(destination, "a40").error.startswith("UNABLE_TO_LOCK_ROW: unable to obtain")
    sizes = [len(call.inputs) for call in salesforce.calls if call.method == "PATCH"]
    assert sizes == [60, 20, 11, 1]
    assert salesforce.idle_writes == 0


def test_of_a_hundred_rows_one_is_rejected_with_the_reason(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    names = [f"a{number}" for number in range(100)]
    scored(acme, dict.fromkeys(names, 40.0))
    ids = [salesforce.add(Website=f"{name}.example") for name in names]
    set_traits(acme, "a70", plan="odd")
    salesforce.rejected_values = {"odd"}
    destination = salesforce_destination(acme, salesforce, mapping=[SF_SCORE, SF_PLAN])
    assert numbers(run_now(destination, clock)) == {"updated": 99, "rejected": 1}
    error = link_of(destination, "a70").error
    assert error == "FIELD_CUSTOM_VALIDATION_EXCEPTION: odd breaks a rule."
    salesforce.rejected_values = set()
    assert numbers(run_now(destination, clock, Kind.RETRY)) == {"updated": 1}
    assert {salesforce.records[id]["EDS_Score__c"] for id in ids} == {40}
    assert salesforce.idle_writes == 0


def test_a_batch_that_salesforce_cannot_read_is_halved_down_to_the_row(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    names = [f"a{number}" for number in range(200)]
    scored(acme, dict.fromkeys(names, 40.0), seats="5")
    for name in names:
        salesforce.add(Website=f"{name}.example")
    salesforce.add_field("Seats__c", "double", scale=0)
    set_traits(acme, "a150", seats="many")
    seats = {"source": "trait:seats", "field": "Seats__c", "rule": "clear"}
    destination = salesforce_destination(acme, salesforce, mapping=[SF_SCORE, seats])
    assert numbers(run_now(destination, clock)) == {"updated": 199, "rejected": 1}
    assert "JSON_PARSER_ERROR" in link_of(destination, "a150").error
    assert len([call for call in salesforce.calls if call.method == "PATCH"]) <= 17


def test_merged_and_deleted_records_are_looked_for_again(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    workspace = scored(acme, {"merged": 40, "deleted": 50, "stays": 60})
    merged, deleted, _ = (
        salesforce.add(Website=f"{name}.example") for name in ("merged", "deleted", "stays")
    )
    target = salesforce.add(Name="Target")
    destination = salesforce_destination(acme, salesforce)
    run_now(destination, clock)
    salesforce.remove(merged, into=target)
    salesforce.remove(deleted)
    move(workspace, {"merged": 45, "deleted": 55, "stays": 65})
    assert numbers(run_now(destination, clock)) == {"updated": 2, "skipped": 1}
    assert link_of(destination, "merged").remote_id == target
    assert salesforce.records[target]["EDS_Score__c"] == 45
    assert link_of(destination, "deleted").state == RecordLink.State.UNMATCHED
    assert not salesforce.created


def test_a_mode_that_creates_creates_each_record_once_and_lists_what_lacks_a_field(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    scored(acme, {"initech": 35, "new": 50, "doubled": 60, "New": 70})
    initech = salesforce.add(Website="initech.example")
    salesforce.duplicates = {"Doubled"}
    values = {"mode": Mode.CREATE, "id_field": "EDS_Id__c", "mapping": [SF_SCORE, SF_NAME]}
    destination = salesforce_destination(acme, salesforce, **values)
    salesforce.required_names = {"Name", "Industry__c"}
    run = run_now(destination, clock)
    assert numbers(run) == {"updated": 1, "rejected": 2, "ambiguous": 1}
    error = link_of(destination, "new").error
    assert error == "REQUIRED_FIELD_MISSING: Required fields are missing: ['Industry__c']"
    assert not salesforce.created
    salesforce.required_names = {"Name"}
    # The response to the creation is lost.
    salesforce.calls.clear()
    salesforce.faults = [normal] * 3 + [lost]
    run = run_now(destination, clock, Kind.RETRY)
    assert salesforce.calls[-1].method == "PATCH"
    resume(clock)
    (new,) = salesforce.created
    assert salesforce.records[new] == {"Name": "New", "EDS_Id__c": "new", "EDS_Score__c": 50}
    assert link_of(destination, "doubled").error.startswith("DUPLICATES_DETECTED")
    assert salesforce.records[initech]["EDS_Id__c"] == "initech" and salesforce.idle_writes == 0
    clock.step(25 * 3600)
    run_now(destination, clock)
    assert link_of(destination, "New").error == "The record belongs to new already."
    assert len(salesforce.created) == 1 and salesforce.idle_writes == 0


def test_limits_are_read_and_others_keep_a_part_of_the_quota(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    names = [f"a{number}" for number in range(1000)]
    scored(acme, dict.fromkeys(names, 40.0))
    ids = [salesforce.add(Website=f"{name}.example") for name in names]
    destination = salesforce_destination(acme, salesforce)
    salesforce.usage, salesforce.limit = 792, 1000
    run = run_now(destination, clock)
    assert run.state == State.RUNNING and run.error.startswith("80% of Salesforce’s requests")
    assert salesforce.usage <= 801
    resume(clock, 600)
    assert salesforce.usage <= 801
    # What was used a day ago is free again.
    salesforce.usage = 100
    resume(clock, 3600)
    run.refresh_from_db()
    assert run.state == State.DONE
    assert {salesforce.records[id].get("EDS_Score__c") for id in ids} == {40}
    assert salesforce.idle_writes == 0
    salesforce.usage = salesforce.limit
    move(acme.workspaces.get(), {"a0": 50})
    run = run_now(destination, clock)
    assert (run.state, run.error[:27]) == (State.RUNNING, "Salesforce limits requests.")
    salesforce.usage = 0
    resume(clock, 3700)
    assert salesforce.records[ids[0]]["EDS_Score__c"] == 50


def test_forgetting_clears_the_fields_and_drops_the_link(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    scored(acme, {"initech": 35, "hooli": 40}, at_risk=True)
    initech = salesforce.add(Website="initech.example", Name="Initech Inc.")
    salesforce.add(Website="hooli.example")
    mapping = [
        *(SF_SCORE, SF_PLAN, SF_NAME),
        {"source": "trait:at_risk", "field": "EDS_At_Risk__c", "rule": "clear"},
    ]
    destination = salesforce_destination(acme, salesforce, mapping=mapping, id_field="EDS_Id__c")
    run_now(destination, clock)
    assert salesforce.records[initech]["EDS_Id__c"] == "initech"
    assert salesforce.records[initech]["EDS_At_Risk__c"] is True
    forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "initech"), clock())
    assert runs.request_due(clock.step(24 * 3600)) == 1
    work(clock)
    assert salesforce.records[initech] == {
        **{"Website": "initech.example", "Name": "Initech Inc.", "EDS_Score__c": None},
        **{"EDS_Id__c": None, "Plan__c": None, "EDS_At_Risk__c": False},
    }
    assert [link.external_id for link in RecordLink.objects.all()] == ["hooli"]


def test_ids_of_reports_are_understood_in_uploads(
    acme: Product, salesforce: FakeSalesforce, clock: Clock
) -> None:
    assert Salesforce.record_id("001D000000IqhSL") == "001D000000IqhSLIAZ"
    assert Salesforce.record_id("001D000000IqhSLIAZ") == "001D000000IqhSLIAZ"
    assert Salesforce.record_id("001D") == "" == Salesforce.record_id("001D000000Iq-SL")
    scored(acme, {"initech": 35})
    initech = salesforce.add(Name="A")
    destination = salesforce_destination(acme, salesforce)
    assert uploads.store_pairs(destination, f"initech,{initech[:15]}".encode()) == 1
    assert numbers(run_now(destination, clock)) == {"updated": 1}
    assert salesforce.records[initech]["EDS_Score__c"] == 35


def test_neither_secret_nor_session_is_logged(
    acme: Product,
    salesforce: FakeSalesforce,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    scored(acme, {"initech": 35})
    salesforce.add(Website="initech.example")
    destination = salesforce_destination(acme, salesforce)
    salesforce.faults = [normal, instead(500, "<html>Oops</html>")]
    run = run_now(destination, clock)
    resume(clock)
    stored = [RecordRun.objects.values(), RecordLink.objects.values(), run.error]
    for secret in ("planted-key", "planted-session"):
        assert secret not in caplog.text and secret not in str([list(each) for each in stored])
