"""The formats of files: ours, and those that other services export."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeAlias

from ingestion.doors import lines, posthog, segment
from ingestion.doors.lines import ParsedLine

# A line and the time of the import become messages: none if the line is of nobody. Raises
# IngestionError.
Parser: TypeAlias = Callable[[str, datetime], Sequence[ParsedLine]]

OWN = "own"
FORMATS = (OWN, "segment", "posthog")


def parser(name: str, group_type: str | None = None) -> Parser:
    """The parser of a format. *group_type* says which of PostHog's groups are accounts."""
    match name:
        case "segment":
            return _segment
        case "posthog":
            return lambda text, received_at: [
                ParsedLine(statement) for statement in posthog.parse(text, received_at, group_type)
            ]
    return lambda text, received_at: [lines.parse(text, received_at)]


def _segment(text: str, received_at: datetime) -> Sequence[ParsedLine]:
    message = segment.line(text, received_at)
    return [] if message is None else [ParsedLine(message)]
