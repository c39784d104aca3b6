"""Reads a request's body as text, never more than its size limit."""

import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rest_framework.request import Request

from ingestion.errors import IngestionError

# The limits count bytes after decompression.
MAX_SINGLE_BODY_BYTES = 64 * 1024
# RudderStack's servers take 4 MB, Segment's take 500 KB.
MAX_BATCH_BODY_BYTES = 4 * 1024 * 1024
MAX_BATCH_MESSAGES = 2_500
# Bytes of large bodies that a process reads, or that wait for decoding, at the same time. A slow
# client holds on to its part.
MAX_BYTES_IN_PROGRESS = 64 * 1024 * 1024
RETRY_AFTER_BUSY = 2

BYTE_ORDER_MARK = "\ufeff"
# zlib's code for "a gzip header, a gzip trailer, and any window size".
GZIP_WBITS = zlib.MAX_WBITS | 16


def read(request: Request, limit: int) -> str:
    """The body, decompressed and decoded from UTF-8, without a byte order mark.

    Raises IngestionError if it is larger than *limit* bytes, in an encoding other than gzip,
    damaged, or not UTF-8.
    """
    encoding = request.META.get("HTTP_CONTENT_ENCODING")
    if encoding is None:
        body = _read_bytes(request, limit)
    else:
        body = _decoded(_read_bytes(request, limit), encoding.strip().lower(), limit)
    try:
        return body.decode().removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError:
        raise _unreadable("The body is not valid UTF-8. Encode it as UTF-8.") from None


def _read_bytes(request: Request, limit: int) -> bytes:
    """The bytes as received. A body that announces more than *limit* bytes is not read."""
    announced = _announced_length(request)
    if announced > limit:
        raise _too_large(limit)
    size = announced if announced >= 0 else limit
    if size > MAX_SINGLE_BODY_BYTES:
        with _in_progress.reserve(size):
            return _read_announced(request, announced, limit)
    return _read_announced(request, announced, limit)


def _read_announced(request: Request, announced: int, limit: int) -> bytes:
    try:
        if announced >= 0:
            body: bytes = request.read(announced)
        else:
            body = _read_to_end(request.META["wsgi.input"], limit)
    except Exception:
        # Servers raise various errors when a client disconnects or sends malformed chunks.
        raise _incomplete() from None
    if len(body) < announced:
        raise _incomplete()
    if len(body) > limit:
        raise _too_large(limit)
    return body


class _BytesInProgress:
    """How many bytes of large bodies this process is reading."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = 0

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Count *size* bytes during the block. Raises IngestionError if they are too many."""
        with self._lock:
            if self._bytes + size > MAX_BYTES_IN_PROGRESS:
                raise _busy()
            self._bytes += size
        try:
            yield
        finally:
            with self._lock:
                self._bytes -= size


_in_progress = _BytesInProgress()
_decoding = threading.Lock()


@contextmanager
def decode_in_turn(size: int) -> Iterator[None]:
    """Let the process decode one large body at a time. Raises IngestionError if too many wait.

    So a decoder may pause, and decoded messages of only one body take memory meanwhile.
    """
    with _in_progress.reserve(size), _decoding:
        yield


def _announced_length(request: Request) -> int:
    """The length in bytes that the headers announce, or -1 for a chunked body.

    Django treats a request without Content-Length as empty. With a server that sets
    ``wsgi.input_terminated``, such a body can be read to its end.
    """
    length = request.META.get("CONTENT_LENGTH")
    if not length:
        return -1 if request.META.get("wsgi.input_terminated") else 0
    try:
        return max(0, int(length))
    except ValueError:
        return 0


def _read_to_end(stream: Any, limit: int) -> bytes:
    """The whole stream, or its first *limit* + 1 bytes."""
    parts = []
    missing = limit + 1
    while missing and (part := stream.read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _decoded(body: bytes, encoding: str, limit: int) -> bytes:
    if encoding in {"gzip", "x-gzip"}:
        return _gunzip(body, limit)
    if encoding in {"identity", ""}:
        return body
    raise IngestionError(
        415,
        "unsupported_encoding",
        "Content-Encoding must be gzip or identity. Leave it out to send plain JSON.",
    )


def _gunzip(body: bytes, limit: int) -> bytes:
    """Decompress one or more gzip members. Stop as soon as the result exceeds *limit*."""
    parts = []
    room = limit + 1
    while True:
        member = zlib.decompressobj(GZIP_WBITS)
        try:
            parts.append(member.decompress(body, room))
        except zlib.error:
            raise _unreadable("The body is not valid gzip data. Compress it again.") from None
        room -= len(parts[-1])
        if room <= 0:
            raise _too_large(limit)
        if not member.eof:
            raise _unreadable("The gzip data is incomplete. Send the request again.")
        # Some writers pad the end with zeros.
        body = member.unused_data.lstrip(b"\0")
        if not body:
            return b"".join(parts)


def _too_large(limit: int) -> IngestionError:
    return IngestionError(
        413, "payload_too_large", f"The body must be at most {limit:,} bytes, uncompressed."
    )


def _busy() -> IngestionError:
    message = f"Too many large batches arrive at the same time. Retry in {RETRY_AFTER_BUSY} s."
    return IngestionError(503, "unavailable", message, retry_after=RETRY_AFTER_BUSY)


def too_many_messages() -> IngestionError:
    return IngestionError(
        413,
        "payload_too_large",
        f"A batch must have at most {MAX_BATCH_MESSAGES:,} messages. Send several batches.",
    )


def _incomplete() -> IngestionError:
    return _unreadable("The body is incomplete. Send the request again.")


def _unreadable(message: str) -> IngestionError:
    return IngestionError(400, "invalid_json", message)
