"""What was exported and imported is the same again, and goes on to behave the same."""

import gzip
import json
import stat
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError
from hypothesis import given
from hypothesis import strategies as st

from access.models import TrailEntry
from core.database import sql
from engagement.messages import (
    Alias,
    CountStatement,
    Group,
    Identify,
    MembershipStatement,
    Message,
    ReceivedMessage,
    Statement,
    SubjectStatement,
    Track,
)
from engagement.models import DailyCount, Event, ForgottenSubject, Membership, Product, User
from engagement.recording import moving
from engagement.recording.jobs import MOVE_JOINED, REATTRIBUTE
from engagement.recording.record import record
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.removal.jobs import ERASE_FORGOTTEN, THIN_MEMBERSHIPS
from engagement.rescoring.rescore import rescore
from engagement.traits import Source
from ingestion.bulk import exporting
from ingestion.doors import lines
from ingestion.models import IngestionKey
from tests.bulk.lines import Folder, import_bytes, json_lines
from tests.cases import examples
from tests.engagement.history import (
    NOON,
    alias,
    at,
    group,
    identify,
    received,
    state,
    tell,
    track,
)
from tests.engagement.test_order_does_not_matter import scores
from tests.jobs import run_job, step_job
from tests.pipeline.waiting import at_once

# An export takes a snapshot of its own.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def exported(product: Product) -> list[dict[str, Any]]:
    return [json.loads(line) for line in exporting.export_lines(product.pk)]


def copied(product: Product, name: str = "copy") -> Product:
    copy = Product.create_with_workspace(name)
    assert import_bytes(copy, json_lines(*exported(product))) == []
    return copy


def comparable(product: Product) -> dict[str, Any]:
    """The state without arrivals, which are places in the order of one installation."""
    there = state(product)
    for rows in (there["users"], there["accounts"]):
        for name, (traits, stamps, *rest) in rows.items():
            rows[name] = (traits, {key: at for key, (at, _) in stamps.items()}, *rest)
    there["events"] = sorted(event[1:] for event in there["events"])
    there["memberships"] = sorted(there["memberships"])
    return there


def assert_same(product: Product, other: Product) -> None:
    assert comparable(product) == comparable(other)
    rescore(NOON)
    assert scores(product) == scores(other)


@pytest.fixture
def acme_with_everything(acme: Product) -> Product:
    tell(acme, group("initech", -2000, plan="pro", seats=5), group("hooli", -30, name="Hooli"))
    tell(acme, identify("ada", -900, "initech", name="Ada", email="ada@example.com"))
    tell(acme, identify("ada", -800, "hooli", plan="x"), identify("ada", -700, plan=None))
    tell(acme, *[track("ada", hours=hours) for hours in (-1000, -850, -750, -1, 0)])
    # A stranger, and a stranger who was in an account that nobody has introduced.
    tell(acme, track("stranger"), track("other stranger", group="nobody's"))
    tell(acme, identify("bob", -20, "initech", **{"am.tier": "5", "é": [1.5, {"a": None}]}))
    license = Identify("bob", NOON, {"am.tier": "10 Users", "am.gone": None})
    record([ReceivedMessage(acme.pk, 10**9, NOON, license, Source.MARKETPLACE)])
    return acme


def test_everything_is_the_same_again(acme_with_everything: Product) -> None:
    assert_same(copied(acme_with_everything), acme_with_everything)


