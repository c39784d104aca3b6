"""The order of arrival: one sequence numbers every message, whichever way it comes in.

The inbox takes its ids from the same sequence, by the default of its column.
"""

from typing import LiteralString

from core.database import sql

# For statements that number rows themselves.
NEXT_ARRIVAL: LiteralString = "nextval('engagement_arrival')"

_TAKE: LiteralString = f"SELECT {NEXT_ARRIVAL} FROM generate_series(1, %(count)s)"


def take_arrivals(count: int) -> list[int]:
    """Take the next *count* places in the order of arrival."""
    return [arrival for (arrival,) in sql.fetch(_TAKE, {"count": count}, prepare=True)]
