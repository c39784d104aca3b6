"""A cluster with a dead node records, scores, and reads everybody else, and says what waits."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import User as Login
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from config.operations import doctor
from core.database import nodes, sql
from core.models import Job
from engagement import tasks as engagement_tasks
from engagement.models import Event, Product, UserEngagement
from engagement.recording import reattribution
from engagement.recording.jobs import REATTRIBUTE
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.removal.jobs import DELETE_PRODUCT, ERASE_FORGOTTEN
from exports import tasks as export_tasks
from harness.cluster import Node
from ingestion import tasks
from ingestion.drain import claims
from ingestion.models import ClaimedBatch, IngestionKey
from ingestion.tasks import drain as drain_task
from notifications import tasks as notification_tasks
from readapi.models import ApiToken
from tests import database
from tests.database import needs_citus
from tests.engagement.history import NOON, identify, tell, track
from tests.pipeline.waiting import counts, drain, quarantined, wait, waiting

pytestmark = [needs_citus, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

NODE_OF = """
    SELECT n.nodename FROM pg_dist_placement l JOIN pg_dist_node n USING (groupid)
    WHERE l.shardid = get_shard_id_for_distribution_column('engagement_user', %(product)s::bigint)
"""


def node_of(product: Product) -> Node:
    assert database.cluster is not None
    ((name,),) = sql.fetch(NODE_OF, {"product": product.pk})
    (node,) = [node for node in database.cluster.nodes if node.address == name]
    return node


@pytest.fixture
def globex(acme: Product) -> Product:
    """A product on another node than Acme's."""
    for number in range(50):
        product = Product.create_with_workspace(f"Globex {number}")
        if node_of(product) is not node_of(acme):
            return product
    raise AssertionError("All products are on one node.")


@pytest.fixture
def globex_key(globex: Product) -> str:
    return IngestionKey.create(globex, "test").secret


