"""What the drain benchmark does inside the service: ``python -m benchmarks.within COMMAND …``.

A process of its own, so that only the service's code shares its interpreter. Prints JSON.
"""

import json
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any, LiteralString

import django
from django.utils import timezone

django.setup()

# The apps must be loaded first.
from benchmarks.messages import generate  # noqa: E402
from engagement import credentials, sql  # noqa: E402
from engagement.messages import Track, encode  # noqa: E402
from ingestion import processing, tasks  # noqa: E402
from ingestion.models import IngestionKey  # noqa: E402

_COPY: LiteralString = """
    COPY ingestion_inboxmessage (received_at, key_digest, key_hint, payload)
    FROM STDIN (FORMAT BINARY)
"""


def fill(messages: str, key: str) -> dict[str, Any]:
    """Put so many messages that came with the key into the inbox, in one transaction."""
    tracks = 0

    def rows() -> Iterator[sql.Row]:
        nonlocal tracks
        now: datetime = timezone.now()
        digest, hint = credentials.digest(key), credentials.hint(key, IngestionKey.PREFIX)
        for message in generate(int(messages), now, seed=int(messages)):
            tracks += isinstance(message, Track)
            yield now, digest, hint, encode(message)

    sql.copy(_COPY, ("timestamptz", "bytea", "text", "bytea"), rows())
    return {"messages": int(messages), "tracks": tracks}


def fill_and_wake(messages: str, key: str) -> dict[str, Any]:
    """Fill, then wake the worker as a web process does; ``at`` is when the fill was committed."""
    filled = fill(messages, key)
    at = time.time()
    tasks.drain.apply_async(expires=60, retry=False)
    return {**filled, "at": at}


def drain() -> dict[str, Any]:
    """Drain the inbox; messages, wall-clock seconds and seconds of this process's own work."""
    wall, processor = time.monotonic(), time.process_time()
    drained = processing.drain(timezone.now)
    return {
        "messages": drained.messages,
        "seconds": time.monotonic() - wall,
        "processor_seconds": time.process_time() - processor,
    }


COMMANDS = {"fill": fill, "fill_and_wake": fill_and_wake, "drain": drain}

if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    print(json.dumps(COMMANDS[command](*arguments)))  # type: ignore[operator]
