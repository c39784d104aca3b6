"""Chooses the messages of a batch so that no key's messages wait behind another key's backlog.

Messages go in the order of arrival. Where more wait than fit into a batch, and one key has more
than its share of the oldest, it has a backlog, and the same question is asked about everybody
else's messages, up to ``VIEWS`` times. Those of nobody with a backlog make a batch of their own,
and then one is shared: so much for each backlog, so much for the others, what room is left again
for the backlogs.

Each view of the inbox (all keys; all but the first with a backlog; and so on) has a place up to
which nothing is left in it, and goes on from there: in a drain each view reads a row once. An index
by key would find the others at once, but it would cost each message at its acceptance.
"""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate, compress
from typing import LiteralString, NamedTuple

from engagement.database import sql
from ingestion.drain import batches

# Keys with a backlog that take turns with everybody else, and everybody else.
MAX_VIEWS = 5
# Choosing starts over after so many batches, for messages that were committed late or put back.
BATCHES_PER_SWEEP = 20


class _Window(NamedTuple):
    """The next messages of a view. ``heavy`` is a key with more than its share of them, None where
    there is none; ``is_heavy`` says which are that key's. ``end`` is the last id of the inbox."""

    ids: list[int]
    sizes: list[int]
    is_heavy: list[bool]
    heavy: bytes | None
    end: int


class _View:
    """The inbox without some keys' messages. Up to the id ``after`` no due message is left."""

    def __init__(self, without: list[bytes], after: int) -> None:
        self.without = without
        self.after = after
        self.heavy = b""


class _Batch:
    """Messages that are chosen, while there is room for more."""

    def __init__(self, rows: int, size: int) -> None:
        self.ids: set[int] = set()
        self._rows, self._bytes = rows, size

    @property
    def is_full(self) -> bool:
        return self._rows <= 0 or self._bytes <= 0

    def add(self, ids: Sequence[int], sizes: Sequence[int], rows: int, size: int) -> int:
        """Add messages in their order, up to so many and so many bytes, while there is room; how
        many were added. Whoever crosses a limit of bytes is the last."""
        size = min(size, self._bytes)
        if size <= 0:
            return 0
        totals = list(accumulate(sizes))
        number = min(rows, self._rows, len(ids), bisect_left(totals, size) + 1)
        if number > 0:
            self.ids.update(ids[:number])
            self._rows -= number
            self._bytes -= totals[number - 1]
        return max(0, number)


class FairSelector:
    """What one drain has chosen from so far."""

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._batches = 0
        self._views = [_View([], 0)]
        self._others_alone = False
        self.none_left = False

    def choose(self, now: datetime) -> list[int]:
        """The ids of the next messages that are due and that nobody has claimed, in order."""
        began_at = self._views[0].after
        looks = self._look_around(now)
        *heavy, (_, others) = looks
        batch = _Batch(self._batch_size, batches.BATCH_BYTES)
        # By themselves, because a batch with a backlog takes long; then it is the backlogs' turn.
        self._others_alone = bool(heavy and others.ids and not self._others_alone)
        if self._others_alone:
            self._add(batch, others.ids, others.sizes)
        else:
            backlogs = [self._add_share(batch, window) for _, window in heavy]
            for ids, sizes in ((others.ids, others.sizes), *backlogs):
                self._add(batch, ids, sizes)
        for view, window in looks:
            view.after = self._cleared_up_to(view, window, batch.ids)
        self._move_on(batch, began_at)
        return sorted(batch.ids)

    def _look_around(self, now: datetime) -> list[tuple[_View, _Window]]:
        """The windows of the views, the last of which is that of everybody else."""
        looks: list[tuple[_View, _Window]] = []
        for depth in range(MAX_VIEWS):
            view = self._view(depth)
            window = self._look(view, now)
            looks.append((view, window))
            if window.heavy is None or not self._is_full(window):
                break
            view.heavy = window.heavy
        return looks

    def _add(self, batch: _Batch, ids: list[int], sizes: list[int]) -> None:
        batch.add(ids, sizes, self._batch_size, batches.BATCH_BYTES)

    def _add_share(self, batch: _Batch, window: _Window) -> tuple[list[int], list[int]]:
        """Add the share of the key that is heavy; what is left of its messages in the window."""
        ids = list(compress(window.ids, window.is_heavy))
        sizes = list(compress(window.sizes, window.is_heavy))
        rows = max(1, self._batch_size // MAX_VIEWS)
        added = batch.add(ids, sizes, rows, batches.BATCH_BYTES // MAX_VIEWS)
        return ids[added:], sizes[added:]

    def _view(self, depth: int) -> _View:
        """The view without the keys that are heavy in those before."""
        without = [view.heavy for view in self._views[:depth]]
        if depth == len(self._views) or self._views[depth].without != without:
            # What is cleared among all is cleared among some.
            self._views[depth:] = [_View(without, self._views[depth - 1].after)]
        return self._views[depth]

    def _look(self, view: _View, now: datetime) -> _Window:
        parameters = {
            "now": now,
            "after": view.after,
            "without": view.without,
            "heavy_before": view.heavy,
            "limit": self._batch_size,
            "max_bytes": batches.BATCH_BYTES,
            "views": MAX_VIEWS,
        }
        ((ids, sizes, is_heavy, heavy, end),) = sql.fetch(_LOOK, parameters)
        return _Window(ids or [], sizes or [], is_heavy or [], heavy, end or 0)

    def _is_full(self, window: _Window) -> bool:
        return len(window.ids) >= self._batch_size or sum(window.sizes) >= batches.BATCH_BYTES

    def _cleared_up_to(self, view: _View, window: _Window, chosen: set[int]) -> int:
        left = next((id for id in window.ids if id not in chosen), None)
        if left is not None:
            return left - 1
        if self._is_full(window):
            return window.ids[-1]
        return max(view.after, window.end)

    def _move_on(self, batch: _Batch, began_at: int) -> None:
        self._batches += 1
        if batch.is_full or self._others_alone:
            if self._batches % BATCHES_PER_SWEEP == 0:
                self._start_over()
        elif began_at:
            self._start_over()
        else:
            # What has come since wakes a drain of its own, later and with more in it.
            self.none_left = True

    def _start_over(self) -> None:
        self._views = [_View([], 0)]


# The key that was heavy before stays it, so that the places of further views stay true.
_LOOK: LiteralString = """
    WITH due AS MATERIALIZED (
        SELECT id, key_digest, octet_length(payload) AS bytes FROM ingestion_inboxmessage
        WHERE id > %(after)s AND (not_before IS NULL OR not_before <= %(now)s)
          AND key_digest <> ALL(%(without)b::bytea[])
          AND id NOT IN (SELECT unnest(message_ids) FROM ingestion_claimedbatch)
        ORDER BY id
        LIMIT %(limit)s
    ), heavy AS MATERIALIZED (
        SELECT key_digest FROM due GROUP BY key_digest
        HAVING count(*) * %(views)s > %(limit)s OR sum(bytes) * %(views)s > %(max_bytes)s
        ORDER BY key_digest = %(heavy_before)s DESC,
                 GREATEST(count(*) / %(limit)s::float, sum(bytes) / %(max_bytes)s::float) DESC
        LIMIT 1
    )
    SELECT array_agg(id), array_agg(bytes),
           array_agg(key_digest = heavy) FILTER (WHERE heavy IS NOT NULL),
           (SELECT key_digest FROM heavy), (SELECT max(id) FROM ingestion_inboxmessage)
    FROM (SELECT due.*, (SELECT key_digest FROM heavy) AS heavy FROM due ORDER BY id) AS ordered
"""