@pytest.fixture(autouse=True)
def looked_a_moment_ago(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have each look at the nodes be a new one, and leave nothing for later tests."""
    monkeypatch.setattr(nodes, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(nodes, "RECHECK_FACTOR", 0.0)
    monkeypatch.setattr(nodes, "_logged_at", float("-inf"))
    yield
    assert not nodes.look()


@contextmanager
def without_node_of(product: Product) -> Iterator[str]:
    """Have the product's node dead during the block; its name."""
    node = node_of(product)
    node.stop(signal.SIGQUIT)
    try:
        yield f"{node.address}:5432"
    finally:
        node.start()
        node.wait()


def test_products_on_other_nodes_are_recorded_and_the_others_wait_in_order(
    acme: Product, globex: Product, acme_key: str, globex_key: str
) -> None:
    with without_node_of(acme):
        theirs = wait(acme_key, identify("ann", plan="free"), track("ann"))
        wait(globex_key, track("gil"))
        assert drain().is_empty
        theirs += wait(acme_key, identify("ann", plan="pro"), track("ann"))
        wait(globex_key, track("gil"))
        for _ in range(5):
            drain()
        assert counts(globex) == {("gil", "opened"): 2}
        assert waiting() == theirs
        assert not ClaimedBatch.objects.exists()
    drain()
    assert counts(acme) == {("ann", "opened"): 2}
    assert counts(globex) == {("gil", "opened"): 2}
    assert (waiting(), quarantined()) == ([], [])


def test_an_unfinished_batch_goes_on_without_the_missing_node(
    acme: Product, globex: Product, acme_key: str, globex_key: str
) -> None:
    """Whatever number of attempts it has: no message is quarantined for the node's death."""
    theirs = wait(acme_key, track("ann"))
    ids = theirs + wait(globex_key, track("gil"))
    ClaimedBatch.objects.create(message_ids=ids, attempts=claims.MAX_BATCH_ATTEMPTS)
    with without_node_of(acme):
        for _ in range(2 * claims.MAX_SINGLE_ATTEMPTS):
            drain()
        assert counts(globex) == {("gil", "opened"): 1}
        assert waiting() == theirs
    drain()
    assert counts(acme) == {("ann", "opened"): 1}
    assert quarantined() == []


def test_background_tasks_go_on_for_the_others(
    acme: Product, globex: Product, acme_key: str, globex_key: str
) -> None:
    engagement_tasks.rescore()
    wait(acme_key, identify("ann", -1, "initech"), track("ann"))
    wait(globex_key, identify("gil", -1, "hooli"), track("gil"))
    drain(timezone.now())
    with without_node_of(acme):
        engagement_tasks.rescore()
        assert UserEngagement.objects.filter(product_id=globex.pk).exists()
        # None of them fails.
        engagement_tasks.reattribute()
        engagement_tasks.maintain()
        engagement_tasks.clear()
        tasks.maintain()
        drain_task()
        notification_tasks.sweep()
        export_tasks.run()
    engagement_tasks.rescore()
    assert UserEngagement.objects.filter(product_id=acme.pk).exists()


def test_jobs_of_the_others_go_on_and_those_of_the_node_wait_without_a_failure(
    acme: Product, globex: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reattribution, "MAX_EVENTS_PER_BATCH", -100)
    for product in (acme, globex):
        tell(product, identify("ann", -1000, "initech"), track("ann"))
        tell(product, identify("ann", -1, "hooli"))
        forgetting.forget(SubjectRef(product.pk, SubjectScope.USER, "bob"), timezone.now())
    for kind in (REATTRIBUTE, ERASE_FORGOTTEN, DELETE_PRODUCT):
        Job.objects.create(kind=kind, key=acme.pk, due_at=NOON)
    with without_node_of(acme):
        for _ in range(2):
            engagement_tasks.reattribute()
            engagement_tasks.clear()
        assert {account for _, account in accounts_of(globex)} == {"hooli"}
        jobs = Job.objects.exclude(key="")
        assert sorted(jobs.values_list("kind", "key", "failures")) == [
            (kind, str(acme.pk), 0) for kind in (DELETE_PRODUCT, ERASE_FORGOTTEN, REATTRIBUTE)
        ]
    engagement_tasks.reattribute()
    engagement_tasks.clear()
    assert {account for _, account in accounts_of(acme)} == {"hooli"}
    assert not Job.objects.filter(key=acme.pk).exists()


def accounts_of(product: Product) -> list[tuple[str, str]]:
    """The user and the account of each event."""
    events = Event.objects.filter(product=product)
    return list(events.values_list("user__external_id", "account__external_id"))


def test_the_others_are_read(acme: Product, globex: Product) -> None:
    engagement_tasks.rescore()
    with without_node_of(acme):
        statuses = {
            product: Client(
                headers={"authorization": f"Bearer {ApiToken.create(product, 'test').secret}"}
            )
            .get(f"/v2/accounts?workspace_id={product.workspaces.get().pk}")
            .status_code
            for product in (acme, globex)
        }
    assert statuses == {acme: 503, globex: 200}


def test_monitors_say_which_node_is_missing_and_which_products_wait(
    acme: Product, globex: Product, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    drain_task()
    settings.METRICS_TOKEN = "metrics"
    client = Client(headers={"authorization": "Bearer metrics"})
    with without_node_of(acme) as name, caplog.at_level(logging.WARNING):
        waiting_ids = [pk for pk in (acme.pk, globex.pk) if pk in nodes.missing_nodes()[name]]
        assert waiting_ids == [acme.pk]
        ready = client.get("/readyz")
        metrics = client.get("/metrics")
        finding = doctor.check_nodes()
        for _ in range(3):
            engagement_tasks.rescore()
        lines = [each.message for each in caplog.records if name in each.message]
    assert ready.status_code == 200
    sentence = ready.json()["checks"]["nodes"]
    assert sentence.startswith(f"Node {name} of the cluster cannot be reached: product")
    assert str(acme.pk) in sentence
    assert lines == [sentence]
    assert metrics.status_code == 200
    text = metrics.content.decode()
    assert "eds_cluster_nodes_missing 1.0" in text
    assert f'eds_cluster_products_waiting{{node="{name}"}}' in text
    assert "eds_rescore_requests" in text
    assert finding.status is doctor.Status.PROBLEM
    assert name in finding.sentence and "Acme" in finding.sentence
    assert client.get("/readyz").json()["checks"]["nodes"] == "ok"
    assert "eds_cluster_nodes_missing 0.0" in client.get("/metrics").content.decode()
    assert doctor.check_nodes().status is doctor.Status.OK


def test_the_admin_says_it_on_the_products_card(acme: Product, globex: Product) -> None:
    engagement_tasks.rescore()
    client = Client()
    client.force_login(Login.objects.create_superuser("root"))
    with without_node_of(acme) as name:
        home = client.get("/admin/")
        card = client.get(f"/admin/?product={acme.pk}")
        accounts = client.get(f"/admin/engagement/account/?workspace={acme.workspaces.get().pk}")
        others = client.get(f"/admin/engagement/account/?workspace={globex.workspaces.get().pk}")
    for page in (home, card):
        assert page.status_code == 200
        assert f"Node {name} of the database" in page.content.decode()
    assert accounts.status_code == 503
    assert "Part of the database cannot be reached" in accounts.content.decode()
    assert others.status_code == 200
