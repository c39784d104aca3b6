"""What happened to the licenses of accounts, from the app that knows it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import JSONObject


@dataclass(frozen=True)
class Source:
    """The events of a product, of which the withdrawn ones have ``withdrawn_at``; the sentence
    about one; and what people call the types.

    An event has a ``type``, a ``date``, and the ``cloud_id`` of its account (``external_id``).
    ``id_hash`` orders those of one moment.
    """

    rows: Callable[[int], QuerySet[Any]]
    describe: Callable[[Any], str]
    labels: Mapping[str, str]


LATEST_FIRST = ("-date", "-known_on", "license", "type", "anchor")
_sources: list[Source] = []


def register(source: Source) -> None:
    _sources[:] = [source]


def events_of(product_id: int) -> QuerySet[Any]:
    """The product's events, the withdrawn ones included."""
    return _sources[0].rows(product_id)


def last_of_account(product_id: int, path: str) -> Subquery:
    """The ``type`` and the ``date`` of the last event of an account; NULL without one. *path* leads
    from the rows to the account."""
    events = events_of(product_id).filter(
        cloud_id=OuterRef(f"{path}external_id"), withdrawn_at=None
    )
    last = events.order_by(*LATEST_FIRST)[:1]
    return Subquery(last.values(row=JSONObject(type="type", date="date")))


def latest_of(product_id: int, cloud_id: str, since: date, limit: int) -> list[Any]:
    """The latest events of the account since the day, without those that are withdrawn."""
    return list(events_since(product_id, [cloud_id], since).order_by(*LATEST_FIRST)[:limit])


def events_since(product_id: int, cloud_ids: Collection[str], since: date) -> QuerySet[Any]:
    """The events of the accounts since the day, without those that are withdrawn."""
    events = events_of(product_id).filter(cloud_id__in=cloud_ids)
    return events.filter(withdrawn_at=None, date__gte=since)


def describe(event: Any) -> str:
    """What happened, as a sentence."""
    return _sources[0].describe(event)


def labels() -> Mapping[str, str]:
    """What people call the types."""
    return _sources[0].labels
