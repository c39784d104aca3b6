"""What must hold after every schedule, whatever happened in it."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, LiteralString

import psycopg

from engagement.messages import Track as TrackMessage
from harness.accounting import MUST_BE_NONE, account_for
from harness.database import number
from harness.posting import Track
from ingestion.payloads import decode
from proofs.simulated.world import World

# A user is in the watched segment who did the event at least so often.
EVENT, TIMES = "event 0", 2
_TRUTH: LiteralString = """
    SELECT u.external_id FROM engagement_event e
    JOIN engagement_user u ON u.id = e.user_id
    JOIN engagement_eventname n ON n.id = e.event_name_id
    WHERE n.name = %s AND u.is_identified GROUP BY 1 HAVING count(*) >= %s
"""
_STATES: LiteralString = "SELECT state, count(*) FROM notifications_outboxmessage GROUP BY 1"
_TOLD: LiteralString = """
    SELECT message_id, external_id, payload->>'type' FROM notifications_outboxmessage ORDER BY id
"""
_QUARANTINED: LiteralString = "SELECT payload FROM ingestion_quarantinedmessage"
_CLAIMS: LiteralString = "SELECT count(*) FROM ingestion_claimedbatch"


def find_violations(world: World, database: "psycopg.Connection[Any]") -> Iterator[str]:
    """A sentence for each promise that does not hold."""
    aside = _find_put_aside(database)
    posted = replace(
        world.posted,
        acknowledged=world.posted.acknowledged - aside,
        unanswered=world.posted.unanswered | aside,
    )
    figures = account_for(posted, database)
    for name in MUST_BE_NONE:
        if figures[name]:
            yield f"{figures[name]} messages are {name}."
    if claims := number(database, _CLAIMS):
        yield f"{claims} claims are left."
    yield from _find_untold(world, database)
    if world.licenses:
        yield from world.licenses.find_violations(database)


def _find_put_aside(database: "psycopg.Connection[Any]") -> set[Track]:
    """Tracks in quarantine: faults may end three attempts of a message alone, as poison does.
    Another copy of one may be recorded."""
    messages = [decode(payload) for (payload,) in database.execute(_QUARANTINED)]
    return {
        Track(message.user_id, message.timestamp)
        for message in messages
        if isinstance(message, TrackMessage)
    }


def _find_untold(world: World, database: "psycopg.Connection[Any]") -> Iterator[str]:
    states = dict(database.execute(_STATES).fetchall())
    if states.keys() - {"delivered"}:
        yield f"Notifications are not delivered: {states}."
    members = {user for (user,) in database.execute(_TRUTH, [EVENT, TIMES])}
    changes: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for message_id, user, kind in database.execute(_TOLD):
        changes[user].append((message_id, kind))
    for user in members | changes.keys():
        kinds = [kind.rsplit(".", 1)[-1] for _, kind in changes[user]]
        expected = ["entered", "left"] * len(kinds)
        if kinds != expected[: len(kinds)] or (len(kinds) % 2 == 1) != (user in members):
            yield f"{user} is{'' if user in members else ' not'} in the segment; told: {kinds}."
    yield from _find_unarrived(world, changes)


def _find_unarrived(world: World, changes: dict[str, list[tuple[str, str]]]) -> Iterator[str]:
    """Each notification arrives, those of a user first come in their order."""
    arrivals = Counter(world.received)
    first = {id: place for place, id in enumerate(dict.fromkeys(arrivals))}
    for user, messages in changes.items():
        ids = [id for id, _ in messages]
        if not_arrived := [id for id in ids if not arrivals[id]]:
            yield f"{len(not_arrived)} notifications of {user} did not arrive."
        elif sorted(ids, key=first.__getitem__) != ids:
            yield f"Notifications of {user} arrived in another order."
