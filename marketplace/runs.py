"""Syncs as entries of a connection's history: asking for one, and when the next one comes."""

from datetime import datetime

from marketplace.models import Connection, SyncRun


class NotActive(Exception):
    """The connection does not sync; the message says why and what to do."""


def request(connection: Connection, kind: SyncRun.Kind, now: datetime) -> SyncRun:
    """Have the connection sync as soon as a worker is free; the run that does it.

    That is the unfinished one where there is one: it goes on at once instead of waiting. Only a
    full sync that is asked for while another kind is unfinished stops that one and takes its
    place. Raises NotActive.
    """
    raise NotImplementedError


def next_sync_at(connection: Connection, now: datetime) -> datetime | None:
    """When the connection syncs next: *now* or earlier where it is due or running; None where it
    does not, or where the schedule was switched off in the admin."""
    raise NotImplementedError
