"""What a sync requests, imports, and counts."""

from datetime import timedelta, timezone

import pytest

from engagement.models import Account, Product, RescoreRequest
from engagement.traits import Source, read_stamp
from harness.marketplace.faults import Endpoint, ErrorStatus, NextLink, PaginationDrift
from harness.marketplace.records import MALFORMED
from harness.marketplace.server import Simulator
from marketplace.models import Connection, SyncRun
from marketplace.runs import scheduling
from tests.engagement.history import group, tell, track
from tests.marketplace.connections import (
    DAY,
    HOUR,
    NOON,
    Kind,
    RunState,
    a_license,
    accounts,
    counters,
    latest,
    license_requests,
    licenses,
    sync_now,
    traits,
    versions,
    with_page_callback,
    work,
)
from tests.pipeline.waiting import places_of

pytestmark = pytest.mark.django_db


def test_the_first_sync_imports_all_licenses_in_pages_of_fifty(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 120))
    run = work(connection)
    assert (run.kind, run.state) == (Kind.FIRST, RunState.SUCCEEDED)
    assert counters(run) == {"seen": 120, "imported": 120, "accounts_created": 120}
    assert len(accounts(acme)) == 120


def parameters(simulator: Simulator) -> list[dict[str, str]]:
    """The parameters of each request that not all of them have."""
    common = {
        "productId": simulator.vendor.app.product_id,
        "withDataInsights": "true",
        "limit": "50",
    }
    all_parameters = [request.parameters for request in license_requests(simulator)]
    assert all(common.items() <= query.items() for query in all_parameters)
    return [
        {name: query[name] for name in query.keys() - common.keys()} for query in all_parameters
    ]


def test_a_full_sync_reads_all_lists_and_the_end_of_each_twice(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 120))
    work(connection)
    newer, older = (simulator.requests.pop().parameters for _ in range(2))
    assert older.items() >= {"offset": "0", "endDate": "2018-06-30"}.items()
    assert newer.items() >= {"offset": "0", "startDate": "2018-07-01"}.items()
    assert "withDataInsights" not in older and "withDataInsights" in newer
    assert parameters(simulator) == [
        *({"offset": str(offset)} for offset in (0, 50, 100, 50, 100)),
        {"offset": "0", "showLifeTimeFreeLicenses": "true"},
        {"offset": "0", "cloudComplianceBoundaries": "fedramp_moderate"},
        {"offset": "0", "cloudComplianceBoundaries": "isolated_cloud"},
    ]


def test_a_later_sync_requests_licenses_updated_within_five_days(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 3))
    work(connection)
    simulator.requests.clear()
    simulator.feed.touch(1, (NOON - 5 * DAY).date(), tier="25 Users")
    simulator.feed.change(1, lastUpdated="2026-09-18", tier="100 Users")
    run = sync_now(connection, NOON + 6 * HOUR)
    assert (run.kind, run.state) == (Kind.RECENT, RunState.SUCCEEDED)
    assert parameters(simulator) == [
        {"offset": "0", "lastUpdated": "2026-09-19"},
        {"offset": "0", "lastUpdated": "2026-09-19", "showLifeTimeFreeLicenses": "true"},
    ]
    assert counters(run) == {"seen": 1, "imported": 1, "accounts_updated": 1}
    assert traits(acme, "site-0001")["am.tier"] == "25 Users"
    assert traits(acme, "site-0002")["am.tier"] == "10 Users", "updated before the window"


def test_the_window_is_counted_in_utc_days(connection: Connection, simulator: Simulator) -> None:
    work(connection)
    simulator.requests.clear()
    late = (NOON + 6 * HOUR).replace(hour=23, minute=59)
    sync_now(connection, late.astimezone(timezone(timedelta(hours=3))))
    assert parameters(simulator)[0]["lastUpdated"] == "2026-09-19"


# --- Which records --------------------------------------------------------------------------


@pytest.mark.parametrize("cloud_id", [None, "", "   ", "null", "missing"])
def test_a_license_without_a_cloud_id_is_skipped_and_counted(
    acme: Product, simulator: Simulator, connection: Connection, cloud_id: str | None
) -> None:
    record = a_license(simulator, 1, cloudId=cloud_id)
    if cloud_id == "missing":
        del record["cloudId"]
    simulator.feed.add(record, a_license(simulator, 2))
    run = work(connection)
    assert counters(run) == {
        **{"seen": 2, "imported": 1, "skipped": 1},
        **{"without_cloud_id": 1, "accounts_created": 1},
    }
    assert accounts(acme) == {"site-0002"}


