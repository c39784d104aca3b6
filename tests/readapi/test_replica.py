"""With a real streaming replica: it serves reads, and the primary serves writes and tokens."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from threading import Thread
from types import SimpleNamespace
from typing import Any

import gevent
import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import User as AdminUser
from django.db import connection, connections
from django.db.utils import InternalError
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoDbBlocker

from config import environment
from config.operations import health
from core.database import routing, sql
from engagement.models import Account, CachedCounts, Product, Segment, Workspace
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from harness.standby import Standby
from readapi import queries, replica, throttling
from readapi.models import ApiToken, Usage
from tests.database import FOLDER, one_server_as
from tests.engagement.history import NOON, group, tell
from tests.readapi import following
from tests.readapi.conftest import Reads, reader
from tests.readapi.following import Replica, until
from tests.readapi.scored import account_id, fill, user_id
from tests.readapi.statements import statements_by_database

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", replica.ALIAS]),
    pytest.mark.slow,
    one_server_as("a replica follows one server."),
]


@pytest.fixture(scope="module", autouse=True)
def standby(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Standby]:
    with django_db_blocker.unblock():
        started = following.start(FOLDER / "replica")
    with override_settings(DATABASE_ROUTERS=["core.database.routing.ReplicaRouter"]):
        yield started
    with django_db_blocker.unblock():
        following.end(started)


@pytest.fixture
def follower(standby: Standby) -> Iterator[Replica]:
    """The replica. After the test, it follows the primary again."""
    follower = Replica(standby)
    yield follower
    follower.resume()


@pytest.fixture
def filled(acme: Product, acme_token: str, follower: Replica) -> Workspace:
    """Acme's workspace with scores, on both databases."""
    filled = fill(acme)
    follower.catch_up()
    return filled


@pytest.fixture
def frozen(filled: Workspace, follower: Replica) -> Workspace:
    """Acme's workspace. The replica keeps its present state."""
    follower.pause()
    return filled


def names(reads: Reads, workspace: Workspace) -> list[str]:
    response = reads("/v2/accounts", workspace_id=workspace.pk)
    assert response.status_code == 200, response.content
    return [account["name"] for account in response.json()["data"]]


def rename(account: str, name: str) -> None:
    row = Account.objects.get(external_id=account, product__name="Acme")
    row.traits = {**row.traits, "name": name}
    row.save(update_fields=["traits"])


# --- Where it reads and where it writes ------------------------------------------------------


def test_reads_come_from_the_replica(
    frozen: Workspace, follower: Replica, acme_reads: Reads
) -> None:
    rename("initech", "Initrode")
    assert names(acme_reads, frozen) == ["Initech", "Hooli"]
    follower.resume()
    assert names(acme_reads, frozen) == ["Initrode", "Hooli"]


# With how many statements. Accounts and members read their open alarms and their owners and tags,
# histories the changes of how a workspace scores.
EVERYTHING: list[tuple[str, dict[str, Any], int]] = [
    ("/v2/workspaces", {}, 1),
    ("/v2/workspaces", {"expand": "stats"}, 3),
    ("/v2/workspaces", {"expand": "product_activity"}, 2),
    ("/v2/workspaces/{workspace}", {}, 1),
    ("/v2/accounts", {}, 4),
    ("/v2/accounts", {"match_type": "domain", "match_value": "initech.example"}, 4),
    ("/v2/accounts/{account}", {"expand": "insights,traits,segments,events,history"}, 11),
    ("/v2/users", {}, 2),
    ("/v2/users", {"match_type": "email", "match_value": "ann@initech.example"}, 2),
    ("/v2/users/{user}", {"expand": "traits,segments,events,history"}, 7),
    ("/v2/segments", {"expand": "counts", "limit": 100}, 4),
    ("/v2/segments/{segment}", {}, 3),
    ("/v2/segments/{segment}/members", {}, 5),
    ("/v1/accounts", {"match_type": "name", "match_value": "Initech", "expand": "insights"}, 6),
]


def scope_of(path: str, filled: Workspace) -> dict[str, int]:
    return {} if path.startswith("/v2/workspaces") else {"workspace_id": filled.pk}


