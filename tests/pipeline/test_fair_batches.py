"""Nobody's messages wait behind somebody else's backlog: keys take turns."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, LiteralString

import pytest

from core.database import sql
from engagement.messages import ReceivedMessage, Rejection
from engagement.models import Product
from ingestion.drain import batches as limits
from ingestion.drain import processing
from ingestion.drain.batches import BatchSizer
from ingestion.models import IngestionKey
from tests.engagement.history import identify, track
from tests.pipeline.waiting import drain, wait, wait_raw, waiting


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The arrivals of each batch that is recorded."""
    arrivals: list[list[int]] = []

    def note(received: Sequence[ReceivedMessage]) -> list[Rejection]:
        arrivals.append([message.arrival for message in received])
        return []

    monkeypatch.setattr(processing, "record", note)
    return arrivals


@pytest.fixture
def globex_key(globex: Product) -> str:
    return IngestionKey.create(globex, "test").secret


def test_the_neighbor_of_a_flood_is_in_the_first_batch(
    acme_key: str, globex_key: str, batches: list[list[int]]
) -> None:
    flood = wait(acme_key, *[track("ada")] * 500)
    (neighbor,) = wait(globex_key, track("gil"))
    drain(batch_size=20)
    # By itself, and so at once.
    assert batches[:2] == [[neighbor], flood[:20]]
    # Nothing is lost or doubled, and the flood stays in its order.
    assert [arrival for batch in batches for arrival in batch if arrival != neighbor] == flood
    assert waiting() == []


def test_a_message_that_comes_during_the_flood_is_in_the_next_batch(
    acme_key: str, globex_key: str, batches: list[list[int]]
) -> None:
    wait(acme_key, *[track("ada")] * 200)
    arrivals: list[int] = []

    def send() -> None:
        wait(acme_key, *[track("ada")] * 30)
        arrivals.extend(wait(globex_key, track("gil")))

    times = islice(iter([False] * 10 + [True]), 11)
    drain(batch_size=20, after_batch=send, out_of_time=lambda: next(times))
    recorded = {arrival: number for number, batch in enumerate(batches) for arrival in batch}
    # While a batch with the backlog is shared with others, these need no batch of their own.
    assert all(recorded[arrival] <= number + 2 for number, arrival in enumerate(arrivals[:-1]))


def test_keys_with_backlogs_take_turns(
    acme_key: str, globex_key: str, batches: list[list[int]]
) -> None:
    first = wait(acme_key, *[track("ada")] * 100)
    second = wait(globex_key, *[track("gil")] * 100)
    wait("edk_of_nobody", *[track("eve")] * 2)
    drain(batch_size=20)
    # The third key's two messages are dropped in a batch of their own. The room that is left
    # goes to the oldest.
    shares = [Counter("ab"[arrival in second] for arrival in batch) for batch in batches]
    assert shares[:3] == [{}, {"a": 16, "b": 4}, {"a": 16, "b": 4}]
    assert sorted(arrival for batch in batches for arrival in batch) == first + second
    assert [arrival for batch in batches for arrival in batch if arrival in second] == second


def test_a_message_behind_several_backlogs_is_in_the_first_batch(
    acme_key: str, globex: Product, batches: list[list[int]]
) -> None:
    keys = [IngestionKey.create(globex, "test").secret for _ in range(4)]
    floods = [wait(key, *[track("gil")] * 100) for key in keys]
    (neighbor,) = wait(acme_key, track("ada"))
    drain(batch_size=20)
    assert batches[0] == [neighbor]
    assert sorted(arrival for batch in batches for arrival in batch) == [*chain(*floods), neighbor]


def test_a_flood_alone_has_whole_batches(acme_key: str, batches: list[list[int]]) -> None:
    ids = wait(acme_key, *[track("ada")] * 50)
    drain(batch_size=20)
    assert batches == [ids[:20], ids[20:40], ids[40:]]


