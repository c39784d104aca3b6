"""Keeps equal tracebacks from filling the log: one a minute, and how many were left out.

Requests can be repeated faster than a disk takes tracebacks. This imports neither Django nor the
service, because gunicorn's master process uses it.
"""

import logging
import threading
from dataclasses import dataclass, field
from hashlib import sha256
from types import TracebackType

SECONDS = 60.0
# Places in the code that are remembered. With more in a minute, all of them start again.
MAX_KEPT = 1_000
# Other lines of the equal tracebacks that are quoted, and how much of each.
MAX_QUOTED, QUOTED_LENGTH = 5, 200


@dataclass
class _Entry:
    """A traceback that was written, and what was left out since."""

    level: int
    error: str
    since: float
    number: int = 0
    lines: dict[str, None] = field(default_factory=dict)


class TracebackLimit(logging.Filter):
    """Lets the first of equal tracebacks through, and no other within a minute.

    Equal are those of one logger that were raised at the same lines of the code, whatever the
    error says. The next line after that minute is preceded by one about those that were left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[tuple[str, bytes], _Entry] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        with self._lock:
            over = self._take_over(record.created)
            is_first = self._note(record)
        for name, entry in over:
            logging.getLogger(name).handle(_summary(name, entry, record.created))
        return is_first

    def _take_over(self, now: float) -> list[tuple[str, _Entry]]:
        """Forget the tracebacks whose minute is over, and return those with something left out."""
        # A clock that was set back must not silence anything for longer.
        over = [key for key, entry in self._entries.items() if not 0 <= now - entry.since < SECONDS]
        return [(key[0], entry) for key in over if (entry := self._entries.pop(key)).number]

    def _note(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return True
        key = (record.name, _fingerprint(error))
        if entry := self._entries.get(key):
            entry.number += 1
            if len(entry.lines) < MAX_QUOTED:
                entry.lines[record.getMessage()[:QUOTED_LENGTH]] = None
            return False
        if len(self._entries) >= MAX_KEPT:
            self._entries.clear()
        self._entries[key] = _Entry(record.levelno, type(error).__name__, record.created)
        return True


def _fingerprint(error: BaseException) -> bytes:
    """The types of the error and of its causes, and the lines of code where each was raised."""
    digest = sha256()
    following: BaseException | None = error
    visited: set[int] = set()
    while following is not None and id(following) not in visited:
        visited.add(id(following))
        digest.update(type(following).__qualname__.encode())
        frame: TracebackType | None = following.__traceback__
        while frame is not None:
            code = frame.tb_frame.f_code
            digest.update(f"{code.co_filename}:{frame.tb_lineno}\n".encode())
            frame = frame.tb_next
        following = following.__cause__ or following.__context__
    return digest.digest()


def _summary(name: str, entry: _Entry, now: float) -> logging.LogRecord:
    text = "%d tracebacks like the one before (%s) were left out within %d s: %s"
    arguments = (entry.number, entry.error, SECONDS, "; ".join(entry.lines))
    record = logging.LogRecord(name, entry.level, __file__, 0, text, arguments, None)
    record.created = now
    record.fields = {"left_out": entry.number}
    return record