def test_only_the_token_and_its_count_are_read_from_the_primary(
    filled: Workspace, acme: Product, follower: Replica, acme_reads: Reads
) -> None:
    segment = Segment.objects.get(workspace=filled, scope="account", name="Most Engaged")
    ids = {"account": account_id(acme, "initech"), "user": user_id(acme, "ann")}
    ids |= {"workspace": filled.pk, "segment": segment.pk}
    # A slow machine must not switch to the cached counts.
    CachedCounts.objects.update(seconds=0)
    follower.catch_up()
    names(acme_reads, filled)  # This request also records the token's use.
    for address, parameters, statements in EVERYTHING:

        def send(path: str = address.format(**ids), query: dict[str, Any] = parameters) -> None:
            response = acme_reads(path, **scope_of(path, filled), **query)
            assert response.status_code == 200, response.content

        assert statements_by_database(send) == {"default": 2, "replica": statements}, address


@pytest.fixture
def one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, so that no new minute begins."""
    monkeypatch.setattr(throttling, "timezone", SimpleNamespace(now=lambda: NOON))


def test_the_primary_records_the_use_and_counts_requests(
    frozen: Workspace, acme_reads: Reads, one_minute: None
) -> None:
    for _ in range(3):
        names(acme_reads, frozen)
    used_at = ApiToken.objects.get().last_used_at
    assert used_at is not None and timezone.now() - used_at < timedelta(minutes=1)
    assert Usage.objects.get().requests == 3
    with routing.read_from(replica.ALIAS):
        assert ApiToken.objects.get().last_used_at is None


def test_the_rate_limit_counts_on_the_primary(
    frozen: Workspace, acme_reads: Reads, one_minute: None, settings: Any
) -> None:
    settings.READ_REQUESTS_PER_MINUTE = 2
    assert [acme_reads("/v2/workspaces").status_code for _ in range(3)] == [200, 200, 429]


def test_a_revoked_token_stops_working_at_once(frozen: Workspace, acme_reads: Reads) -> None:
    names(acme_reads, frozen)
    ApiToken.objects.update(revoked_at=timezone.now())
    assert acme_reads("/v2/workspaces").status_code == 401


def test_a_new_token_works_at_once(frozen: Workspace, acme: Product) -> None:
    assert names(reader(ApiToken.create(acme, "new").secret), frozen) == ["Initech", "Hooli"]


def test_a_row_appears_once_the_replica_has_it(frozen: Workspace, follower: Replica) -> None:
    initrode = Product.create_with_workspace("Initrode")
    reads = reader(ApiToken.create(initrode, "test").secret)
    workspace = Workspace.objects.get(product=initrode)
    assert reads("/v2/workspaces").json()["data"] == []
    assert reads("/v2/accounts", workspace_id=workspace.pk).status_code == 404
    follower.resume()
    assert [row["id"] for row in reads("/v2/workspaces").json()["data"]] == [workspace.pk]


def test_another_products_token_finds_nothing_on_the_replica(
    filled: Workspace, acme: Product, globex_token: str, follower: Replica
) -> None:
    reads = reader(globex_token)
    ids = {"account": account_id(acme, "initech"), "user": user_id(acme, "ann")}
    ids |= {"workspace": filled.pk, "segment": filled.segments.earliest("pk").pk}
    follower.catch_up()
    assert reads("/v2/workspaces").json()["data"][0]["name"] == "Default"
    for address, parameters, _ in EVERYTHING[3:]:
        path = address.format(**ids)
        response = reads(path, **scope_of(path, filled), **parameters)
        assert response.status_code == 404, address


def test_the_admin_reads_from_the_primary(frozen: Workspace, acme: Product) -> None:
    rename("initech", "Initrode")
    staff = Client()
    staff.force_login(AdminUser.objects.create_superuser("root"))
    page = staff.get(reverse("admin:engagement_account_change", args=[account_id(acme, "initech")]))
    assert "Initrode" in page.text


def test_concurrent_requests_keep_their_own_database() -> None:
    """In the web role, requests are greenlets of one thread that take turns."""
    pairs: list[tuple[str, str]] = []

    def read(name: str) -> None:
        with routing.read_from(name) if name != "default" else nullcontext():
            for _ in range(3):
                gevent.sleep()
                pairs.append((name, routing.current_connection().alias))

    gevent.joinall([gevent.spawn(read, name) for name in ("replica", "default")], raise_error=True)
    assert [name for name, _ in pairs[:2]] == ["replica", "default"]
    assert all(name == alias for name, alias in pairs)


def test_the_replica_accepts_no_writes(filled: Workspace) -> None:
    with routing.read_from(replica.ALIAS):
        with pytest.raises(InternalError, match="read-only"):
            sql.execute("UPDATE engagement_product SET name = 'Globex'")
        # Django's own writes are routed.
        product = Product.objects.create(name="Initrode")
    assert Product.objects.filter(pk=product.pk).exists()


# --- While it lags ---------------------------------------------------------------------------


def test_a_cursor_of_newer_scores_is_invalid_for_older_ones(
    frozen: Workspace, acme: Product, follower: Replica, acme_reads: Reads
) -> None:
    """The next page may come from a replica that lags behind the last page's database."""
    tell(acme, group("vandelay", name="Vandelay"))
    Workspace.objects.filter(pk=frozen.pk).update(lookback_days=30)
    sets.request_score_set(frozen.pk)
    rescore(NOON)
    assert Workspace.objects.get().scores_id != frozen.scores_id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica, "is_configured", lambda: False)
        pages = [
            acme_reads("/v2/accounts", workspace_id=frozen.pk, limit=limit) for limit in (1, 2)
        ]
    for page in pages:
        following = acme_reads(page.json()["_links"]["next"])
        assert following.status_code == 400
        assert following.json()["error"]["code"] == "invalid_cursor"


