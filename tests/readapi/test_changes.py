"""A client that follows what changed has what the list shows."""

import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from core.database import locks
from engagement import changes
from engagement.messages import Group
from engagement.models import (
    ChangeStamp,
    Product,
    ScoreSet,
    Segment,
    SubjectChange,
    TurnedDay,
    Workspace,
)
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from engagement.removal.jobs import ERASE_FORGOTTEN
from engagement.rescoring import sets, stamping
from engagement.rescoring.rescore import rescore
from tests.engagement.history import NOON, alias, group, identify, tell, track
from tests.jobs import run_job
from tests.readapi.conftest import Reads
from tests.readapi.rows import make_account, scores_of
from tests.readapi.scored import account_id, fill, user_id

Records = dict[int, dict[str, Any]]


class Mirror:
    """A client that stores each record that it reads, and deletes those that are gone."""

    def __init__(self, reads: Reads, workspace: Workspace, resource: str, limit: int) -> None:
        self.reads = reads
        self.list = f"/v2/{resource}?workspace_id={workspace.pk}&expand=traits"
        self.limit = limit
        self.records: Records = {}
        self.restarts = 0
        self.restart()

    def restart(self) -> None:
        self.records.clear()
        self.address = f"{self.list}&changed_since=start&limit={self.limit}"

    def read_page(self) -> bool:
        """Read one page; return whether there is another one."""
        response = self.reads(self.address)
        if response.status_code == 400:
            assert response.json()["error"]["code"] == "invalid_cursor"
            self.restarts += 1
            self.restart()
            return True
        body = response.json()
        for id in body["deleted"]:
            self.records.pop(id, None)
        self.records |= {row["id"]: row for row in body["data"]}
        assert len(body["data"]) + len(body["deleted"]) <= self.limit
        links = body["_links"]
        assert ("next" in links) == body["pagination"]["has_more"] != ("changes" in links)
        self.address = links.get("next") or links["changes"]
        return "next" in links

    def read(self) -> None:
        while self.read_page():
            pass

    def listed(self) -> Records:
        """What the list shows now."""
        return {row["id"]: row for row in self.reads(f"{self.list}&limit=500").json()["data"]}


def test_the_first_walk_returns_everything_and_the_next_only_what_changed(
    acme_reads: Reads, acme: Product
) -> None:
    workspace = fill(acme)
    # The first night follows the first scores.
    rescore(NOON)
    mirror = Mirror(acme_reads, workspace, "accounts", limit=1)
    mirror.read()
    assert mirror.records == mirror.listed() and len(mirror.records) == 2
    following = acme_reads(mirror.address).json()
    assert (following["data"], following["deleted"]) == ([], [])
    assert list(following["_links"]) == ["self", "changes"]

    tell(acme, group("hooli", plan="free"), group("globex", name="Globex"))
    rescore(NOON)
    body = acme_reads(mirror.address.replace("limit=1", "limit=10")).json()
    assert [row["tracking_id"] for row in body["data"]] == ["hooli", "globex"]
    assert body["data"][0]["traits"]["plan"] == "free"

    initech = account_id(acme, "initech")
    forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "initech"), NOON)
    body = acme_reads(body["_links"]["changes"]).json()
    assert body["deleted"] == [initech]
    mirror.read()
    assert mirror.records == mirror.listed()


def test_a_moved_benchmark_returns_exactly_those_whose_score_it_changes(
    acme_reads: Reads, workspace: Workspace
) -> None:
    scores = scores_of(workspace)
    for number in range(40):
        make_account(workspace, str(number), number)
    set_benchmarks(scores, 20.0, 10.0)
    mirror = Mirror(acme_reads, workspace, "accounts", limit=7)
    mirror.read()
    for benchmarks in ((20.1, 10.0), (20.1, 9.0), (None, None), (30.0, 30.0), (20.0, 10.0)):
        before = dict(mirror.records)
        set_benchmarks(scores, *benchmarks)
        listed = mirror.listed()
        body = acme_reads(mirror.address.replace("limit=7", "limit=100")).json()
        assert {row["id"] for row in body["data"]} == {
            id for id, row in listed.items() if row != before[id]
        }
        mirror.read()
        assert mirror.records == listed