def test_the_lines_are_those_that_the_documentation_describes(acme: Product) -> None:
    tell(acme, identify("ada", 0, "initech", plan="pro"), track("ada", hours=1))
    tell(acme, identify("ada", 2, plan=None, seats=3))
    assert exported(acme) == [
        {
            "type": "seen",
            "groupId": "initech",
            "firstAt": "2026-09-24T12:00:00Z",
            "lastAt": "2026-09-24T12:00:00Z",
            "identified": True,
        },
        {
            "type": "seen",
            "userId": "ada",
            "firstAt": "2026-09-24T12:00:00Z",
            "lastAt": "2026-09-24T14:00:00Z",
            "identified": True,
        },
        {
            "type": "identify",
            "userId": "ada",
            "timestamp": "2026-09-24T14:00:00Z",
            "traits": {"plan": None, "seats": 3},
        },
        {
            "type": "link",
            "userId": "ada",
            "groupId": "initech",
            "timestamp": "2026-09-24T12:00:00Z",
        },
        {
            "type": "track",
            "userId": "ada",
            "event": "opened",
            "timestamp": "2026-09-24T13:00:00Z",
        },
    ]


def test_what_came_late_does_as_little_to_the_copy(acme_with_everything: Product) -> None:
    copy = copied(acme_with_everything)
    late: list[Message] = [
        # Neither an old value nor a message's word on a license's trait counts.
        identify("ada", -750, plan="old", name="Old"),
        identify("bob", 4, **{"am.tier": "1", "am.gone": "back"}),
        # An old link moves the events behind it, and a stranger's events count from now on.
        identify("ada", -870, "hooli"),
        identify("stranger", 1, "initech"),
    ]
    for product in (copy, acme_with_everything):
        record(
            [
                ReceivedMessage(product.pk, 10**12 + place, NOON, message)
                for place, message in enumerate(late)
            ]
        )
    assert_same(copy, acme_with_everything)


def test_counts_that_outlived_their_events_are_counted_again(
    acme_with_everything: Product,
) -> None:
    Event.objects.filter(occurred_at__lt=NOON - timedelta(hours=600)).delete()
    tell(acme_with_everything, track("ada", "late", hours=-1000), track("ada", hours=-1000))
    counted = DailyCount.objects.filter(product=acme_with_everything).count()
    lines = exported(acme_with_everything)
    assert {"type": "count", "count": 1}.items() <= lines[-1].items()
    copy = copied(acme_with_everything)
    assert DailyCount.objects.filter(product=copy).count() == counted
    assert_same(copy, acme_with_everything)
    assert_same(copied(copy, "copy of the copy"), acme_with_everything)


def test_thinned_links_say_the_same(acme_with_everything: Product) -> None:
    tell(acme_with_everything, *(identify("ada", hours, "hooli") for hours in range(-600, -500)))
    before = Membership.objects.count()
    run_job(THIN_MEMBERSHIPS, NOON)
    assert Membership.objects.count() < before - 90
    assert_same(copied(acme_with_everything), acme_with_everything)


def test_whoever_is_being_forgotten_is_not_exported(acme_with_everything: Product) -> None:
    for subject in (
        SubjectRef(acme_with_everything.pk, SubjectScope.USER, "ada"),
        SubjectRef(acme_with_everything.pk, SubjectScope.ACCOUNT, "initech"),
    ):
        forgetting.forget(subject, NOON)
    assert ForgottenSubject.objects.filter(row_id__isnull=False).count() == 2
    copy = copied(acme_with_everything)
    run_job(ERASE_FORGOTTEN, NOON)
    assert_same(copy, acme_with_everything)


def test_another_products_rows_are_not_exported(
    acme_with_everything: Product, globex: Product
) -> None:
    tell(globex, identify("gil", 0, "globex customer"), track("gil"))
    text = json.dumps(exported(acme_with_everything))
    assert "gil" not in text and "globex" not in text
    assert exported(Product(pk=0)) == []


# --- Any messages ---------------------------------------------------------------------------