def test_large_messages_have_no_more_than_their_share(
    acme_key: str, globex_key: str, batches: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BATCH_BYTES", 200_000)
    flood = wait(acme_key, *[identify("ada", bio="x" * 20_000)] * 50)
    neighbors = wait(globex_key, *[track("gil")] * 8)
    drain(batch_size=20)
    assert batches[0] == neighbors
    assert [arrival for batch in batches for arrival in batch if arrival in flood] == flood


def test_messages_that_fail_and_are_put_back_are_recorded_later(
    acme_key: str, globex_key: str, batches: list[list[int]]
) -> None:
    flood = wait(acme_key, *[track("ada")] * 100)
    put_back = wait_raw(globex_key, b"\xc1")
    drain(batch_size=20)
    assert [arrival for batch in batches for arrival in batch] == flood
    assert waiting() == put_back


def test_each_view_of_the_inbox_reads_a_row_once(
    acme_key: str, globex_key: str, batches: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(acme_key, *[track("ada")] * 100)
    reads: list[tuple[int, int]] = []
    fetch = sql.fetch

    def fetch_and_note(statement: LiteralString, parameters: dict[str, Any]) -> list[sql.Row]:
        if "without" in parameters:
            reads.append((len(parameters["without"]), parameters["after"]))
        return fetch(statement, parameters)

    monkeypatch.setattr(sql, "fetch", fetch_and_note)
    drain(batch_size=20)
    assert len(batches) == 5
    end = [after for depth, after in reads if depth == 1]
    # The drain reads the backlog for other keys' messages once, then goes on behind its end.
    assert end[0] == 0
    assert len(set(end[1:])) == 1


# --- The size of a batch --------------------------------------------------------------------


class Machine:
    """Its clock moves by what recording takes, in seconds a message."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds_per_message: float) -> None:
        self.now = 0.0
        self.seconds_per_message = seconds_per_message
        self.sizes: list[int] = []
        self.recorded_at: dict[int, float] = {}
        monkeypatch.setattr(processing, "record", self.record)

    def record(self, received: Sequence[ReceivedMessage]) -> list[Rejection]:
        self.now += len(received) * self.seconds_per_message
        self.sizes.append(len(received))
        self.recorded_at |= {message.arrival: self.now for message in received}
        return []

    def drain(self, **options: Any) -> None:
        drain(sizer=BatchSizer(lambda: self.now), **options)


@pytest.mark.slow
@pytest.mark.whole
def test_on_a_slow_machine_a_batch_lasts_about_a_second(
    acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, seconds_per_message=0.0004)
    wait(acme_key, *[track("ada")] * 9_500)
    machine.drain()
    assert machine.sizes == [2_000, 2_500, 2_500, 2_500]


def test_a_neighbor_of_a_backlog_waits_about_a_second(
    acme_key: str, globex_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, seconds_per_message=0.0004)
    wait(acme_key, *[track("ada")] * 8_000)
    sent_at: dict[int, float] = {}

    def send() -> None:
        (id,) = wait(globex_key, track("gil"))
        sent_at[id] = machine.now

    drains = islice(iter([False] * 6 + [True]), 7)
    machine.drain(after_batch=send, out_of_time=lambda: next(drains))
    waits = [
        machine.recorded_at[id] - at for id, at in sent_at.items() if id in machine.recorded_at
    ]
    assert len(waits) >= 4
    assert max(waits) <= 1.01


def test_no_batch_is_so_small_that_its_fixed_costs_prevail(
    acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, seconds_per_message=0.01)
    wait(acme_key, *[track("ada")] * 4_000)
    machine.drain()
    assert machine.sizes == [2_000, 1_000, 1_000]


def test_a_machine_that_is_fast_again_gets_large_batches_again() -> None:
    now = 0.0
    sizer = BatchSizer(lambda: now)
    for seconds, size in ((4.0, 1_000), (0.5, 2_000), (0.5, 4_000), (0.1, 10_000)):
        with sizer.timed(sizer.size):
            now += seconds
        assert sizer.size == size
    # A batch of a few messages tells nothing.
    with sizer.timed(5):
        now += 3
    assert sizer.size == 10_000
