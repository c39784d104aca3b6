"""``up --demo`` shows a newcomer a live connection, and leaves none behind that is not real."""

import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management.base import CommandError

from config.local import demo_connection
from config.local.postgres import EmbeddedPostgres
from engagement.models import (
    Account,
    AccountEngagement,
    Event,
    Product,
    RescoreRequest,
    SavedView,
    Segment,
    User,
)
from engagement.segments.members import engagement_rows, members_filter, segment_rule
from harness.demo import ingestion_log as messages
from harness.demo import products as demo
from harness.demo import stories
from harness.demo.licenses import (
    EVALUATIONS,
    MULTI_INSTANCE_SITES,
    MULTI_INSTANCE_TIER,
    showcase_licenses,
)
from harness.demo.population import Size
from harness.marketplace.feed import Feed
from harness.marketplace.records import create_site
from harness.marketplace.server import Simulator
from ingestion.log import last_24h
from ingestion.models import DroppedMessage, DropReason
from marketplace.connecting import DetailsRejected
from marketplace.licenses import matching
from marketplace.licenses.matching import Reason
from marketplace.models import Connection, SyncRun
from marketplace.status import health
from tests.admin.rows import a_connection
from tests.engagement.history import group, tell
from tests.start import small_demo
from tests.start.clicking import Admin
from tests.start.folders import data_folder
from tests.start.running import Up, survivors

NOW = datetime(2026, 9, 24, 12, tzinfo=UTC)
# Of the small demo; not all of them have a license.
HOSTNAMES_OF = range(7, 11)
State = Connection.State


@pytest.fixture
def marketplace() -> Iterator[Simulator]:
    with Simulator.with_licenses(5, today=NOW.date(), seed=demo.SEED) as served:
        yield served


@pytest.mark.django_db
def test_the_demo_product_is_created_once_and_connected(marketplace: Simulator) -> None:
    product = demo.connect_product(marketplace.url, NOW)
    connection = Connection.objects.get(product=product)
    assert connection.state == State.ACTIVE
    Product.objects.filter(pk=product.pk).update(name="Our demo")

    assert demo.connect_product(marketplace.url, NOW) == product
    assert Connection.objects.get().generation == connection.generation
    assert Product.objects.count() == 1


@pytest.mark.django_db
def test_a_start_without_the_demo_disconnects_it_and_another_with_it_connects_it_again(
    marketplace: Simulator, acme: Product
) -> None:
    ours = a_connection(acme)
    product = demo.connect_product(marketplace.url, NOW)
    demo_connection.disconnect(NOW)
    demo_connection.disconnect(NOW)
    connection_after = Connection.objects.defer(None).get(product=product)
    assert (connection_after.state, connection_after.api_token) == (State.DISCONNECTED, None)
    ours.refresh_from_db()
    assert ours.state == State.ACTIVE

    assert demo.connect_product(marketplace.url, NOW) == product
    assert Connection.objects.get(product=product).state == State.ACTIVE


