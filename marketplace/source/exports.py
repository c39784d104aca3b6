"""Exports of licenses: what the marketplace says of one, and the records in its file.

Source: the Marketplace REST API v3, "Initiate async export of licenses".
"""

import re
from enum import StrEnum
from typing import Final
from urllib.parse import unquote

import msgspec

from marketplace.source.errors import UnexpectedResponse


class ExportState(StrEnum):
    """What has become of a requested export."""

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"


class _ExportBody(msgspec.Struct):
    id: str | int | None = None
    status: str | None = None


class _Link(msgspec.Struct):
    href: str | None = None


class _ExportLinks(msgspec.Struct):
    status: _Link | None = None
    download: _Link | None = None


class ExportResponse(msgspec.Struct):
    """The response to a request for an export, or for its status."""

    export: _ExportBody | None = None
    links: _ExportLinks | None = msgspec.field(name="_links", default=None)

    def export_id(self) -> str:
        """The id, which some responses have only in their links; "" if there is none."""
        if self.export and self.export.id:
            return str(self.export.id)
        for link in (self.links.status, self.links.download) if self.links else ():
            if link and (match := _EXPORT_ID.search(link.href or "")):
                return unquote(match[1])
        return ""

    def state(self) -> ExportState:
        status = (self.export.status if self.export else None) or ""
        return _EXPORT_STATES.get(status.strip().upper(), ExportState.PENDING)


_EXPORT_ID = re.compile(r"/async/export/([^/?#]+)")
# QUEUED, IN_PROGRESS, and unknown states are pending.
_EXPORT_STATES = {"COMPLETED": ExportState.COMPLETED, "FAILED": ExportState.FAILED}
decode_response = msgspec.json.Decoder(ExportResponse).decode


# --- The file -------------------------------------------------------------------------------

# A token is the next bracket; between records, also the next comma. Strings are skipped.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN = rb'[^"\[\]{}%s]*+(?:' + _STRING + rb'[^"\[\]{}%s]*+)*+[\[\]{}%s]'
_BETWEEN_RECORDS = re.compile(_TOKEN % (b",", b",", b","), re.DOTALL)
_WITHIN_RECORD = re.compile(_TOKEN % (b"", b"", b""), re.DOTALL)
# A record is some kilobytes long.
MAX_RECORD_BYTES: Final = 5 * 1024 * 1024


_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class RecordSplitter:
    """Splits the JSON of a list, which arrives in chunks, into the JSON of its elements.

    Keeps no more than the element that is being received. An element that no decoder takes costs
    nothing else, unless its brackets do not match. The decoder splits what it takes, which is ten
    times as fast; what it rejects is split at its brackets.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._depth = 0
        # Where the search for the next token continues, and where the current element begins.
        self._scanned = self._start = 0
        self._is_complete = False

    def feed(self, chunk: bytes) -> list[msgspec.Raw]:
        """The elements that this chunk completes. Raises UnexpectedResponse if it is no list."""
        self._buffer += chunk
        records = self._decode_complete()
        while not self._is_complete:
            pattern = _WITHIN_RECORD if self._depth > 1 else _BETWEEN_RECORDS
            match = pattern.match(self._buffer, self._scanned)
            if match is None:
                break
            self._scanned = match.end()
            self._read_token(self._buffer[self._scanned - 1], records)
        self._discard()
        if self._depth > 1 and len(self._buffer) <= len(chunk):
            # The decoder gets the element again once there is more of it.
            self._depth, self._scanned = 1, 0
        return records

    def _decode_complete(self) -> list[msgspec.Raw]:
        """The elements up to the last one that seems to be complete, if they are valid JSON.

        Valid JSON cannot end within an element.
        """
        end = self._buffer.rfind(b"},{")
        if self._depth != 1 or self._scanned != self._start or end < self._start:
            return []
        try:
            records = _decode_list(b"[" + self._buffer[self._start : end + 1] + b"]")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return []
        self._scanned = self._start = end + len(b"},")
        return records

    def _read_token(self, token: int, records: list[msgspec.Raw]) -> None:
        if token in b"[{":
            self._depth += 1
            if self._depth == 1:
                if token != ord("[") or self._buffer[: self._scanned - 1].strip():
                    raise UnexpectedResponse("it is not a list")
                self._start = self._scanned
        elif token in b"]}":
            self._depth -= 1
            self._is_complete = self._depth == 0
        if self._is_complete or (token == ord(",") and self._depth == 1):
            element = bytes(self._buffer[self._start : self._scanned - 1]).strip()
            if element:
                records.append(msgspec.Raw(element))
            self._start = self._scanned

    def _discard(self) -> None:
        """Free what was split, or raise UnexpectedResponse if that cannot go on."""
        if self._depth == 0 and self._buffer.strip() and not self._is_complete:
            raise UnexpectedResponse("it is not a list")
        del self._buffer[: self._start]
        self._scanned -= self._start
        self._start = 0
        if len(self._buffer) > MAX_RECORD_BYTES:
            raise UnexpectedResponse("one of its records is too large")

    def end(self) -> None:
        """Raise UnexpectedResponse unless the list is complete."""
        if not self._is_complete or self._buffer.strip():
            raise UnexpectedResponse("it is not complete JSON")
