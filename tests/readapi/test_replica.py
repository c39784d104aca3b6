"""A real streaming replica answers what is read; what is written, and who may read, is not its."""

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

from benchmarks.standby import Standby
from config import environment, health
from engagement.database import routing, sql
from engagement.models import Account, CachedCounts, Product, Segment, Workspace
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from readapi import queries, replica, throttling
from readapi.models import ApiToken, Usage
from tests.database import FOLDER
from tests.engagement.history import NOON, group, tell
from tests.readapi import following
from tests.readapi.conftest import Reads, reader
from tests.readapi.following import Replica, asked_of_each, until
from tests.readapi.scored import account_id, fill, user_id

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", replica.ALIAS]),
    pytest.mark.slow,
]


@pytest.fixture(scope="module", autouse=True)
def standby(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Standby]:
    with django_db_blocker.unblock():
        started = following.start(FOLDER / "replica")
    with override_settings(DATABASE_ROUTERS=["engagement.database.routing.ReplicaRouter"]):
        yield started
    with django_db_blocker.unblock():
        following.end(started)


@pytest.fixture
def follower(standby: Standby) -> Iterator[Replica]:
    """The replica; whatever a test does to it, it follows again afterwards."""
    follower = Replica(standby)
    yield follower
    follower.resume()


@pytest.fixture
def filled(acme: Product, acme_token: str, follower: Replica) -> Workspace:
    """Acme's workspace with scores, on both sides."""
    filled = fill(acme)
    follower.catch_up()
    return filled


@pytest.fixture
def frozen(filled: Workspace, follower: Replica) -> Workspace:
    """Acme's workspace, which the replica goes on to see as it is now."""
    follower.pause()
    return filled


def names(reads: Reads, workspace: Workspace) -> list[str]:
    response = reads("/v2/accounts", workspace_id=workspace.pk)
    assert response.status_code == 200, response.content
    return [account["name"] for account in response.json()["data"]]


def rename(account: str, name: str) -> None:
    found = Account.objects.get(external_id=account, product__name="Acme")
    found.traits = {**found.traits, "name": name}
    found.save(update_fields=["traits"])


# --- Where it reads and where it writes ------------------------------------------------------


def test_what_is_read_is_as_old_as_the_replica(
    frozen: Workspace, follower: Replica, acme_reads: Reads
) -> None:
    rename("initech", "Initrode")
    assert names(acme_reads, frozen) == ["Initech", "Hooli"]
    follower.resume()
    assert names(acme_reads, frozen) == ["Initrode", "Hooli"]


EVERYTHING: list[tuple[str, dict[str, Any], int]] = [
    ("/v2/workspaces", {}, 1),
    ("/v2/workspaces", {"expand": "stats"}, 3),
    ("/v2/workspaces/{workspace}", {}, 1),
    ("/v2/accounts", {}, 2),
    ("/v2/accounts", {"match_type": "domain", "match_value": "initech.example"}, 2),
    ("/v2/accounts/{account}", {"expand": "insights,traits,segments,events,history"}, 10),
    ("/v2/users", {}, 2),
    ("/v2/users", {"match_type": "email", "match_value": "ann@initech.example"}, 2),
    ("/v2/users/{user}", {"expand": "traits,segments,events,history"}, 8),
    ("/v2/segments", {"expand": "counts", "limit": 100}, 4),
    ("/v2/segments/{segment}", {}, 3),
    ("/v2/segments/{segment}/members", {}, 3),
    ("/v1/accounts", {"match_type": "name", "match_value": "Initech", "expand": "insights"}, 6),
]


def scope_of(path: str, filled: Workspace) -> dict[str, int]:
    return {} if path.startswith("/v2/workspaces") else {"workspace_id": filled.pk}


def test_only_the_token_and_its_count_are_asked_of_the_primary(
    filled: Workspace, acme: Product, follower: Replica, acme_reads: Reads
) -> None:
    segment = Segment.objects.get(workspace=filled, scope="account", name="Most Engaged")
    ids = {"account": account_id(acme, "initech"), "user": user_id(acme, "ann")}
    ids |= {"workspace": filled.pk, "segment": segment.pk}
    # However slow this machine is now, few are counted when they are asked for.
    CachedCounts.objects.update(seconds=0)
    follower.catch_up()
    names(acme_reads, filled)  # This one also notes the token's use.
    for address, parameters, statements in EVERYTHING:

        def ask(path: str = address.format(**ids), given: dict[str, Any] = parameters) -> None:
            response = acme_reads(path, **scope_of(path, filled), **given)
            assert response.status_code == 200, response.content

        assert asked_of_each(ask) == {"default": 2, "replica": statements}, address


@pytest.fixture
def one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """No minute begins while a token's requests are counted."""
    monkeypatch.setattr(throttling, "timezone", SimpleNamespace(now=lambda: NOON))