def test_a_walk_shows_the_scores_of_its_beginning(acme_reads: Reads, workspace: Workspace) -> None:
    """Otherwise a benchmark that moves and comes back would leave a wrong score with the client."""
    scores = scores_of(workspace)
    for number in range(6):
        make_account(workspace, str(number), number)
    set_benchmarks(scores, 5.0, 5.0)
    mirror = Mirror(acme_reads, workspace, "accounts", limit=4)
    mirror.read_page()
    set_benchmarks(scores, 50.0, 5.0)
    mirror.read()
    set_benchmarks(scores, 5.0, 5.0)
    mirror.read()
    assert mirror.records == mirror.listed()


def set_benchmarks(scores: ScoreSet, now: float | None, last_period: float | None) -> None:
    scores.account_benchmark, scores.account_benchmark_last_period = now, last_period
    scores.save()


def test_an_edited_workspace_starts_again(acme_reads: Reads, acme: Product) -> None:
    workspace = fill(acme)
    mirror = Mirror(acme_reads, workspace, "users", limit=2)
    mirror.read()
    sets.request_score_set(workspace.pk)
    rescore(NOON)
    mirror.read()
    assert mirror.restarts == 1 and mirror.records == mirror.listed()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_mirror_has_what_the_list_shows_whatever_happens(
    seed: int, acme_reads: Reads, acme: Product
) -> None:
    chance = random.Random(seed)
    workspace = fill(acme)
    rule = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}
    paying = Workspace.objects.create(
        product=acme, name="Paying", audience={"match": "all", "conditions": [rule]}
    )
    rescore(NOON)
    mirrors = [
        Mirror(acme_reads, place, resource, limit=chance.choice([1, 3, 500]))
        for place in (workspace, paying)
        for resource in ("users", "accounts")
    ]
    now = NOON
    for _ in range(20):
        happen(chance, acme, (now - NOON).total_seconds() / 3600)
        if chance.random() < 0.15:
            now += timedelta(days=chance.randint(1, 9))
        if chance.random() < 0.5:
            rescore(now)
        for mirror in mirrors:
            for _ in range(chance.randint(0, 3)):
                mirror.read_page()
    run_job(ERASE_FORGOTTEN, NOON)
    rescore(now)
    for mirror in mirrors:
        # One walk may have begun before.
        mirror.read()
        mirror.read()
        assert without_day(mirror.records) == without_day(mirror.listed()), mirror.list


def without_day(records: Records) -> Records:
    """The records without the day of the last night, which is new for everybody each day."""
    return {
        id: {**row, "activity": {**row.get("activity", {}), "decided_for": None}}
        for id, row in records.items()
    }


def happen(chance: random.Random, product: Product, hours: float) -> None:
    """Something that changes a user or an account, or that the list does not show."""
    user, account = f"u{chance.randrange(8)}", f"a{chance.randrange(4)}"
    at = hours - chance.choice([0, 0, 24, 24 * 8])
    plan = chance.choice(["pro", "free", None])
    scope = chance.choice([SubjectScope.USER, SubjectScope.ACCOUNT])
    name = user if scope is SubjectScope.USER else account
    events: list[Callable[[], object]] = [
        lambda: tell(product, identify(user, at, account, plan=plan)),
        lambda: tell(product, identify(user, at, plan=plan)),
        lambda: tell(product, group(account, at, plan=plan)),
        lambda: tell(product, group(account, at, name=chance.choice(["A", "a", "B", None]))),
        lambda: tell(product, *(track(user, hours=at) for _ in range(chance.randint(1, 20)))),
        lambda: tell(product, track(user, "shared", hours=at, group=account)),
        lambda: tell(product, alias(user, f"u{chance.randrange(8)}", at)),
        lambda: forget(SubjectRef(product.pk, scope, name), NOON),
        lambda: run_job(ERASE_FORGOTTEN, NOON),
    ]
    chance.choices(events, [6, 3, 2, 4, 6, 4, 1, 2, 1])[0]()


