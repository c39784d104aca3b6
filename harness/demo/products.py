"""The demo of ``up --demo``: products with generated data, and nothing to set up.

The licenses of one product come from a simulated marketplace that runs beside the service.
Everything here is safe to repeat on each start.
"""

import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import IO

from django.core.management.base import CommandError
from django.db import transaction

from config.local.demo_connection import demo_connections
from config.setup.provisioning import create_product
from core.progress import ProgressReporter
from engagement.models import Account, Product, RescoreRequest
from engagement.rescoring import rescore
from harness.demo import loading, past_segments, rewinding, stories, vocabulary, work
from harness.demo.ingestion_log import fill_last_24h
from harness.demo.licenses import PAST_TRIALS
from harness.demo.population import Customer, Size
from harness.demo.subscriptions import SubscriptionTruth
from harness.demo.vocabulary import Company
from harness.marketplace.records import Site, create_site
from harness.marketplace.server import LOOPBACK
from harness.marketplace.vendor import create_vendor
from ingestion.models import IngestionKey
from marketplace import connecting
from marketplace.connecting import ConnectionOptions
from marketplace.models import Connection
from marketplace.runs import report_sources
from marketplace.runs.sync import SyncEnvironment, run_sync
from marketplace.source.client import (
    INTERACTIVE_RETRY_POLICY,
    Credentials,
    MarketplaceClient,
    new_session,
)
from notifications.models import Destination, Digest
from outcomes.models import StoredForecast

PRODUCT_NAME = "Board Lens (demo)"
# Some sites have two licenses, some customers do not use theirs, and 96 have tried the app.
LICENSES, TRIALS = 300, PAST_TRIALS
# A seed whose vendor differs from that of a simulator started by hand.
SEED = 2026
VENDOR = create_vendor(SEED)
# The customers for whom an older version of the app sends the hostname of the site, and others
# whose apps send the Cloud ID in a form of their own.
HOSTNAMES_OF = range(120, 138)
OTHER_FORMS: dict[int, Callable[[Site], str]] = {
    138: lambda site: site.cloud_id.upper(),
    139: lambda site: f"https://{site.hostname}/",
    140: lambda site: f"ari:cloud:jira::site/{site.cloud_id}",
    141: lambda site: f"old-{site.hostname}",
    142: lambda site: "jira:15489595",
}
# The products have 300 customers and 2,000 users together. Alarms of half a year are decided, by up
# to 24 weeks before each night. Single events are recent only.
DAYS, EVENT_DAYS = 51 * 7, 7
CONNECTED_SIZE = Size(160, 1100, DAYS, EVENT_DAYS)
OTHER_PRODUCTS = {
    "Ledgerly (demo)": (vocabulary.INVOICES, Size(90, 600, DAYS, EVENT_DAYS)),
    "Fieldnote (demo)": (vocabulary.NOTES, Size(50, 300, DAYS, EVENT_DAYS)),
}
# Whether the score predicts who pauses the subscription: not at all, well, and too few to say.
SUBSCRIPTIONS = {
    PRODUCT_NAME: SubscriptionTruth(0.15),
    "Ledgerly (demo)": SubscriptionTruth(0.3, slope=2.0, points=12.0),
    "Fieldnote (demo)": SubscriptionTruth(0.2, customers=6),
}
USER_COUNT = CONNECTED_SIZE.users + sum(size.users for _, size in OTHER_PRODUCTS.values())
TOKEN_LIFE = timedelta(days=20)
PORTS = range(20_000, 32_000)
# Seconds within which the simulated marketplace must listen.
START_TIMEOUT = 30.0