users, accounts = st.sampled_from(["ann", "bob"]), st.sampled_from(["initech", "hooli"])
# Days apart, and some at the same time.
times = st.integers(-30, 0).map(lambda days: NOON + timedelta(hours=days * 12))
names = st.sampled_from(["plan", "am.tier"])
traits = st.dictionaries(names, st.none() | st.integers(0, 3) | st.text("aé", max_size=1))
messages = st.one_of(
    st.builds(Identify, users, times, traits, st.none() | accounts),
    st.builds(Group, accounts, times, traits, st.none() | users),
    st.builds(Track, users, st.sampled_from(["opened", "saved"]), times, st.none() | accounts),
    st.builds(Alias, st.sampled_from(["ann", "bob", "cem"]), users, times),
)
sourced_messages = st.tuples(messages, st.sampled_from(Source))


@pytest.fixture
def nothing_else(db: None) -> Iterator[None]:
    yield
    Product.objects.all().delete()


@given(
    st.lists(sourced_messages, max_size=12),
    st.lists(sourced_messages, max_size=4),
    st.integers(-31, 0),
)
@examples(5)
def test_any_messages_come_out_the_same(
    nothing_else: None,
    history: list[tuple[Message, Source]],
    later: list[tuple[Message, Source]],
    kept_from: int,
) -> None:
    product = Product.create_with_workspace("original")
    tell_as(product, history, 0)
    # Retention drops the events of whole days.
    dropped_before = NOON.replace(hour=0) + timedelta(days=kept_from / 2 // 1)
    Event.objects.filter(product=product, occurred_at__lt=dropped_before).delete()
    copy = copied(product)
    assert comparable(copy) == comparable(product)
    # And whatever is said later does the same to both.
    for each_product in (product, copy):
        tell_as(each_product, later, 10**12)
    assert comparable(copy) == comparable(product)


def tell_as(product: Product, history: list[tuple[Message, Source]], first: int) -> None:
    record(
        [
            ReceivedMessage(product.pk, first + place, NOON, message, source)
            for place, (message, source) in enumerate(history)
        ]
    )


def test_rows_that_are_still_to_be_moved_are_exported_as_the_other_users(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "MAX_ROWS_PER_BATCH", 0)
    monkeypatch.setattr(moving, "ROWS_PER_STEP", 2)
    for user in ("old", "new"):
        tell(acme, identify(user, -30, "initech"))
        tell(acme, *(track(user, f"event {hour}", hours=-hour) for hour in range(3)))
    # Retention leaves counts without events.
    Event.objects.filter(occurred_at__lt=at(-1)).delete()
    tell(acme, alias("old", "new"))
    step_job(MOVE_JOINED, NOON)
    copy = copied(acme)
    run_job(MOVE_JOINED, NOON)
    run_job(REATTRIBUTE, NOON)
    assert_same(copy, acme)


@pytest.mark.parametrize(
    "statement",
    [
        Identify("ada", NOON, {"plan": None}, "initech", "m1"),
        Group("initech", NOON, {"plan": "pro"}, "ada"),
        Track("ada", "opened", NOON, "initech"),
        Alias("ada", "ada@example.com", NOON, "m2"),
        SubjectStatement(NOON, NOON, True, user_id="ada"),
        MembershipStatement("ada", "initech", NOON),
        CountStatement("ada", "opened", NOON, 3),
    ],
    ids=lambda statement: type(statement).__name__,
)
def test_a_line_reads_back_as_its_statement(statement: Statement) -> None:
    line = lines.as_line(statement, Source.MESSAGE)
    assert lines.parse(json.dumps(line, default=datetime.isoformat), NOON) == (
        statement,
        Source.MESSAGE,
    )


# --- One moment -----------------------------------------------------------------------------


def test_an_export_is_of_one_moment(acme_with_everything: Product) -> None:
    before = exported(acme_with_everything)
    export = exporting.export_lines(acme_with_everything.pk)
    first = next(export)

    def meanwhile() -> None:
        tell(acme_with_everything, identify("late"), track("ada", "late"))
        User.objects.filter(external_id="bob").delete()

    # From a connection of its own, as workers are.
    at_once(meanwhile)
    lines = [json.loads(line) for line in [first, *export]]
    # Lines of one kind come in any order.
    assert sorted(lines, key=json.dumps) == sorted(before, key=json.dumps)


# --- The command ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["acme.ndjson", "acme.ndjson.gz"])
def test_the_commands_round_trip(
    name: str, acme_with_everything: Product, globex: Product, folder: Folder
) -> None:
    key = IngestionKey.create(acme_with_everything, "app")
    folder.run("export_product", "Acme", "--output", name)
    (entry,) = TrailEntry.objects.filter(action="exported")
    assert (entry.person, entry.product_id) == ("command line", acme_with_everything.pk)
    assert key.secret not in "".join(map(str, exported(acme_with_everything)))
    assert stat.S_IMODE((folder.path / name).stat().st_mode) == 0o600
    output = folder.run("import_messages", name, "--product", "Globex")
    assert "recorded." in output
    assert comparable(globex) == comparable(acme_with_everything)
    assert folder.names() == {name}


def test_what_is_named_gz_is_gzip(acme_with_everything: Product, folder: Folder) -> None:
    folder.run("export_product", "Acme", "--output", "a.gz")
    folder.run("export_product", "Acme", "--output", "a.ndjson")
    assert gzip.decompress((folder.path / "a.gz").read_bytes()).decode() == folder.text("a.ndjson")


def test_standard_output_takes_it_too(
    acme_with_everything: Product, folder: Folder, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder.run("export_product", "Acme", "--output", "-")
    output = capfdbinary.readouterr().out
    # Lines of one kind come in any order.
    written_lines = [json.loads(line) for line in output.splitlines()]
    assert sorted(written_lines, key=json.dumps) == sorted(
        exported(acme_with_everything), key=json.dumps
    )


def test_a_file_is_not_replaced_unless_asked(acme: Product, folder: Folder) -> None:
    folder.write("a.ndjson", b"mine")
    with pytest.raises(CommandError, match=r"a\.ndjson exists\. Use --force to replace it"):
        folder.run("export_product", "Acme", "--output", "a.ndjson")
    assert folder.text("a.ndjson") == "mine"
    folder.run("export_product", "Acme", "--output", "a.ndjson", "--force")
    assert folder.text("a.ndjson") == ""


def test_an_export_that_fails_leaves_no_file_that_looks_complete(
    acme_with_everything: Product, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Iterator[bytes]:
        yield b"{}\n"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "export_lines", fail)
    with pytest.raises(CommandError, match=r"cannot be written .No space left on device"):
        folder.run("export_product", "Acme", "--output", "a.ndjson")
    assert folder.names() == set()
    with pytest.raises(CommandError, match=r"cannot be written .No such file"):
        folder.run("export_product", "Acme", "--output", "nowhere/a.ndjson")
    with pytest.raises(CommandError, match="there is no product 'Hooli'"):
        folder.run("export_product", "Hooli", "--output", "a.ndjson")


def test_exporting_reads_some_rows_at_a_time(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(received(acme, [track(f"user {number}") for number in range(50)]))
    read: list[int] = []
    original = sql.stream

    def fetch_and_count(*arguments: Any) -> Iterator[tuple[Any, ...]]:
        for row in original(*arguments, at_once=10):
            read.append(1)
            yield row

    monkeypatch.setattr(sql, "stream", fetch_and_count)
    export = exporting.export_lines(acme.pk)
    for _ in range(3):
        next(export)
    assert len(read) <= 3
    assert len(list(export)) == 97


def test_the_reader_of_an_export_may_be_slow(acme_with_everything: Product) -> None:
    lines = list(exporting.export_lines(acme_with_everything.pk))
    sql.execute("SET idle_in_transaction_session_timeout = '100ms'")
    export = exporting.export_lines(acme_with_everything.pk)
    first = next(export)
    time.sleep(0.5)
    assert sorted([first, *export]) == sorted(lines)
    sql.execute("RESET idle_in_transaction_session_timeout")