def lag(client: Client) -> list[float]:
    """The reported lag; empty if it is unknown."""
    answer = client.get("/metrics", headers={"authorization": "Bearer let-the-monitor-in"})
    assert answer.status_code == 200, answer.content
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert families["eds_inbox_messages"].samples
    return [sample.value for sample in families["eds_replica_lag_seconds"].samples]


def test_metrics_report_the_lag(
    filled: Workspace, follower: Replica, client: Client, settings: Any
) -> None:
    settings.METRICS_TOKEN = "let-the-monitor-in"
    assert lag(client) == [0]

    def lag_without_changes() -> list[float]:
        follower.resume()
        follower.catch_up()
        follower.pause()
        time.sleep(0.2)
        return lag(client)

    # PostgreSQL itself logs something now and then.
    assert any(lag_without_changes() == [0] for _ in range(3))
    rename("initech", "Initrode")
    sql.fetch("SELECT pg_logical_emit_message(false, 'tests', '', true)::text")
    (behind,) = lag(client)
    time.sleep(0.2)
    (further,) = lag(client)
    assert 0.2 < behind < further - 0.1
    follower.resume()
    assert lag(client) == [0]


# --- When it cannot serve a request ----------------------------------------------------------


def test_the_primary_serves_a_request_that_the_replica_canceled(
    filled: Workspace, follower: Replica, acme_reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, databases = queries.workspace, []

    def slowly(*arguments: Any, **options: Any) -> Workspace:
        databases.append(routing.current_connection().alias)
        if databases[-1] == replica.ALIAS:
            sql.fetch("SELECT pg_sleep(60)::text FROM engagement_account LIMIT 1")
        return find(*arguments, **options)

    def vacuum() -> None:
        """Remove a row that the statement may still need."""
        sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        until(lambda: follower.ask(sleeping), "the statement")
        rename("initech", "Initrode")
        with connection.cursor() as cursor:
            cursor.execute("VACUUM engagement_account")
        connection.close()

    monkeypatch.setattr(queries, "workspace", slowly)
    vacuuming = Thread(target=vacuum)
    vacuuming.start()
    account_names = names(acme_reads, filled)
    vacuuming.join()
    assert databases == ["replica", "default"]
    assert sorted(account_names) == ["Hooli", "Initrode"]


@pytest.fixture
def stopped(filled: Workspace, follower: Replica) -> Iterator[Workspace]:
    follower.stop()
    yield filled
    follower.start()


def test_an_unreachable_replica_returns_503(
    stopped: Workspace,
    follower: Replica,
    acme_reads: Reads,
    client: Client,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.METRICS_TOKEN = "let-the-monitor-in"
    for _ in range(2):
        response = acme_reads("/v2/accounts", workspace_id=stopped.pk)
        assert response.status_code == 503
        assert response.headers["Retry-After"] == "5"
        assert response.json()["error"]["code"] == "unavailable"
    assert "The replica did not answer /v2/accounts: OperationalError" in caplog.messages
    ready = client.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["checks"]["database"] == "ok"
    assert "The replica cannot be reached" in ready.json()["checks"]["replica"]
    assert lag(client) == []
    # An unknown token still gets 401.
    assert reader("eds_unknown")("/v2/workspaces").status_code == 401
    follower.start()
    assert names(acme_reads, stopped) == ["Initech", "Hooli"]
    assert client.get("/readyz").json()["checks"]["replica"] == "ok"


def test_waiting_for_the_replica_holds_no_connection_to_the_primary(
    filled: Workspace, acme_reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, held_connections = queries.workspace, []

    def look(*arguments: Any, **options: Any) -> Workspace:
        held_connections.append(connection.connection)
        return find(*arguments, **options)

    # As in the web role, which borrows connections from a pool.
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    connection.close()
    monkeypatch.setattr(queries, "workspace", look)
    names(acme_reads, filled)
    assert held_connections == [None]


def test_the_primary_stands_in_if_the_url_names_it_too(
    stopped: Workspace, follower: Replica, acme_reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql://reader:secret@replica,primary:5432/eds?target_session_attrs=prefer-standby"
    address = environment.database("EDS_REPLICA_URL", url)
    assert address["HOST"] == "replica,primary"
    replica_settings = connections[replica.ALIAS].settings_dict
    both = f"{replica_settings['HOST']},{connection.settings_dict['HOST']}"
    monkeypatch.setitem(replica_settings, "HOST", both)
    monkeypatch.setitem(
        replica_settings, "OPTIONS", {**replica_settings["OPTIONS"], **address["OPTIONS"]}
    )
    connections[replica.ALIAS].close()
    assert names(acme_reads, stopped) == ["Initech", "Hooli"]
    connections[replica.ALIAS].close()
    follower.start()
    follower.pause()
    rename("initech", "Initrode")
    assert names(acme_reads, stopped) == ["Initech", "Hooli"]


@pytest.fixture
def foreign_database(filled: Workspace, follower: Replica) -> Iterator[str]:
    """The name of another service's database on the same servers."""
    assert settings.EMBEDDED_POSTGRES is not None
    where = settings.EMBEDDED_POSTGRES.database_settings()
    with psycopg.connect(
        host=where["HOST"], user=where["USER"], dbname="postgres", autocommit=True
    ) as server:
        server.execute("CREATE DATABASE foreign_service")
        with psycopg.connect(
            host=where["HOST"], user=where["USER"], dbname="foreign_service", autocommit=True
        ) as other:
            other.execute("CREATE TABLE django_migrations AS SELECT 1 AS id, now() AS applied")
            yield "foreign_service"
        server.execute("DROP DATABASE foreign_service WITH (FORCE)")


@pytest.mark.parametrize("has_tables", [True, False])
def test_a_database_of_another_service_is_never_read(
    foreign_database: str,
    has_tables: bool,
    filled: Workspace,
    follower: Replica,
    acme_reads: Reads,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica, "_is_ours", False)
    alias = connections[replica.ALIAS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(alias.settings_dict, "NAME", foreign_database if has_tables else "template1")
        alias.close()
        follower.catch_up()
        for _ in range(2):
            assert acme_reads("/v2/accounts", workspace_id=filled.pk).status_code == 503
        message = client.get("/readyz").json()["checks"]["replica"]
        alias.close()
    assert (
        message == "The replica is not read from: it is not a replica of this service's database."
    )
    assert names(acme_reads, filled) == ["Initech", "Hooli"]


def test_a_replica_without_the_latest_migrations_is_not_ready(
    filled: Workspace, follower: Replica, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_migrated", {"default"})
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'readapi' RETURNING app, name")
        rows = cursor.fetchall()
    follower.pause()
    try:
        message = client.get("/readyz").json()["checks"]["replica"]
    finally:
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, now())", rows
            )
    assert "has not got the migrations" in message
    follower.resume()
    assert client.get("/readyz").json()["checks"]["replica"] == "ok"
