"""Reads files of lines, plain or gzip, of any size and in bounded memory."""

import gzip
import hashlib
import os
import zlib
from pathlib import Path
from typing import BinaryIO

CHUNK_BYTES = 1024 * 1024
# A longer line is skipped: it is not a message.
MAX_LINE_BYTES = 1024 * 1024
# A batch ends with the chunk in which it reaches this many lines or bytes.
MIN_BATCH_LINES = 5_000
MIN_BATCH_BYTES = 8 * 1024 * 1024

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class UnreadableFile(Exception):
    """The rest of the file cannot be read. The message tells why."""


class LineReader:
    """Reads the lines of a file from a *position* on, batch by batch.

    *raw* is the file at its beginning, plain or gzip: the first bytes tell. ``number`` is the
    number of lines read so far.
    """

    def __init__(self, raw: BinaryIO, position: int = 0, number: int = 0) -> None:
        self.number = number
        self._raw = raw
        self._stream = _decompressed(raw)
        self._consumed = 0
        # The beginning of an unfinished line, and the skipped bytes of a line that is too long.
        self._rest = b""
        self._skipped = 0
        self._skip_to(position)

    @property
    def position(self) -> int:
        """The number of uncompressed bytes up to the end of the last line that was read."""
        return self._consumed - len(self._rest) - self._skipped

    @property
    def bytes_read(self) -> int:
        """Bytes of the file itself, compressed or not, for the progress."""
        return self._raw.tell()

    def read_batch(self) -> list[bytes | None]:
        """Read the next lines. They have no newline; None stands for one that is too long. Returns
        an empty list at the end of the file."""
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
        """The lines that end in the chunk. The rest waits for the next chunk."""
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        lines = [line if len(line) <= MAX_LINE_BYTES else None for line in complete]
        if lines and self._skipped:
            lines[0], self._skipped = None, 0
        if self._skipped or len(self._rest) > MAX_LINE_BYTES:
            self._skipped += len(self._rest)
            self._rest = b""
        return lines

    def _last_line(self) -> list[bytes | None]:
        """The last line if it has no newline, or an empty list."""
        line = None if self._skipped else self._rest
        self._rest, self._skipped = b"", 0
        return [] if line == b"" else [line]

    def _skip_to(self, position: int) -> None:
        while self._consumed < position:
            if not self._read(min(CHUNK_BYTES, position - self._consumed)):
                raise UnreadableFile("is shorter than when its import was interrupted.")

    def _read(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except EOFError:
            raise UnreadableFile("ends too early: its gzip data is incomplete.") from None
        except (gzip.BadGzipFile, zlib.error):
            raise UnreadableFile("contains damaged gzip data.") from None
        except OSError as error:
            raise UnreadableFile(f"cannot be read ({error.strerror}).") from None
        self._consumed += len(data)
        return data


def _decompressed(raw: BinaryIO) -> BinaryIO:
    first_bytes = raw.peek(len(_GZIP)) if hasattr(raw, "peek") else b""
    if first_bytes.startswith(_GZIP):
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    return raw


def file_digest(path: Path) -> bytes:
    """The file's identity: its size, and parts of its beginning, middle and end.

    It does not depend on the file's name, and is quick for files of any size.
    """
    size = path.stat().st_size
    identity = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for offset in sorted({0, max(0, size // 2), max(0, size - CHUNK_BYTES)}):
            file.seek(offset, os.SEEK_SET)
            identity.update(file.read(CHUNK_BYTES))
    return identity.digest()
