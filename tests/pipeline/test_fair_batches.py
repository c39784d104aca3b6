"""Nobody's messages wait behind somebody else's backlog: keys take turns."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any

import pytest

from engagement.messages import ReceivedMessage
from engagement.models import Product
from engagement.recording.record import RecordResult
from ingestion.drain import batches as limits
from ingestion.drain import processing
from ingestion.drain.fairness import FairSelector
from ingestion.models import IngestionKey
from tests.engagement.history import identify, track
from tests.pipeline.waiting import drain, wait, wait_raw, waiting


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The arrivals of each batch that is recorded."""
    noted: list[list[int]] = []

    def note(received: Sequence[ReceivedMessage]) -> RecordResult:
        noted.append([one.arrival for one in received])
        return RecordResult([], {})

    monkeypatch.setattr(processing, "record", note)
    return noted


@pytest.fixture
def globex_key(globex: Product) -> str:
    return IngestionKey.create(globex, "test").secret


def test_a_floods_neighbour_is_in_the_first_batch(
    acme_key: str, globex_key: str, batches: list[list[int]]
) -> None:
    flood = wait(acme_key, *[track("ada")] * 500)
    (neighbour,) = wait(globex_key, track("gil"))
    drain(batch_size=20)
    # By itself, and so at once.
    assert batches[:2] == [[neighbour], flood[:20]]
    # Nothing is lost or doubled, and the flood stays in its order.
    assert [one for batch in batches for one in batch if one != neighbour] == flood
    assert waiting() == []


def test_a_message_that_comes_during_the_flood_is_in_the_next_batch(
    acme_key: str, globex_key: str, batches: list[list[int]]
) -> None:
    wait(acme_key, *[track("ada")] * 200)
    sent: list[int] = []

    def send() -> None:
        wait(acme_key, *[track("ada")] * 30)
        sent.extend(wait(globex_key, track("gil")))

    times = islice(iter([False] * 10 + [True]), 11)
    drain(batch_size=20, after_batch=send, out_of_time=lambda: next(times))
    recorded = {one: number for number, batch in enumerate(batches) for one in batch}
    # While a batch with the backlog is shared with others, these need no batch of their own.
    assert all(recorded[one] <= number + 2 for number, one in enumerate(sent[:-1]))


def test_keys_with_backlogs_take_turns(
    acme_key: str, globex_key: str, batches: list[list[int]]
) -> None:
    first = wait(acme_key, *[track("ada")] * 100)
    second = wait(globex_key, *[track("gil")] * 100)
    wait("edk_of_nobody", *[track("eve")] * 2)
    drain(batch_size=20)
    # The third key's two messages are dropped in a batch of their own. The room that is left
    # goes to the oldest.
    taken = [Counter("ab"[one in second] for one in batch) for batch in batches]
    assert taken[:3] == [{}, {"a": 16, "b": 4}, {"a": 16, "b": 4}]
    assert sorted(one for batch in batches for one in batch) == first + second
    assert [one for batch in batches for one in batch if one in second] == second


def test_a_message_behind_several_backlogs_is_in_the_first_batch(
    acme_key: str, globex: Product, batches: list[list[int]]
) -> None:
    keys = [IngestionKey.create(globex, "test").secret for _ in range(4)]
    floods = [wait(key, *[track("gil")] * 100) for key in keys]
    (neighbour,) = wait(acme_key, track("ada"))
    drain(batch_size=20)
    assert batches[0] == [neighbour]
    assert sorted(one for batch in batches for one in batch) == [*chain(*floods), neighbour]


def test_a_flood_alone_has_whole_batches(acme_key: str, batches: list[list[int]]) -> None:
    ids = wait(acme_key, *[track("ada")] * 50)
    drain(batch_size=20)
    assert batches == [ids[:20], ids[20:40], ids[40:]]


def test_large_messages_have_no_more_than_their_share(
    acme_key: str, globex_key: str, batches: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BATCH_BYTES", 200_000)
    flood = wait(acme_key, *[identify("ada", bio="x" * 20_000)] * 50)
    neighbours = wait(globex_key, *[track("gil")] * 8)
    drain(batch_size=20)
    assert batches[0] == neighbours
    assert [one for batch in batches for one in batch if one in flood] == flood


def test_messages_that_fail_and_are_put_back_are_recorded_later(
    acme_key: str, globex_key: str, batches: list[list[int]]
) -> None:
    flood = wait(acme_key, *[track("ada")] * 100)
    put_back = wait_raw(globex_key, b"\xc1")
    drain(batch_size=20)
    assert [one for batch in batches for one in batch] == flood
    assert waiting() == put_back


def test_each_view_of_the_inbox_reads_a_row_once(
    acme_key: str, globex_key: str, batches: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(acme_key, *[track("ada")] * 100)
    looks: list[tuple[int, int]] = []
    look = FairSelector._look

    def note(self: FairSelector, view: Any, now: datetime) -> Any:
        looks.append((len(view.without), view.after))
        return look(self, view, now)

    monkeypatch.setattr(FairSelector, "_look", note)
    drain(batch_size=20)
    assert len(batches) == 5
    end = [after for depth, after in looks if depth == 1]
    # Everybody else's messages are looked for behind the backlog once, then behind its end.
    assert end[0] == 0
    assert len(set(end[1:])) == 1