def test_the_use_of_a_token_is_noted_and_its_requests_are_counted(
    frozen: Workspace, acme_reads: Reads, one_minute: None
) -> None:
    for _ in range(3):
        names(acme_reads, frozen)
    used = ApiToken.objects.get().last_used_at
    assert used is not None and timezone.now() - used < timedelta(minutes=1)
    assert Usage.objects.get().requests == 3
    with routing.read_from(replica.ALIAS):
        assert ApiToken.objects.get().last_used_at is None


def test_a_token_may_ask_as_often_as_ever(
    frozen: Workspace, acme_reads: Reads, one_minute: None, settings: Any
) -> None:
    settings.READ_REQUESTS_PER_MINUTE = 2
    assert [acme_reads("/v2/workspaces").status_code for _ in range(3)] == [200, 200, 429]


def test_a_revoked_token_is_refused_at_once(frozen: Workspace, acme_reads: Reads) -> None:
    names(acme_reads, frozen)
    ApiToken.objects.update(revoked_at=timezone.now())
    assert acme_reads("/v2/workspaces").status_code == 401


def test_a_new_token_reads_at_once(frozen: Workspace, acme: Product) -> None:
    assert names(reader(ApiToken.create(acme, "new").secret), frozen) == ["Initech", "Hooli"]


def test_what_the_replica_has_not_got_yet_is_not_there_yet(
    frozen: Workspace, follower: Replica
) -> None:
    initrode = Product.create_with_workspace("Initrode")
    reads = reader(ApiToken.create(initrode, "test").secret)
    workspace = Workspace.objects.get(product=initrode)
    assert reads("/v2/workspaces").json()["data"] == []
    assert reads("/v2/accounts", workspace_id=workspace.pk).status_code == 404
    follower.resume()
    assert [row["id"] for row in reads("/v2/workspaces").json()["data"]] == [workspace.pk]


def test_another_products_token_finds_nothing_there_either(
    filled: Workspace, acme: Product, globex_token: str, follower: Replica
) -> None:
    reads = reader(globex_token)
    ids = {"account": account_id(acme, "initech"), "user": user_id(acme, "ann")}
    ids |= {"workspace": filled.pk, "segment": filled.segments.earliest("pk").pk}
    follower.catch_up()
    assert reads("/v2/workspaces").json()["data"][0]["name"] == "Default"
    for address, parameters, _ in EVERYTHING[2:]:
        path = address.format(**ids)
        response = reads(path, **scope_of(path, filled), **parameters)
        assert response.status_code == 404, address


def test_the_admin_reads_what_was_just_written(frozen: Workspace, acme: Product) -> None:
    rename("initech", "Initrode")
    staff = Client()
    staff.force_login(AdminUser.objects.create_superuser("root"))
    page = staff.get(reverse("admin:engagement_account_change", args=[account_id(acme, "initech")]))
    assert "Initrode" in page.text


def test_requests_side_by_side_read_where_each_of_them_says() -> None:
    """In the web role requests are greenlets of one thread and take turns in the middle."""
    seen: list[tuple[str, str]] = []

    def read(name: str) -> None:
        with routing.read_from(name) if name != "default" else nullcontext():
            for _ in range(3):
                gevent.sleep()
                seen.append((name, routing.current_connection().alias))

    gevent.joinall([gevent.spawn(read, name) for name in ("replica", "default")], raise_error=True)
    assert [name for name, _ in seen[:2]] == ["replica", "default"]
    assert all(name == alias for name, alias in seen)


def test_nothing_can_be_written_there(filled: Workspace) -> None:
    with routing.read_from(replica.ALIAS):
        with pytest.raises(InternalError, match="read-only"):
            sql.execute("UPDATE engagement_product SET name = 'Globex'")
        # Django's own writes are routed.
        made = Product.objects.create(name="Initrode")
    assert Product.objects.filter(pk=made.pk).exists()


# --- While it lags ---------------------------------------------------------------------------


def test_a_place_in_newer_scores_is_none_in_older_ones(
    frozen: Workspace, acme: Product, follower: Replica, acme_reads: Reads
) -> None:
    """As when the next page comes from a replica that lags behind the last page's database."""
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
    """What a monitor is told; nothing where nobody can tell."""
    answer = client.get("/metrics", headers={"authorization": "Bearer let-the-monitor-in"})
    assert answer.status_code == 200, answer.content
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert families["eds_inbox_messages"].samples
    return [sample.value for sample in families["eds_replica_lag_seconds"].samples]


def test_monitors_are_told_how_far_it_lags_behind(
    filled: Workspace, follower: Replica, client: Client, settings: Any
) -> None:
    settings.METRICS_TOKEN = "let-the-monitor-in"
    assert lag(client) == [0]
    follower.pause()
    time.sleep(0.2)
    # Without news there is nothing to lag behind.
    assert lag(client) == [0]
    rename("initech", "Initrode")
    sql.fetch("SELECT pg_logical_emit_message(false, 'tests', '', true)::text")
    (behind,) = lag(client)
    time.sleep(0.2)
    (further,) = lag(client)
    assert 0.2 < behind < further - 0.1
    follower.resume()
    assert lag(client) == [0]


