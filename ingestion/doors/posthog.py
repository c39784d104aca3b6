"""PostHog's export files: one event a line, as its batch exports write them.

docs/bulk-data.md says for people what becomes of each event.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from engagement.messages import Alias, Group, Identify, Statement, Track, Traits
from ingestion import timestamps
from ingestion.doors import fields
from ingestion.doors.decoding import make_decoder
from ingestion.errors import IngestionError, invalid_field

# What PostHog itself names begins with it.
_OWN = "$"
_VIEWS = {"$pageview": "Viewed Page", "$screen": "Viewed Screen"}


class PostHogLine(msgspec.Struct):
    """Fields of other names are ignored. ``properties`` is an object, or its JSON as text."""

    event: str | None = None
    distinct_id: str | None = None
    timestamp: str | None = None
    uuid: str | None = None
    properties: Any = None


_decode = make_decoder(PostHogLine)
_decode_object: Callable[[str], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode


def parse(text: str, received_at: datetime, group_type: str | None) -> list[Statement]:
    """The messages of a line: none for an event that is not a user's. Raises IngestionError."""
    line = _decode(text)
    properties = _object(line.properties, "properties")
    event = fields.event_name(line.event, "event")
    at = _time(line.timestamp, received_at)
    uuid = fields.message_id(line.uuid, "uuid")
    if event == "$groupidentify":
        return _group(properties, at, uuid, group_type)
    if properties.get("$is_identified") is False or properties.get("$process_person_profile") is (
        False
    ):
        return []
    user_id = fields.required_id(line.distinct_id, "distinct_id")
    if event == "$create_alias":
        previous = fields.required_id(_text(properties.get("alias")), "properties.alias")
        return [Alias(user_id, previous, at, uuid)]
    account = _account(properties.get("$groups"), group_type)
    traits = _traits(properties.get("$set_once")) | _traits(properties.get("$set"))
    statements: list[Statement] = [
        # An event of somebody with a profile makes the user known, as in PostHog.
        Identify(user_id, at, fields.traits(traits), account, uuid and f"{uuid}:user")
    ]
    name = _VIEWS.get(event, event)
    if not name.startswith(_OWN):
        statements.append(Track(user_id, name, at, account, uuid))
    elif event not in ("$identify", "$set"):
        return []
    return statements


def _group(
    properties: dict[str, Any], at: datetime, uuid: str | None, group_type: str | None
) -> list[Statement]:
    if group_type is not None and properties.get("$group_type") != group_type:
        return []
    group_id = fields.required_id(_text(properties.get("$group_key")), "properties.$group_key")
    traits = fields.traits(_traits(properties.get("$group_set")))
    return [Group(group_id, at, traits, None, uuid)]


def _account(groups: Any, group_type: str | None) -> str | None:
    """The account of the event: its group of that type, or its only one."""
    if not isinstance(groups, dict) or not groups:
        return None
    if group_type is None and len(groups) > 1:
        raise invalid_field(
            "$groups", f"It has groups of {len(groups)} types. Name one by --group-type."
        )
    key = groups.get(group_type) if group_type is not None else next(iter(groups.values()))
    return fields.optional_id(_text(key), "$groups")


def _traits(value: Any) -> Traits:
    """What was set, without what PostHog itself sets, such as the browser."""
    traits = value if isinstance(value, dict) else {}
    return {name: value for name, value in traits.items() if not name.startswith(_OWN)}


def _object(value: Any, field: str) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            return _decode_object(value)
        except (msgspec.DecodeError, RecursionError):
            raise invalid_field(field, f"{field} must be an object or its JSON.") from None
    if value is None or isinstance(value, dict):
        return value or {}
    raise invalid_field(field, f"{field} must be an object or its JSON.")


def _text(value: Any) -> str | None:
    """Keys of groups are often numbers."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value if isinstance(value, str) else None


def _time(text: str | None, received_at: datetime) -> datetime:
    """ISO 8601, or with a space in place of the T, as databases write it."""
    if text is None:
        raise IngestionError(400, "missing_field", "timestamp is required.", "timestamp")
    return timestamps.from_iso(text.replace(" ", "T", 1), received_at)