class DemoMarketplace:
    """The address of the demo's marketplace, and the command that runs it."""

    def __init__(self) -> None:
        self.port = _free_port()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def command(self) -> list[str]:
        options = {"licenses": LICENSES, "seed": SEED, "port": self.port, "verbosity": 0}
        arguments = [f"--{name}={value}" for name, value in options.items()]
        return [sys.executable, "manage.py", "marketplace_simulator", "--showcase", *arguments]

    def wait_until_ready(self, process: "subprocess.Popen[bytes]") -> None:
        """Return when *process*, which runs the command, listens. CommandError if it ended."""
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex((LOOPBACK, self.port)) == 0:
                    return
            time.sleep(0.05)
        raise CommandError(
            "the demo's marketplace does not start; start the service without --demo."
        )


def _free_port() -> int:
    """A port that nothing uses, below those that the system hands out.

    The marketplace listens only later, and a connection could be made from such a port meanwhile.
    """
    for port in random.sample(PORTS, 100):
        with suppress(OSError), socket.socket() as probe:
            probe.bind((LOOPBACK, port))
            return port
    raise CommandError("the demo finds no free port; start the service without --demo.")


def require_no_real_connections() -> None:
    """Raise CommandError if a product is connected to the real marketplace.

    The demo would send that product's token to its own marketplace.
    """
    live = Connection.objects.exclude(state=Connection.State.DISCONNECTED)
    if live.exclude(pk__in=demo_connections().values("pk")).exists():
        raise CommandError(
            "the demo simulates the marketplace, and products of this service are connected to a "
            "real one; set EDS_DATA_DIR to another folder for the demo."
        )


def connect_product(marketplace_url: str, now: datetime) -> Product:
    """Connect the demo's product to its marketplace. Create the product if there is none."""
    # Soon, so that the notice about it shows.
    token_expires_on = now.date() + TOKEN_LIFE
    connection = demo_connections().select_related("product").first()
    if connection is not None and connection.state == Connection.State.ACTIVE:
        demo_connections().update(token_expires_on=token_expires_on)
        return connection.product
    details = connecting.verify_details(_details(), partial(_client, marketplace_url))
    with transaction.atomic():
        product = connection.product if connection else Product.create_with_workspace(PRODUCT_NAME)
        options = ConnectionOptions(token_expires_on=token_expires_on)
        connecting.save_connection(product, details, now, options)
    return product


def is_empty(connected: Product) -> bool:
    """Return whether the demo's data still has to be generated, which needs a product without rows.

    An account may be left of a license although all users were deleted.
    """
    return not Account.objects.filter(product=connected).exists()