# --- When it cannot answer -------------------------------------------------------------------


def test_a_statement_that_it_ends_is_answered_by_the_primary(
    filled: Workspace, follower: Replica, acme_reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, sides = queries.workspace, []

    def slowly(*arguments: Any, **options: Any) -> Workspace:
        sides.append(routing.current_connection().alias)
        if sides[-1] == replica.ALIAS:
            sql.fetch("SELECT pg_sleep(60)::text FROM engagement_account LIMIT 1")
        return find(*arguments, **options)

    def vacuum() -> None:
        """Remove a row that the statement may still want to see."""
        sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        until(lambda: follower.ask(sleeping), "the statement")
        rename("initech", "Initrode")
        with connection.cursor() as cursor:
            cursor.execute("VACUUM engagement_account")
        connection.close()

    monkeypatch.setattr(queries, "workspace", slowly)
    vacuuming = Thread(target=vacuum)
    vacuuming.start()
    answered = names(acme_reads, filled)
    vacuuming.join()
    assert sides == ["replica", "default"]
    assert sorted(answered) == ["Hooli", "Initrode"]


@pytest.fixture
def stopped(filled: Workspace, follower: Replica) -> Iterator[Workspace]:
    follower.stop()
    yield filled
    follower.start()


def test_while_it_is_away_readers_are_told_to_come_back(
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
    # Whose token is none is told so all the same.
    assert reader("eds_unknown")("/v2/workspaces").status_code == 401
    follower.start()
    assert names(acme_reads, stopped) == ["Initech", "Hooli"]
    assert client.get("/readyz").json()["checks"]["replica"] == "ok"


def test_whoever_waits_for_it_keeps_no_connection_to_the_primary(
    filled: Workspace, acme_reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, held = queries.workspace, []

    def look(*arguments: Any, **options: Any) -> Workspace:
        held.append(connection.connection)
        return find(*arguments, **options)

    # As in the web role, which borrows connections from a pool.
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    connection.close()
    monkeypatch.setattr(queries, "workspace", look)
    names(acme_reads, filled)
    assert held == [None]


def test_the_primary_stands_in_where_the_address_names_it_too(
    stopped: Workspace, follower: Replica, acme_reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql://reader:secret@replica,primary:5432/eds?target_session_attrs=prefer-standby"
    address = environment.database("EDS_REPLICA_URL", url)
    assert address["HOST"] == "replica,primary"
    known = connections[replica.ALIAS].settings_dict
    both = f"{known['HOST']},{connection.settings_dict['HOST']}"
    monkeypatch.setitem(known, "HOST", both)
    monkeypatch.setitem(known, "OPTIONS", {**known["OPTIONS"], **address["OPTIONS"]})
    connections[replica.ALIAS].close()
    assert names(acme_reads, stopped) == ["Initech", "Hooli"]
    connections[replica.ALIAS].close()
    follower.start()
    follower.pause()
    rename("initech", "Initrode")
    assert names(acme_reads, stopped) == ["Initech", "Hooli"]


@pytest.fixture
def somebody_elses(filled: Workspace, follower: Replica) -> Iterator[str]:
    """The name of a database on the same servers that is not this service's."""
    assert settings.EMBEDDED_POSTGRES is not None
    where = settings.EMBEDDED_POSTGRES.database_settings()
    with psycopg.connect(
        host=where["HOST"], user=where["USER"], dbname=where["NAME"], autocommit=True
    ) as other:
        other.execute("CREATE TABLE django_migrations AS SELECT 1 AS id, now() AS applied")
        yield where["NAME"]
        other.execute("DROP TABLE django_migrations")


@pytest.mark.parametrize("has_tables", [True, False])
def test_a_database_that_is_another_services_is_not_read_from(
    somebody_elses: str,
    has_tables: bool,
    filled: Workspace,
    follower: Replica,
    acme_reads: Reads,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica, "_is_ours", False)
    known = connections[replica.ALIAS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(known.settings_dict, "NAME", somebody_elses if has_tables else "template1")
        known.close()
        follower.catch_up()
        for _ in range(2):
            assert acme_reads("/v2/accounts", workspace_id=filled.pk).status_code == 503
        said = client.get("/readyz").json()["checks"]["replica"]
        known.close()
    assert said == "The replica is not read from: it is not a replica of this service's database."
    assert names(acme_reads, filled) == ["Initech", "Hooli"]


def test_one_without_the_tables_of_this_release_is_not_ready(
    filled: Workspace, follower: Replica, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_migrated", {"default"})
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'readapi' RETURNING app, name")
        rows = cursor.fetchall()
    follower.pause()
    try:
        said = client.get("/readyz").json()["checks"]["replica"]
    finally:
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, now())", rows
            )
    assert "has not got the migrations" in said
    follower.resume()
    assert client.get("/readyz").json()["checks"]["replica"] == "ok"
