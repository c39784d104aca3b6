"""The kit for Forge apps, with the platform's real packages and a fake of its two globals."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings
from django.template.loader import render_to_string
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from engagement.models import Account, Event, Product, User
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


def test_the_sample_has_a_first_score_on_this_machine(
    kit: Path, node: str, service: Service
) -> None:
    program = kit / "try" / "try.mjs"
    without = subprocess.run([node, program], capture_output=True, text=True, timeout=PATIENCE)
    assert (without.returncode, without.stderr) == (2, "Set EDS_URL and EDS_KEY.\n")
    settings_of_app = {**os.environ, "EDS_URL": service.address, "EDS_KEY": service.key}
    app = subprocess.run(
        [node, program], env=settings_of_app, capture_output=True, text=True, timeout=PATIENCE
    )
    assert app.returncode == 0, app.stdout + app.stderr
    service.until_drained()
    sites = re.findall(r"^(\S+): \d+ events$", app.stdout, re.MULTILINE)
    events = Counter(event.account for event in service.events("") if event.account in sites)
    assert [events[site] for site in sites] == [6, 3, 2]
    counts = {"Report_Created": 5, "Reports_Viewed": 1}
    assert service.read_counted("account", sites[0], counts)["score"] > 0


def blocks_of(document: str, heading: str, language: str) -> list[str]:
    """The blocks of code under the heading of the guide."""
    section = document.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def pasted() -> dict[str, str]:
    """What people paste, by where they find it."""
    guide = (settings.BASE_DIR / "docs" / "forge.md").read_text("utf-8")
    by_place = {"guide, Connect": "\n".join(blocks_of(guide, "Connect", "js"))}
    block = re.compile(r"<summary>(.*?)</summary>.*?<code>(.*?)</code>", re.DOTALL)
    for lines in ("cloud id", "bare id"):
        html = render_to_string("config/matching_lines.html", {"lines": lines})
        for kit_name, code in block.findall(html):
            if "Forge" not in kit_name:
                by_place[f"report, {lines}, {kit_name}"] = unescape(code)
    return by_place


@pytest.mark.django_db(transaction=True)
def test_lines_to_paste_send_the_cloud_id(
    node: str, acme: Product, acme_key: str, live_server: LiveServer
) -> None:
    program = HERE / "programs" / "paste.mjs"
    everything = pasted()
    assert len(everything) == 5
    for where, code in everything.items():
        site = str(uuid4())
        app = subprocess.run(
            [node, program, live_server.url, acme_key, site],
            input=code,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert app.returncode == 0, (where, app.stderr)
        drain(timezone.now())
        event = Event.objects.select_related("account").latest("occurred_at")
        assert event.account is not None and event.account.external_id == site, where


@pytest.mark.django_db(transaction=True)
def test_the_bodies_of_the_relay_make_a_user_of_the_site(acme: Product, acme_key: str) -> None:
    guide = (settings.BASE_DIR / "docs" / "forge.md").read_text("utf-8")
    site, now = str(uuid4()), timezone.now()
    values = {"distinct_id": "ada", "event": "Report_Created", "uuid": str(uuid4())}
    values |= {"timestamp": now.isoformat(), "properties.cloud_id": site}
    bodies = blocks_of(guide, "The relay", "json")
    assert len(bodies) == 2
    for body in bodies:
        message = re.sub(r"\{event\.([\w.]+)\}", lambda name: values[name[1]], body)
        headers = {"Authorization": f"Basic {acme_key}"}
        answer = Client().post("/segment", message, "application/json", headers=headers)
        assert answer.status_code == 202
    drain(now + timedelta(seconds=1))
    event = Event.objects.get(product=acme)
    user = User.objects.get(product=acme, is_identified=True)
    assert event.account is not None and event.account.external_id == site
    assert (user.external_id, user.account_id) == ("ada", event.account_id)


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
