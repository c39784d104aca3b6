"""The lines of a file: version 2's messages with a ``type``, and the other lines of an export.

docs/bulk-data.md describes them for people.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec

from engagement.messages import (
    Alias,
    CountStatement,
    Group,
    Identify,
    MembershipStatement,
    Statement,
    SubjectStatement,
    Track,
)
from engagement.traits import Source
from ingestion import timestamps
from ingestion.doors import fields, v2
from ingestion.doors.decoding import make_decoder
from ingestion.errors import IngestionError, invalid_field, missing_field

# The largest integer of the database.
MAX_COUNT = 2**31 - 1


class IdentifyLine(v2.IdentifyBody, rename="camel", tag_field="type", tag="identify"):
    source: Literal["marketplace"] | None = None


class GroupLine(v2.GroupBody, rename="camel", tag_field="type", tag="group"):
    source: Literal["marketplace"] | None = None


class TrackLine(v2.TrackBody, rename="camel", tag_field="type", tag="track"):
    pass


class AliasLine(msgspec.Struct, rename="camel", tag_field="type", tag="alias"):
    user_id: str | None = None
    previous_id: str | None = None
    timestamp: str | None = None
    message_id: str | None = None


class SeenLine(msgspec.Struct, rename="camel", tag_field="type", tag="seen"):
    user_id: str | None = None
    group_id: str | None = None
    first_at: str | None = None
    last_at: str | None = None
    identified: bool = False


class MembershipLine(msgspec.Struct, rename="camel", tag_field="type", tag="link"):
    user_id: str | None = None
    group_id: str | None = None
    timestamp: str | None = None


class CountLine(msgspec.Struct, rename="camel", tag_field="type", tag="count"):
    user_id: str | None = None
    event: str | None = None
    last_at: str | None = None
    count: int | None = None
    group_id: str | None = None


Line: TypeAlias = (
    IdentifyLine | GroupLine | TrackLine | AliasLine | SeenLine | MembershipLine | CountLine
)
_decode: Callable[[str], Line] = make_decoder(cast(Any, Line))


class ParsedLine(NamedTuple):
    """A line's statement and its source."""

    statement: Statement
    source: Source = Source.MESSAGE


def parse(text: str, received_at: datetime) -> ParsedLine:
    """The line's statement. Raises IngestionError and nothing else."""
    line = _decode(text)
    match line:
        case TrackLine():
            return ParsedLine(v2.read_track(line, received_at, _message_id(line)))
        case IdentifyLine():
            message = v2.read_identify(line, received_at, _message_id(line))
            return ParsedLine(message, _source(line))
        case GroupLine():
            return ParsedLine(v2.read_group(line, received_at, _message_id(line)), _source(line))
        case AliasLine():
            return ParsedLine(_alias(line, received_at))
        case SeenLine():
            return ParsedLine(_subject(line, received_at))
        case MembershipLine():
            return ParsedLine(_membership(line, received_at))
        case CountLine():
            return ParsedLine(_count(line, received_at))


def _message_id(line: IdentifyLine | GroupLine | TrackLine | AliasLine) -> str | None:
    return fields.message_id(line.message_id, "messageId")


def _source(line: IdentifyLine | GroupLine) -> Source:
    return Source.MARKETPLACE if line.source else Source.MESSAGE


def _alias(line: AliasLine, received_at: datetime) -> Alias:
    return Alias(
        user_id=fields.required_id(line.user_id, "userId"),
        previous_id=fields.required_id(line.previous_id, "previousId"),
        timestamp=timestamps.from_iso(line.timestamp, received_at),
        message_id=_message_id(line),
    )


def _subject(line: SeenLine, received_at: datetime) -> SubjectStatement:
    if (line.user_id is None) == (line.group_id is None):
        message = "Send either userId or groupId, not both."
        raise IngestionError(400, "missing_field", message, "userId")
    return SubjectStatement(
        first_at=_time(line.first_at, "firstAt", received_at),
        last_at=_time(line.last_at, "lastAt", received_at),
        is_identified=line.identified,
        user_id=fields.optional_id(line.user_id, "userId"),
        group_id=fields.optional_id(line.group_id, "groupId"),
    )


def _membership(line: MembershipLine, received_at: datetime) -> MembershipStatement:
    return MembershipStatement(
        user_id=fields.required_id(line.user_id, "userId"),
        group_id=fields.required_id(line.group_id, "groupId"),
        timestamp=_time(line.timestamp, "timestamp", received_at),
    )


def _count(line: CountLine, received_at: datetime) -> CountStatement:
    if line.count is None or not 1 <= line.count <= MAX_COUNT:
        raise invalid_field("count", f"count must be an integer from 1 to {MAX_COUNT:,}.")
    return CountStatement(
        user_id=fields.required_id(line.user_id, "userId"),
        event=fields.event_name(line.event, "event"),
        last_at=_time(line.last_at, "lastAt", received_at),
        count=line.count,
        group_id=fields.optional_id(line.group_id, "groupId"),
    )


def _time(text: str | None, field: str, received_at: datetime) -> datetime:
    if text is None:
        raise missing_field(field)
    try:
        return timestamps.clamp_to_receipt(timestamps.parse_iso(text), received_at)
    except IngestionError as error:
        raise invalid_field(field, error.message.replace("timestamp", field, 1)) from None


# --- Writing --------------------------------------------------------------------------------

_LINE_TYPES: dict[type[Statement], str] = {
    Identify: "identify",
    Group: "group",
    Track: "track",
    Alias: "alias",
    SubjectStatement: "seen",
    MembershipStatement: "link",
    CountStatement: "count",
}
_FIELD_NAMES = {
    "user_id": "userId",
    "previous_id": "previousId",
    "group_id": "groupId",
    "message_id": "messageId",
    "first_at": "firstAt",
    "last_at": "lastAt",
    "is_identified": "identified",
}


def as_line(statement: Statement, source: Source) -> dict[str, Any]:
    """The line that ``parse`` reads back as the statement."""
    line: dict[str, Any] = {"type": _LINE_TYPES[type(statement)]}
    for name in statement.__struct_fields__:
        if (value := getattr(statement, name)) is not None:
            line[_FIELD_NAMES.get(name, name)] = value
    if isinstance(statement, Track) and statement.group_id is not None:
        line["context"] = {"groupId": line.pop("groupId")}
    if source is Source.MARKETPLACE:
        line["source"] = "marketplace"
    return line