def generate_demo_data(
    connected: Product,
    clock: Callable[[], datetime],
    output: IO[str],
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Generate the data of *connected*, create the other products, and score all of them.

    *connected* is the product with the simulated marketplace. The data is committed as a whole, and
    not at all if *stopping* returns true.
    """
    evaluating = _evaluating(clock())
    users = USER_COUNT + sum(len(customer.people) for customer in evaluating)
    progress, written_count = ProgressReporter(output, users), 0
    try:
        with transaction.atomic():
            products = [connected, *_create_others()]
            for user_count in _fill(products, evaluating, clock()):
                written_count += user_count
                progress.show(written_count, f"{written_count:,} of {users:,} users")
                if stopping():
                    transaction.set_rollback(True)
                    return
            _add_digest(connected)
            # They are set up. The first product, which is empty, shows the checklist.
            Product.objects.filter(pk__in=[each.pk for each in products]).update(
                shows_checklist=False
            )

        def scoring(how_far: str) -> bool:
            progress.show(written_count, how_far)
            return stopping()

        loading.score_products(products, clock, scoring)
        if not stopping():
            work.plant(connected, clock())
    finally:
        progress.finish()


def _add_digest(product: Product) -> None:
    """A digest to an address that nobody confirms: it has a preview, and nothing is sent."""
    address = Destination.objects.create(
        product=product,
        kind=Destination.Kind.EMAIL,
        name="Customer success",
        address="cs@example.com",
        address_hint="c…@example.com",
    )
    Digest.objects.create(
        product=product,
        workspace=product.workspaces.earliest("pk"),
        destination=address,
        time_zone="Europe/Berlin",
    )


def import_licenses(
    connected: Product,
    marketplace_url: str,
    clock: Callable[[], datetime],
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Work on the sync that *connected* waits for, if any, have the history of its licenses read,
    and score the accounts again."""
    environment = SyncEnvironment(partial(_client, marketplace_url), clock, stopping)
    connection = Connection.objects.get(product=connected)
    run_sync(connection.pk, environment)
    # Whoever reads it once more has the same events.
    report_sources.request_history(connection, clock())
    queue = RescoreRequest.objects.all()
    # Jobs that follow scoring go on in the background.
    rescore.rescore(clock(), out_of_time=lambda: stopping() or not queue.exists())


def look_back(
    connected: Product,
    clock: Callable[[], datetime],
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Have the ledger of *connected* computed now, and forecasts of past months beside it, unless
    there are any; and give its segments a past."""
    if not StoredForecast.objects.filter(product=connected).exists():
        connection = Connection.objects.get(product=connected)
        rewinding.read_ledger(connection, clock)
        rewinding.forecast_past_months(connected, clock(), stopping)
    first = connected.workspaces.select_related("scores").earliest("pk")
    if first.scores is not None:
        past_segments.plant(first, stopping)


def _create_others() -> list[Product]:
    names = Product.objects.filter(name__in=OTHER_PRODUCTS).values_list("name", flat=True)
    missing = OTHER_PRODUCTS.keys() - set(names)
    ids = [create_product(name).product_id for name in OTHER_PRODUCTS if name in missing]
    return list(Product.objects.filter(pk__in=ids).order_by("pk"))


def _evaluating(now: datetime) -> list[Customer]:
    """The customers with an evaluation that has a story."""
    trials = stories.trials(SEED, now.astimezone(UTC).date(), TRIALS)
    return list(
        stories.customers_of_trials(
            trials, vocabulary.BOARDS.features, now, _site, CONNECTED_SIZE.users, EVENT_DAYS
        )
    )


def _fill(products: list[Product], evaluating: Sequence[Customer], now: datetime) -> Iterator[int]:
    connected, *others = products
    for product in products:
        loading.add_workspaces(product, with_licenses=product == connected)
    IngestionKey.create(connected, "web")
    truth = SUBSCRIPTIONS[PRODUCT_NAME]
    yield from loading.populate(
        *(connected, vocabulary.BOARDS, CONNECTED_SIZE, now),
        company=_site,
        truth=truth,
        others=evaluating,
    )
    for seed, product in enumerate(others):
        catalog, size = OTHER_PRODUCTS[product.name]
        truth, company = SUBSCRIPTIONS[product.name], _customer_of(seed)
        yield from loading.populate(
            product, catalog, size, now, seed=seed, company=company, truth=truth
        )
    for seed, product in enumerate(products):
        fill_last_24h(product.pk, now, seed=seed)


def _site(number: int) -> Company:
    """Return the customer that owns licenses of the simulated marketplace."""
    site, company = create_site(SEED, number), vocabulary.company(number)
    sent_id = OTHER_FORMS[number](site) if number in OTHER_FORMS else site.cloud_id
    return company._replace(
        external_id=site.hostname if number in HOSTNAMES_OF else sent_id,
        name=site.company,
        domain=site.hostname,
        country=site.country,
    )


def _customer_of(seed: int) -> Callable[[int], Company]:
    """Return a source of customers that differ from those of other seeds."""
    return lambda number: vocabulary.company(1000 * (seed + 1) + number)


def _details() -> connecting.ConnectionDetails:
    app = VENDOR.app.product_id
    return connecting.ConnectionDetails(VENDOR.user_name, VENDOR.token, VENDOR.vendor_id, app)


def _client(url: str, credentials: Credentials) -> MarketplaceClient:
    return MarketplaceClient(new_session(), url, credentials, INTERACTIVE_RETRY_POLICY)