@pytest.mark.django_db
def test_nothing_is_created_if_the_marketplace_refuses_the_demo(marketplace: Simulator) -> None:
    marketplace.replace_token()
    with pytest.raises(DetailsRejected, match="token"):
        demo.connect_product(marketplace.url, NOW)
    assert not Product.objects.exists()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo with few people."""
    monkeypatch.setattr(demo, "CONNECTED_SIZE", small_demo.CONNECTED_SIZE)
    monkeypatch.setattr(demo, "OTHER_PRODUCTS", small_demo.OTHER_PRODUCTS)
    monkeypatch.setattr(demo, "TRIALS", 0)


def test_the_demo_has_as_many_people_as_its_start_says() -> None:
    sizes = [demo.CONNECTED_SIZE, *(size for _, size in demo.OTHER_PRODUCTS.values())]
    assert sum(size.accounts for size in sizes) == 300
    assert sum(size.users for size in sizes) == demo.USER_COUNT == 2_000


def fill(product: Product, stopping: Callable[[], bool] = lambda: False) -> None:
    demo.generate_demo_data(product, lambda: NOW, io.StringIO(), stopping)


@pytest.mark.django_db
@pytest.mark.usefixtures("small")
def test_three_products_are_filled_and_scored(acme: Product) -> None:
    assert demo.is_empty(acme)
    fill(acme)
    assert not demo.is_empty(acme)
    products = Product.objects.order_by("pk")
    assert [product.name for product in products] == ["Acme", *demo.OTHER_PRODUCTS]
    for product in products:
        assert product.workspaces.count() == 3
        for workspace in product.workspaces.select_related("scores"):
            assert workspace.scores is not None and workspace.scores.state == "current"
    default = acme.workspaces.get(name="Default")
    engagement = AccountEngagement.objects.filter(score_set=default.scores_id)
    assert engagement.filter(raw__gt=0).count() > 1
    evaluating = sum(len(customer.people) for customer in demo._evaluating(NOW))
    assert User.objects.count() == 50 + evaluating
    views = SavedView.objects.filter(product=acme, owner=None).values_list(
        "name", "workspace__name"
    )
    assert set(views) == {(name, "Default") for name in ("Falling", "Stopped", "Renewals at risk")}


@pytest.mark.django_db
@pytest.mark.usefixtures("small")
def test_the_connected_products_customers_are_those_whose_licenses_are_served(
    acme: Product, marketplace: Simulator
) -> None:
    fill(acme)
    account_ids = set(Account.objects.filter(product=acme).values_list("external_id", flat=True))
    running = range(stories.FIRST_SITE, stories.FIRST_SITE + len(stories.RUNNING))
    assert account_ids == {site_of(number) for number in (*range(6), *running)}


@pytest.mark.django_db
def test_the_demo_shows_evaluations_hostnames_a_multi_instance_customer_and_a_token_that_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "HOSTNAMES_OF", HOSTNAMES_OF)
    monkeypatch.setattr(demo, "CONNECTED_SIZE", Size(max(EVALUATIONS) + 1, 60, days=5))
    monkeypatch.setattr(demo, "OTHER_PRODUCTS", {})
    monkeypatch.setattr(demo, "TRIALS", 0)
    records = showcase_licenses(demo.VENDOR, demo.SEED, demo.LICENSES, NOW.date())
    with Simulator(Feed(records), demo.VENDOR) as served:
        product = demo.connect_product(served.url, NOW)
        fill(product)
        demo.import_licenses(product, served.url, lambda: NOW)
        # A later start has nothing to import.
        demo.import_licenses(product, served.url, lambda: NOW)
    connection = Connection.objects.get(product=product)
    run = SyncRun.objects.get(connection=connection)
    assert RescoreRequest.objects.count() == 0
    assert (run.state, run.seen) == ("succeeded", demo.LICENSES)
    evaluating = {site_of(number) for number in EVALUATIONS}
    for workspace in product.workspaces.select_related("scores"):
        assert workspace.scores is not None
        rule = segment_rule(Segment.objects.get(workspace=workspace, name="Evaluating"))
        members = engagement_rows(workspace.scores, "account").filter(
            members_filter(workspace.scores, rule)
        )
        # Others may be evaluating, too.
        assert set(members.values_list("account__external_id", flat=True)) >= evaluating
    for number in MULTI_INSTANCE_SITES:
        lent = Account.objects.get(product=product, external_id=site_of(number)).traits
        assert lent["am.tier"] == MULTI_INSTANCE_TIER and lent["am.tier.lentBy"]
    notice = health.expiry_notice(connection, NOW.date())
    assert notice is not None and notice.text.startswith("The API token expires in 20 days")
    default = product.workspaces.select_related("scores").get(name="Default")
    assert default.scores is not None
    with_license = {record.get("cloudId") for record in records}
    sites = [create_site(demo.SEED, number) for number in HOSTNAMES_OF]
    by_hostname = {site.hostname: site.cloud_id for site in sites if site.cloud_id in with_license}
    # What some apps send instead of the Cloud ID.
    assert by_hostname
    assert by_hostname == {
        account.external_id: account.cloud_id
        for account in matching.compare(default.scores).unlicensed
        if account.reason is Reason.HOSTNAME
    }


def site_of(number: int) -> str:
    return create_site(demo.SEED, number).cloud_id


@pytest.mark.django_db
@pytest.mark.usefixtures("small")
def test_its_products_look_as_if_their_messages_had_come_through_the_inbox(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There are few, and some are to be dropped for either reason.
    monkeypatch.setattr(messages, "DUPLICATE_SHARE", 0.4)
    monkeypatch.setattr(messages, "ANONYMOUS_SHARE", 0.4)
    fill(acme)
    summary = last_24h.for_products([acme.pk], NOW)[acme.pk]
    events = Event.objects.filter(product=acme, received_at__gt=NOW - timedelta(hours=23))
    assert sum(summary.recorded) == events.count() > 0
    dropped = DroppedMessage.objects.filter(product=acme)
    assert {reason: sum(counts) for reason, counts in summary.dropped.items()} == {
        DropReason(reason): dropped.filter(reason=reason).count()
        for reason in dropped.values_list("reason", flat=True)
    }
    assert set(summary.dropped) == {DropReason.DUPLICATE, DropReason.ANONYMOUS}


@pytest.mark.django_db
def test_a_product_whose_users_were_deleted_is_not_filled_again(acme: Product) -> None:
    tell(acme, group("a site"))
    assert not demo.is_empty(acme)


@pytest.mark.django_db
@pytest.mark.usefixtures("small")
def test_an_interrupted_start_leaves_no_data(acme: Product) -> None:
    fill(acme, stopping=lambda: True)
    assert demo.is_empty(acme)
    assert Product.objects.get() == acme
    fill(acme)
    assert not demo.is_empty(acme)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "is_refused"),
    [
        ({}, True),
        ({"state": State.REQUIRES_AUTHENTICATION}, True),
        ({"state": State.DISCONNECTED, "api_token": None}, False),
        ({"user_name": demo.VENDOR.user_name, "vendor_id": demo.VENDOR.vendor_id}, False),
    ],
)
def test_the_demo_does_not_start_beside_a_connection_to_a_real_marketplace(
    acme: Product, fields: dict[str, Any], is_refused: bool
) -> None:
    demo.require_no_real_connections()
    a_connection(acme, **fields)
    if is_refused:
        with pytest.raises(CommandError, match="connected to a real one; set EDS_DATA_DIR"):
            demo.require_no_real_connections()
    else:
        demo.require_no_real_connections()


@pytest.fixture
def folder() -> Iterator[Path]:
    with data_folder("demo") as folder:
        yield folder


def test_a_newcomer_sees_a_live_connection_and_every_line_is_an_object(folder: Path) -> None:
    program = ("-m", small_demo.__name__)
    up = Up(folder, "--demo", program=program, EDS_LOG_FORMAT="json").wait_until_running()
    try:
        processes = up.processes()
        with Admin(up) as admin:
            (address,) = admin.connections()
            page = admin.page(f"{address}change/")
        assert "Succeeded." in page, "the licenses are there before anybody looks"
        assert "<strong>Connected.</strong>" in page
        assert f'data-label="Licenses seen">{demo.LICENSES}<' in page
        assert "The API token expires in 20 days" in page
        evaluations, lent = _license_kinds(up)
        # Others may be evaluating, too.
        assert evaluations >= len(EVALUATIONS) and lent == len(MULTI_INSTANCE_SITES)
        assert f"{demo.PRODUCT_NAME} is connected to a simulated marketplace" in up.text
        assert demo.VENDOR.token not in up.text
        assert "300 accounts, 2,000 users" in up.text
    finally:
        up.end()
    assert survivors(processes) == []
    lines = [json.loads(line) for line in up.output]
    assert all(isinstance(line, dict) and line["message"] is not None for line in lines)
    assert {"up", "postgres", "web"} <= {line.get("process") for line in lines}


def _license_kinds(up: Up) -> tuple[int, int]:
    """How many accounts have an evaluation, and how many a tier of a multi-instance license."""
    address = EmbeddedPostgres(up.data_dir / "postgres").database_settings()
    with psycopg.connect(
        host=address["HOST"], dbname=address["NAME"], user=address["USER"]
    ) as database:
        (counts,) = database.execute(
            "SELECT count(*) FILTER (WHERE traits->>'am.licenseType' = 'EVALUATION' "
            "AND traits->>'am.status' = 'active'), "
            "count(*) FILTER (WHERE traits ? 'am.tier.lentBy') FROM engagement_account"
        ).fetchall()
    evaluations, lent = counts
    return evaluations, lent