def test_a_license_of_another_product_is_skipped(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    other = a_license(simulator, 1, productId=simulator.vendor.apps[1].product_id)
    simulator.feed.add(other, leaks=True)
    run = work(connection)
    # All four lists contain it.
    assert counters(run) == {"seen": 1, "skipped": 1}
    assert accounts(acme) == set()


def test_an_invalid_record_is_listed_with_its_reason_and_does_not_stop_the_sync(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*MALFORMED, leaks=True)
    simulator.feed.add(a_license(simulator, 1))
    run = work(connection)
    assert run.state == RunState.SUCCEEDED
    assert (run.failed, run.imported) == (6, 1)
    assert {(record.license_key, record.reason) for record in run.failed_records.all()} == {
        ("", "The record is not an object."),
        ("E-LIST", "Its cloudId is not a string."),
        ("E-LONG", "Its cloudId is longer than 512 characters."),
    }
    assert accounts(acme) == {"site-0001"}


def test_a_sync_lists_the_first_hundred_failed_records_and_counts_all(
    simulator: Simulator, connection: Connection
) -> None:
    bad = [a_license(simulator, number, cloudId=[number]) for number in range(230)]
    simulator.feed.add(*bad)
    run = work(connection)
    assert run.failed == 230
    assert run.failed_records.count() == 100


# --- Which accounts -------------------------------------------------------------------------


def test_a_license_belongs_to_the_account_whose_group_id_is_the_cloud_id(
    acme: Product, globex: Product, simulator: Simulator, connection: Connection
) -> None:
    tell(acme, group("site-0001", name="Example Ltd"), group("SITE-0001"))
    tell(globex, group("site-0001"))
    simulator.feed.add(a_license(simulator, 1), a_license(simulator, 2))
    run = work(connection)
    assert (run.accounts_updated, run.accounts_created) == (1, 1)
    assert traits(acme, "site-0001")["name"] == "Example Ltd"
    assert traits(acme, "site-0001")["am.tier.number"] == 10
    assert traits(acme, "SITE-0001") == {}
    assert traits(globex, "site-0001") == {}
    assert Account.objects.get(external_id="site-0002").is_identified


def test_a_license_creates_an_account_that_only_an_unidentified_users_event_mentioned(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    tell(acme, track("stranger", group="site-0001"))
    assert accounts(acme) == set()
    simulator.feed.add(a_license(simulator, 1))
    assert work(connection).accounts_created == 1
    assert accounts(acme) == {"site-0001"}


def test_a_new_account_is_scored(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_license(simulator, 1))
    work(connection)
    assert RescoreRequest.objects.filter(product_id=acme.pk, account_id__isnull=False).exists()


def test_the_traits_come_from_the_best_of_several_licenses_on_one_site(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    trial = {"licenseType": "EVALUATION", "status": "inactive", "tier": "Evaluation"}
    paid = {"licenseType": "COMMERCIAL", "status": "active", "tier": "300 Users"}
    simulator.feed.add(a_license(simulator, 1, "fjord", **trial))
    # Far enough away to be on another page.
    simulator.feed.add(*licenses(simulator, 60, first=100))
    simulator.feed.add(a_license(simulator, 2, "fjord", **paid))
    run = work(connection)
    assert traits(acme, "fjord")["am.licenseType"] == "COMMERCIAL"
    assert traits(acme, "fjord")["am.tier.number"] == 300
    assert (run.accounts_created, run.accounts_updated) == (61, 0), "each account counts once"

    # The window brings the trial alone.
    simulator.feed.touch(1, NOON.date())
    run = sync_now(connection, NOON + 6 * HOUR)
    assert counters(run) == {"seen": 1, "imported": 1}
    assert traits(acme, "fjord")["am.licenseType"] == "COMMERCIAL"


def test_a_trait_that_the_license_no_longer_has_is_removed(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_license(simulator, 1, appEdition="Advanced"))
    work(connection)
    tell(acme, group("site-0001", plan="pro"))
    assert traits(acme, "site-0001")["am.appEdition"] == "Advanced"

    simulator.feed.touch(1, NOON.date(), appEdition=None, tier="Unlimited Users")
    run = sync_now(connection, NOON + 6 * HOUR)
    assert run.accounts_updated == 1
    assert {"am.appEdition", "am.tier.number"}.isdisjoint(traits(acme, "site-0001"))
    assert traits(acme, "site-0001")["am.tier"] == "Unlimited Users"
    assert traits(acme, "site-0001")["plan"] == "pro"


def test_a_license_that_moves_to_another_site_takes_its_traits_along(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_license(simulator, 1, "old"))
    work(connection)
    simulator.feed.touch(1, NOON.date(), cloudId="new")
    run = sync_now(connection, NOON + 6 * HOUR)
    assert traits(acme, "old") == {}
    assert traits(acme, "new")["am.cloudId"] == "new"
    assert (run.accounts_created, run.accounts_updated) == (1, 1)


@pytest.mark.parametrize("hours", [-24, 0, 24])
@pytest.mark.parametrize("told_first", [True, False])
def test_the_connections_value_wins_over_what_the_vendor_sends(
    acme: Product,
    simulator: Simulator,
    connection: Connection,
    hours: float,
    told_first: bool,
) -> None:
    simulator.feed.add(a_license(simulator, 1, cloudSiteHostname="acme.example"))
    message = group("site-0001", hours, None, **{"am.cloudsitehostname": "theirs", "am.unknown": 1})
    if told_first:
        tell(acme, message)
    work(connection)
    if not told_first:
        tell(acme, message)
    assert traits(acme, "site-0001")["am.cloudSiteHostname"] == "acme.example"
    assert traits(acme, "site-0001")["am.unknown"] == 1
    assert "am.cloudsitehostname" not in traits(acme, "site-0001")


def test_a_trait_that_the_vendor_sends_stays_if_no_license_has_it(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    tell(acme, group("site-0001", 0, None, **{"am.cloudsitehostname": "theirs"}))
    simulator.feed.add(a_license(simulator, 1))
    work(connection)
    assert traits(acme, "site-0001")["am.cloudSiteHostname"] == "theirs"


def test_a_renamed_site_keeps_the_hostname_that_it_had_before(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    def hostnames(present: str, update: int) -> list[object]:
        """The present and the former hostname, after another sync."""
        day = f"2026-09-{20 + update}"
        license = a_license(simulator, 1, cloudSiteHostname=present, lastUpdated=day)
        simulator.feed.replace([license])
        sync_now(connection)
        names = ("am.cloudSiteHostname", "am.formerSiteHostname")
        return [traits(acme, "site-0001").get(name) for name in names]

    assert hostnames("old.example", 1) == ["old.example", None]
    assert hostnames("old.example", 2) == ["old.example", None]
    assert hostnames("new.example", 2) == ["new.example", "old.example"]
    assert hostnames("new.example", 3) == ["new.example", "old.example"]
    # An app cannot change it.
    tell(acme, group("site-0001", 99, None, **{"am.formerSiteHostname": "theirs"}))
    assert hostnames("newest.example", 4) == ["newest.example", "new.example"]


def test_a_traits_stamp_holds_the_marketplace_as_source_and_the_time(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_license(simulator, 1))
    work(connection, NOON + HOUR)
    stamps = Account.objects.get(external_id="site-0001").trait_stamps
    assert read_stamp(stamps["am.tier"]) == (Source.MARKETPLACE, NOON + HOUR)


# --- What is written ------------------------------------------------------------------------


def test_unchanged_licenses_cost_no_writes(simulator: Simulator, connection: Connection) -> None:
    simulator.feed.add(*licenses(simulator, 70))
    work(connection)
    before = versions()
    run = sync_now(connection, NOON + 6 * HOUR, Kind.FULL)
    assert counters(run) == {"seen": 70, "unchanged": 70}
    assert versions() == before


def test_a_license_is_written_once_in_a_sync_however_often_it_comes(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.mixes_passes = True
    variants = [a_license(simulator, 1, tier=f"{users} Users") for users in (10, 25)]
    simulator.feed.add(variants[0], variants[1], *licenses(simulator, 60, first=100), variants[1])
    run = work(connection)
    assert run.imported == 61
    assert traits(acme, "site-0001")["am.tier"] in ("10 Users", "25 Users")
    assert run.seen == run.imported + run.unchanged


def test_the_latest_update_of_several_rows_of_a_license_counts(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    old = a_license(simulator, 1, tier="10 Users", lastUpdated="2026-09-01")
    new = a_license(simulator, 1, tier="25 Users", lastUpdated="2026-09-02")
    simulator.feed.add(old, *licenses(simulator, 60, first=100), new, old)
    work(connection)
    assert traits(acme, "site-0001")["am.tier"] == "25 Users"


def test_no_contact_person_is_stored_anywhere(
    simulator: Simulator, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    person = {"email": "planted@example.com", "name": "Planted Person"}
    simulator.feed.add(
        a_license(
            simulator,
            1,
            contactDetails={
                "company": "Example Ltd",
                "country": "RTBF",
                "technicalContact": person,
                "billingContact": person,
            },
            partnerDetails={"billingContact": person},
        )
    )
    work(connection)
    for secret in person.values():
        assert places_of(secret) == set()
        assert secret not in caplog.text
    assert places_of("Example Ltd") == {"engagement_account.traits", "marketplace_license.fields"}


# --- More than one list ---------------------------------------------------------------------


def test_a_full_sync_imports_always_free_licenses_and_those_of_special_clouds(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(
        a_license(simulator, 1, licenseType="FREE"),
        a_license(simulator, 2, cloudComplianceBoundaries=["fedramp_moderate"]),
        a_license(simulator, 3, cloudComplianceBoundaries=["isolated_cloud"]),
    )
    assert counters(work(connection))["imported"] == 3
    assert accounts(acme) == {"site-0001", "site-0002", "site-0003"}


def test_an_extra_list_that_the_marketplace_rejects_is_noted_and_left_out(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_license(simulator, 1))
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=400, after=1, times=3))
    run = work(connection)
    assert run.state == RunState.SUCCEEDED
    assert run.note == (
        "The marketplace does not list always free licenses (400), so they are not synced. "
        "The marketplace does not list licenses of government clouds (400), so they are not "
        "synced. The marketplace does not list licenses of isolated clouds (400), so they are not "
        "synced."
    )
    assert accounts(acme) == {"site-0001"}


def test_a_rejected_main_list_fails_the_sync(simulator: Simulator, connection: Connection) -> None:
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=400))
    work(connection)
    # Nor is it accepted in two parts, from before and after the first day of data insights.
    assert work(connection).state == RunState.FAILED


def test_a_row_that_moves_to_the_previous_page_is_not_missed(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 90))
    removals = iter([0])

    def remove_the_first(_: int) -> None:
        for place in removals:
            simulator.feed.remove(place)

    # After the first page. The license at index 50 then moves to 49, which was read already.
    run = work(connection, create_client=with_page_callback(remove_the_first))
    assert run.state == RunState.SUCCEEDED
    assert "site-0051" in accounts(acme)


def test_the_target_of_the_next_link_does_not_matter(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    simulator.add_faults(
        NextLink(on=Endpoint.LICENSES, offset=0, link="https://evil.example/steal", times=1)
    )
    assert work(connection).state == RunState.SUCCEEDED
    assert len(accounts(acme)) == 60


def test_a_list_that_never_ends_fails_the_sync(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    simulator.add_faults(PaginationDrift(rows=50, on=Endpoint.LICENSES))
    run = work(connection)
    assert run.state == RunState.FAILED
    assert "its list of licenses does not end" in run.error
    assert run.pages < 10


# --- When a sync has to be a full one -------------------------------------------------------


@pytest.mark.parametrize(
    ("full", "success", "kind"),
    [
        (None, None, Kind.FIRST),
        (None, HOUR, Kind.FIRST),
        (6 * HOUR, 6 * HOUR, Kind.RECENT),
        (7 * DAY - HOUR, 6 * HOUR, Kind.RECENT),
        (7 * DAY, 6 * HOUR, Kind.FULL),
        # After so long without a sync, the window would miss something.
        (5 * DAY, 4 * DAY + HOUR, Kind.FULL),
        (5 * DAY, 4 * DAY, Kind.RECENT),
    ],
)
def test_a_scheduled_sync_is_full_every_week_and_after_a_gap(
    connection: Connection, full: timedelta | None, success: timedelta | None, kind: SyncRun.Kind
) -> None:
    SyncRun.objects.all().delete()
    connection.full_synced_at = NOON - full if full else None
    connection.last_success_at = NOON - success if success else None
    connection.save(update_fields=["full_synced_at", "last_success_at"])
    assert scheduling.request_due_syncs(NOON) == 1
    assert latest(connection).kind == kind
    assert (latest(connection).since is None) == (kind != Kind.RECENT)


def test_only_the_newest_syncs_are_kept(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "MAX_KEPT_RUNS", 4)
    for hours in range(7):
        scheduling.request_sync(connection, Kind.RECENT, NOON + hours * HOUR)
        SyncRun.objects.filter(finished_at=None).update(
            state=RunState.SUCCEEDED, finished_at=NOON + hours * HOUR
        )
    assert connection.runs.count() == 4