# --- What no score shows --------------------------------------------------------------------


def test_a_renamed_account_changes_its_users(acme_reads: Reads, acme: Product) -> None:
    mirror = Mirror(acme_reads, fill(acme), "users", limit=500)
    mirror.read()
    cyd = user_id(acme, "cyd")

    def changed_users(*messages: Group) -> set[int]:
        tell(acme, *messages)
        rescore(NOON)
        records = acme_reads(mirror.address).json()["data"]
        mirror.read()
        assert mirror.records == mirror.listed()
        return {record["id"] for record in records}

    assert changed_users(group("hooli", 1, name="HOOLI"), group("hooli", 2, plan="x")) == {cyd}
    assert mirror.records[cyd]["account"]["name"] == "HOOLI"
    assert changed_users(group("hooli", 3, name="HOOLI", plan="y")) == set()
    Segment.objects.create(
        workspace=Workspace.objects.get(product=acme),
        scope="user",
        name="Of paying accounts",
        conditions=[{"kind": "account_trait", "trait": "plan", "operator": "is", "value": "z"}],
    )
    assert changed_users(group("hooli", 4, plan="z")) == {cyd}


@pytest.mark.slow
def test_a_new_day_returns_exactly_those_whose_segments_it_changes(
    acme_reads: Reads, acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamping, "STEP", 2)
    workspace = fill(acme)
    ages = {f"{age} days": identify(f"u{age}", -24 * age, f"a{age}") for age in (5, 6, 7, 177, 179)}
    tell(acme, *ages.values())
    rescore(NOON)
    mirrors = {name: Mirror(acme_reads, workspace, name, 500) for name in ("users", "accounts")}
    for mirror in mirrors.values():
        mirror.read()
    active = {"ann", "bob", "cyd", "initech", "hooli"}
    entered_or_left = False
    for days in (1, 2, 5):
        before = members_by_segment(acme_reads, workspace)
        rescore(NOON + timedelta(days=days))
        after = members_by_segment(acme_reads, workspace)
        for name, mirror in mirrors.items():
            changed = {row["tracking_id"] for row in acme_reads(mirror.address).json()["data"]}
            moved = set[str]().union(*(before[name][pk] ^ after[name][pk] for pk in before[name]))
            assert moved <= changed <= moved | active
            entered_or_left |= bool(moved - active)
            mirror.read()
            assert without_day(mirror.records) == without_day(mirror.listed())
    assert entered_or_left and not TurnedDay.objects.exists()


def members_by_segment(reads: Reads, workspace: Workspace) -> dict[str, dict[int, set[str]]]:
    """The tracking ids of the members of each segment of users and of accounts."""
    members: dict[str, dict[int, set[str]]] = {"users": {}, "accounts": {}}
    for segment in reads(f"/v2/segments?workspace_id={workspace.pk}&limit=100").json()["data"]:
        listed = reads(segment["_links"]["members"] + "&limit=500").json()["data"]
        members[f"{segment['scope']}s"][segment["id"]] = {row["tracking_id"] for row in listed}
    return members


# --- Stamps ---------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_no_stamp_is_missed_while_transactions_overlap() -> None:
    """Readers take the latest stamp at any moment, and never miss one that commits later."""
    product = Product.create_with_workspace("Acme")
    writers = [threading.Thread(target=write_stamps, args=(product.pk, n)) for n in range(3)]
    for writer in writers:
        writer.start()
    last_stamps: dict[int, int] = {}
    since, is_last = 0, False
    while not is_last:
        is_last = not any(writer.is_alive() for writer in writers)
        latest = changes.latest_stamp(product.pk)
        for id in changes.changed_ids(product.pk, "user", since, 0, 1000):
            last_stamps[id] = SubjectChange.objects.get(product=product, subject_id=id).stamp
        since = latest
    stored = SubjectChange.objects.filter(product=product)
    assert last_stamps == dict(stored.values_list("subject_id", "stamp")) and len(last_stamps) == 10
    assert changes.latest_stamp(product.pk) == max(last_stamps.values())


