"""Chooses the messages of a batch so that no key's messages wait behind another key's backlog.

Messages go in the order of arrival. If more wait than fit into a batch, and one key has more than
its share of the oldest, that key has a backlog. The selector then looks at everybody else's
messages in the same way, up to ``MAX_VIEWS`` times. Messages of keys without a backlog make a batch
of their own. The next batch is shared: a part for each backlog, a part for the others, and the
remaining room for the backlogs again.

Each view of the inbox (all keys; all but the first with a backlog; and so on) remembers up to which
id nothing is left in it, and goes on from there. So in a drain each view reads a row once. An index
by key would find the others at once, but it would slow down accepting each message.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import accumulate, compress
from typing import LiteralString, NamedTuple

from core.database import sql
from ingestion.drain import batches

# Up to four keys with a backlog, and everybody else.
MAX_VIEWS = 5
# After this many batches the views start over, for messages that were committed late or put back.
BATCHES_PER_SWEEP = 20


class _Window(NamedTuple):
    """The next messages of a view. ``heavy`` is a key with more than its share of them, or None.
    ``is_heavy`` tells which messages are that key's. ``end`` is the last id of the inbox."""

    ids: list[int]
    sizes: list[int]
    is_heavy: list[bool]
    heavy: bytes | None
    end: int


class _View:
    """The inbox without some keys' messages. No due message is left up to the id ``after``."""

    def __init__(self, without: list[bytes], after: int) -> None:
        self.without = without
        self.after = after
        self.heavy = b""


class _Batch:
    """The chosen messages, and the room for more."""

    def __init__(self, rows: int, size: int) -> None:
        self.ids: set[int] = set()
        self._rows, self._bytes = rows, size

    @property
    def is_full(self) -> bool:
        return self._rows <= 0 or self._bytes <= 0

    def add(self, ids: Sequence[int], sizes: Sequence[int], rows: int, size: int) -> int:
        """Add messages in their order, up to *rows* and *size* bytes, while there is room. The
        message that crosses a byte limit is the last one. Returns the number of added messages."""
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
    """Chooses the batches of one drain."""

    def __init__(self) -> None:
        self._batch_size = 0
        self._batches = 0
        self._left_out: list[bytes] = []
        self._views = [_View([], 0)]
        self._others_alone = False
        self.is_exhausted = False

    def leave_out(self, keys: Collection[bytes]) -> None:
        """Choose no messages with these keys, given by their digests, until the next call."""
        if list(keys) != self._left_out:
            self._left_out = list(keys)
            self._start_over()
            self.is_exhausted = False

    def choose(self, now: datetime, batch_size: int) -> list[int]:
        """The ids of up to *batch_size* messages that are due and unclaimed, in order."""
        self._batch_size = batch_size
        first_after = self._views[0].after
        windows = self._read_windows(now)
        *heavy, (_, others) = windows
        batch = _Batch(batch_size, batches.BATCH_BYTES)
        # A batch with a backlog takes longer, so the others take turns with it.
        self._others_alone = bool(heavy and others.ids and not self._others_alone)
        if self._others_alone:
            self._add(batch, others.ids, others.sizes)
        else:
            remainders = [self._add_share(batch, window) for _, window in heavy]
            for ids, sizes in ((others.ids, others.sizes), *remainders):
                self._add(batch, ids, sizes)
        for view, window in windows:
            view.after = self._cleared_up_to(view, window, batch.ids)
        self._advance(batch, first_after)
        return sorted(batch.ids)

    def _read_windows(self, now: datetime) -> list[tuple[_View, _Window]]:
        """The windows of the views. The last view is that of everybody else."""
        windows: list[tuple[_View, _Window]] = []
        for depth in range(MAX_VIEWS):
            view = self._view(depth)
            window = self._read_window(view, now)
            windows.append((view, window))
            if window.heavy is None or not self._is_full(window):
                break
            view.heavy = window.heavy
        return windows

    def _add(self, batch: _Batch, ids: list[int], sizes: list[int]) -> None:
        batch.add(ids, sizes, self._batch_size, batches.BATCH_BYTES)

    def _add_share(self, batch: _Batch, window: _Window) -> tuple[list[int], list[int]]:
        """Add the heavy key's share. Returns the rest of its messages in the window."""
        ids = list(compress(window.ids, window.is_heavy))
        sizes = list(compress(window.sizes, window.is_heavy))
        rows = max(1, self._batch_size // MAX_VIEWS)
        added = batch.add(ids, sizes, rows, batches.BATCH_BYTES // MAX_VIEWS)
        return ids[added:], sizes[added:]

    def _view(self, depth: int) -> _View:
        """The view without the heavy keys of the views before it."""
        without = self._left_out + [view.heavy for view in self._views[:depth]]
        if depth == len(self._views) or self._views[depth].without != without:
            # What is cleared in a view is cleared in each narrower one.
            self._views[depth:] = [_View(without, self._views[depth - 1].after)]
        return self._views[depth]

    def _read_window(self, view: _View, now: datetime) -> _Window:
        parameters = {
            "now": now,
            "after": view.after,
            "without": view.without,
            "heavy_before": view.heavy,
            "limit": self._batch_size,
            "max_bytes": batches.BATCH_BYTES,
            "views": MAX_VIEWS,
        }
        ((ids, sizes, is_heavy, heavy, end),) = sql.fetch(_WINDOW, parameters)
        return _Window(ids or [], sizes or [], is_heavy or [], heavy, end or 0)

    def _is_full(self, window: _Window) -> bool:
        return len(window.ids) >= self._batch_size or sum(window.sizes) >= batches.BATCH_BYTES

    def _cleared_up_to(self, view: _View, window: _Window, batch_ids: set[int]) -> int:
        first_left = next((id for id in window.ids if id not in batch_ids), None)
        if first_left is not None:
            return first_left - 1
        if self._is_full(window):
            return window.ids[-1]
        return max(view.after, window.end)

    def _advance(self, batch: _Batch, first_after: int) -> None:
        self._batches += 1
        if batch.is_full or self._others_alone:
            if self._batches % BATCHES_PER_SWEEP == 0:
                self._start_over()
        elif first_after:
            self._start_over()
        else:
            # Messages that arrived since then request a drain of their own.
            self.is_exhausted = True

    def _start_over(self) -> None:
        self._views = [_View(self._left_out, 0)]


# A key that was heavy before stays the heavy one, so that the further views remain valid.
_WINDOW: LiteralString = """
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
