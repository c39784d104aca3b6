"""Reads files of lines, plain or gzip, of any size and in bounded memory."""

import gzip
import hashlib
import os
import zlib
from pathlib import Path
from typing import BinaryIO

# So much is read at once.
CHUNK_BYTES = 1024 * 1024
# A longer line is no message; what it holds is skipped.
MAX_LINE_BYTES = 1024 * 1024
# A batch ends with the chunk in which it has so many lines, or so many bytes.
MIN_BATCH_LINES = 5_000
MIN_BATCH_BYTES = 8 * 1024 * 1024

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class UnreadableFile(Exception):
    """The file cannot be read on; the message is a sentence that says why."""


class LineReader:
    """The lines of a file from some *position* on, batch by batch.

    *raw* is the file as it is, at its beginning; gzip is recognised by its first bytes. ``number``
    is the number of lines up to the last one that was handed out.
    """

    def __init__(self, raw: BinaryIO, position: int = 0, number: int = 0) -> None:
        self.number = number
        self._raw = raw
        self._stream = _unpacked(raw)
        self._consumed = 0
        # What was read of a line whose end was not, and how much of one that is too long.
        self._rest = b""
        self._skipped = 0
        self._skip_to(position)

    @property
    def position(self) -> int:
        """The number of uncompressed bytes up to the end of the last line that was handed out."""
        return self._consumed - len(self._rest) - self._skipped

    @property
    def bytes_read(self) -> int:
        """Of the file as it is, compressed or not: for the progress."""
        return self._raw.tell()

    def batch(self) -> list[bytes | None]:
        """The next lines without their ends, None for one that is too long; empty at the end."""
        lines: list[bytes | None] = []
        size = 0
        while len(lines) < MIN_BATCH_LINES and size < MIN_BATCH_BYTES:
            chunk = self._read(CHUNK_BYTES)
            size += len(chunk)
            if not chunk:
                lines += self._last_line()
                break
            lines += self._split(chunk)
        if not self.number and lines and lines[0] is not None:
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        self.number += len(lines)
        return lines

    def _split(self, chunk: bytes) -> list[bytes | None]:
        """The lines that end in the chunk; what is behind the last end waits for the next one."""
        *ended, self._rest = (self._rest + chunk).split(b"\n")
        lines = [line if len(line) <= MAX_LINE_BYTES else None for line in ended]
        if lines and self._skipped:
            lines[0], self._skipped = None, 0
        if self._skipped or len(self._rest) > MAX_LINE_BYTES:
            self._skipped += len(self._rest)
            self._rest = b""
        return lines

    def _last_line(self) -> list[bytes | None]:
        """The line that ends with the file and not with a line end, if there is one."""
        line = None if self._skipped else self._rest
        self._rest, self._skipped = b"", 0
        return [] if line == b"" else [line]

    def _skip_to(self, position: int) -> None:
        while self._consumed < position:
            if not self._read(min(CHUNK_BYTES, position - self._consumed)):
                raise UnreadableFile("is shorter than it was when its import was interrupted.")

    def _read(self, size: int) -> bytes:
        try:
            read = self._stream.read(size)
        except EOFError:
            raise UnreadableFile("ends too early: its gzip data is incomplete.") from None
        except (gzip.BadGzipFile, zlib.error):
            raise UnreadableFile("holds damaged gzip data.") from None
        except OSError as error:
            raise UnreadableFile(f"cannot be read ({error.strerror}).") from None
        self._consumed += len(read)
        return read


def _unpacked(raw: BinaryIO) -> BinaryIO:
    beginning = raw.peek(len(_GZIP)) if hasattr(raw, "peek") else b""
    if beginning.startswith(_GZIP):
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    return raw


def file_digest(path: Path) -> bytes:
    """What tells this file from another: its size, and a piece of its beginning, middle and end.

    So a file keeps its identity under another name, and nothing has to read it as a whole.
    """
    size = path.stat().st_size
    identity = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for place in sorted({0, max(0, size // 2), max(0, size - CHUNK_BYTES)}):
            file.seek(place, os.SEEK_SET)
            identity.update(file.read(CHUNK_BYTES))
    return identity.digest()