def write_stamps(product_id: int, seed: int) -> None:
    chance = random.Random(seed)
    try:
        for _ in range(30):
            with transaction.atomic():
                locks.lock_scoring(product_id)
                changes.stamp(product_id, {"user": chance.sample(range(1, 11), 3)})
                time.sleep(chance.random() / 500)
    finally:
        connection.close()


# --- Requests -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "extra", ["sort=score", "total=true", "offset=1", "domain=x", "trait=a:b", "segment_id=1"]
)
def test_filters_and_orders_are_refused(
    extra: str, acme_reads: Reads, workspace: Workspace
) -> None:
    address = f"/v2/accounts?workspace_id={workspace.pk}&changed_since=start&{extra}"
    response = acme_reads(address)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "invalid_parameter")
    assert error["field"] == extra.partition("=")[0]


def test_defaults_are_accepted(acme_reads: Reads, workspace: Workspace) -> None:
    """Generated clients send every default that they know."""
    make_account(workspace, "initech")
    make_account(workspace, "hooli")
    address = f"/v2/accounts?workspace_id={workspace.pk}&limit=1"
    defaults = "&sort=-score&total=false&offset=0"
    first = acme_reads(f"{address}&changed_since=start{defaults}").json()
    second = acme_reads(first["_links"]["next"] + defaults).json()
    token = second["_links"]["changes"]
    assert "sort" not in token and "total" not in token
    last = acme_reads(token + defaults).json()
    assert [len(body["data"]) for body in (first, second, last)] == [1, 1, 0]


def test_a_token_is_of_one_list(
    acme_reads: Reads, globex_reads: Reads, workspace: Workspace, globex_workspace: Workspace
) -> None:
    for number in range(3):
        make_account(workspace, str(number))
        make_account(globex_workspace, str(number))
    address = f"/v2/accounts?workspace_id={workspace.pk}&changed_since=start"
    cursor = acme_reads(f"{address}&limit=1").json()["_links"]["next"].partition("cursor=")[2]
    token = acme_reads(address).json()["_links"]["changes"].partition("changed_since=")[2]
    token = token.partition("&")[0]
    elsewhere = f"/v2/accounts?workspace_id={globex_workspace.pk}&changed_since="
    for reads, url in (
        (acme_reads, f"/v2/users?workspace_id={workspace.pk}&changed_since={token}"),
        (acme_reads, f"/v2/accounts?workspace_id={workspace.pk}&changed_since={token[:-2]}"),
        (acme_reads, f"/v2/accounts?workspace_id={workspace.pk}&changed_since={cursor}"),
        (acme_reads, f"/v2/accounts?workspace_id={workspace.pk}&changed_since="),
        (acme_reads, f"/v2/accounts?workspace_id={workspace.pk}&changed_since=2026-01-01"),
        (acme_reads, f"/v2/accounts?workspace_id={workspace.pk}&cursor={cursor}"),
        (acme_reads, f"{address}&cursor={token}"),
        (globex_reads, elsewhere + token),
        (globex_reads, f"{elsewhere}start&cursor={cursor}"),
    ):
        response = reads(url)
        assert response.status_code == 400, url
        assert response.json()["error"]["code"] == "invalid_cursor", url
    assert globex_reads(f"{address}").status_code == 404


def test_a_token_of_a_later_database_starts_again(acme_reads: Reads, acme: Product) -> None:
    """As after an older backup was restored."""
    workspace = fill(acme)
    mirror = Mirror(acme_reads, workspace, "accounts", limit=5)
    mirror.read()
    ChangeStamp.objects.update(stamp=0)
    response = acme_reads(mirror.address)
    assert response.status_code == 400
    assert "changed_since=start" in response.json()["error"]["message"]


def test_a_workspace_without_scores_has_no_changes_yet(acme_reads: Reads, acme: Product) -> None:
    workspace = Workspace.objects.get(product=acme)
    mirror = Mirror(acme_reads, workspace, "users", limit=5)
    mirror.read()
    tell(acme, identify("ann"))
    rescore(NOON)
    mirror.read()
    assert mirror.restarts == 1 and len(mirror.records) == 1
