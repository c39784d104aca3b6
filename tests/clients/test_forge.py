"""The kit for Forge apps, with the platform's real packages and a fake of its two globals."""

import json
import shutil
import subprocess
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings
from django.utils import timezone
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from engagement.models import Account, Product, User
from harness.marketplace.feed import Feed
from harness.marketplace.server import Simulator
from harness.marketplace.vendor import create_vendor
from tests.clients.conftest import HERE
from tests.clients.proxy import Proxy
from tests.clients.service import Service
from tests.marketplace import connections
from tests.pipeline.waiting import drain
from tests.start.running import until

KIT = settings.BASE_DIR / "clients" / "forge"
CLICKS = 60
# Seconds, longer than the longest run.
PATIENCE = 150.0


@pytest.fixture(scope="module")
def kit(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the kit that finds the platform's packages, as in an app."""
    folder = tmp_path_factory.mktemp("forge") / "kit"
    shutil.copytree(KIT, folder)
    (folder / "node_modules").symlink_to(HERE / "node_modules")
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


def test_the_tests_of_the_kit_pass(kit: Path, node: str) -> None:
    tests = sorted(map(str, (kit / "test").glob("*.test.mjs")))
    result = subprocess.run(
        [node, "--test", "--test-reporter=tap", *tests],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert result.returncode == 0, result.stdout
    assert "# fail 0" in result.stdout and len(tests) == 2


def test_each_click_counts_once_in_its_site_at_its_time(
    kit: Path, node: str, service: Service
) -> None:
    """Through an outage, a killed web role, lost responses, and a queue that delivers twice."""
    sites = [str(uuid4()) for _ in range(4)]
    began = datetime.now(UTC)
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy(service.address, lose=3).running())
        app = subprocess.Popen(
            [
                node,
                HERE / "programs" / "forge_app.mjs",
                kit,
                proxy.address,
                service.key,
                str(CLICKS),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        stack.callback(app.kill)
        assert app.stdin is not None
        app.stdin.write(json.dumps(sites))
        app.stdin.close()
        app.stdin = None
        with service.outage():
            until(lambda: 503 in proxy.statuses(), "a refused delivery")
        until(lambda: 200 in proxy.statuses(), "a delivery")
        service.kill_the_web_role()
        output, _ = app.communicate(timeout=PATIENCE)
        assert app.returncode == 0, output
    service.until_drained()
    events = [event for event in service.events("") if event.account in sites]
    once = sorted((site, f"Click_{click}") for site in sites for click in range(CLICKS))
    assert sorted((event.account or "", event.event) for event in events) == once
    # A person who works at several sites is one user.
    assert len({event.user for event in events}) == 3
    assert all(began <= event.at < began + timedelta(seconds=60) for event in events)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_licensed_first", [False, True])
def test_a_license_lands_on_the_account_of_the_apps_events(
    kit: Path,
    node: str,
    acme: Product,
    acme_key: str,
    live_server: LiveServer,
    settings: Settings,
    is_licensed_first: bool,
) -> None:
    site, now = str(uuid4()), timezone.now()
    with Simulator(Feed([]), create_vendor()) as marketplace:
        settings.MARKETPLACE_API_URL, settings.MARKETPLACE_PROXIES = marketplace.url, {}
        marketplace.feed.add(connections.a_license(marketplace, cloud=site))
        connection = connections.connect(acme, marketplace, now)
        if is_licensed_first:
            connections.work(connection, now)
        program = HERE / "programs" / "forge_app.mjs"
        app = subprocess.run(
            [node, program, kit, live_server.url, acme_key, "3"],
            input=json.dumps([site]),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert app.returncode == 0, app.stdout + app.stderr
        drain(timezone.now())
        if not is_licensed_first:
            connections.work(connection, now)
    account = Account.objects.get(product=acme)
    assert (account.external_id, account.traits["am.tier"]) == (site, "10 Users")
    assert {user.account_id for user in User.objects.filter(product=acme)} == {account.pk}
