"""What can be sent of a user or an account: sources, and their values."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from django.db.models import Q, QuerySet

from access.pages.subject_urls import subject_url
from destinations.models import RecordDestination, Rule
from engagement.insight_kinds import INSIGHTS
from engagement.metric_names import Scope
from engagement.models import ScoreSet, Segment
from engagement.models.limits import TraitName
from engagement.orders.columns import (
    COLUMNS,
    TRAIT_PREFIX,
    ColumnType,
    Facts,
    read_facts,
    trait_text,
)
from engagement.scopes import SubjectKind, get_kind
from engagement.segments import members
from engagement.segments.insight_filters import insight_filter
from engagement.traits import MARKETPLACE_TRAITS

ValueType: TypeAlias = Literal["text", "number", "boolean", "day", "any"]
Value: TypeAlias = str | int | float | bool | None

SEGMENT_PREFIX: Final = "segment:"
LINK, INSIGHTS_SOURCE = "link", "insights"
TRACKING_ID: Final = "tracking_id"
# Trait names that a form offers.
MAX_TRAITS = 500
# They move with every event of anybody, so small moves are not sent.
SCORES: Final = ("score", "score_change_complete_days", "score_last_period")
_COLUMNS = (
    *(*SCORES, "trend", "last_active_at", "first_seen_at", "tracking_id", "name"),
    *("email", "account_name", "account_tracking_id", "domain", "active_users", "total_users"),
    *("activity", "activity_since", "features_in_use", "license_type", "license_tier"),
    *("license_status", "renewal", "mrr", "last_license_event", "last_license_event_on"),
    *("chance_to_buy", "chance_to_renew", "chance_to_stay"),
)
_TYPES: dict[ColumnType, ValueType] = {
    **{"integer": "number", "number": "number", "boolean": "boolean"},
    # A time would differ with each event; its day is enough.
    **{"time": "day", "day": "day", "text": "text", "json": "text"},
}


class Source(NamedTuple):
    """What people call it, and the type of its values; "any" of a trait."""

    label: str
    type: ValueType


class Pair(NamedTuple):
    """A source, and the field of a record that gets its value (``destination.mapping``)."""

    source: str
    field: str
    rule: Rule = Rule.CLEAR

    @property
    def is_score(self) -> bool:
        return self.source in SCORES


@dataclass
class Record:
    """A subject: its values by source, and by the fields that they are mapped to."""

    subject_id: int
    external_id: str
    name: str
    sources: Mapping[str, Value]
    values: dict[str, Value]


def pairs(stored: Sequence[Mapping[str, str]]) -> list[Pair]:
    return [Pair(each["source"], each["field"], Rule(each.get("rule", "clear"))) for each in stored]


def offered_sources(destination: RecordDestination) -> dict[str, dict[str, Source]]:
    """What the destination can send, by the heading of a form's choice."""
    scope = destination.scope
    columns = {
        name: Source(COLUMNS[name].label, _TYPES[COLUMNS[name].type])
        for name in _COLUMNS
        if scope in COLUMNS[name].scopes
    }
    columns[LINK] = Source("Link to the page here", "text")
    if scope == "account":
        columns[INSIGHTS_SOURCE] = Source("Insights", "text")
    names = TraitName.objects.filter(product=destination.product_id).order_by("name")
    traits = [*names.values_list("name", flat=True)[:MAX_TRAITS]]
    traits += MARKETPLACE_TRAITS if scope == "account" else ()
    segments = members.usable_segments(destination.workspace, get_kind(scope).scope)
    return {
        "Facts": columns,
        "Traits": {f"{TRAIT_PREFIX}{name}": Source(name, "any") for name in traits},
        "Is in the segment": {
            f"{SEGMENT_PREFIX}{each.pk}": Source(each.name, "boolean") for each in segments
        },
    }


# --- Values ---------------------------------------------------------------------------------


def read_records(
    destination: RecordDestination, score_set: ScoreSet, ids: Collection[int]
) -> list[Record]:
    """The records of the subjects that are there, in the order of their ids."""
    kind = get_kind(destination.scope)
    mapping, match = pairs(destination.mapping), pairs(destination.match)
    sources = {pair.source for pair in (*mapping, *match)}
    readers = _readers(destination, score_set, kind, sources, ids)
    records = []
    for facts in read_facts(score_set, kind, Q(**{f"{kind.id_column}__in": ids})):
        subject = facts.subject
        values = {source: plain(read(facts)) for source, read in readers.items()}
        of_fields = {pair.field: values[pair.source] for pair in mapping}
        if destination.id_field:
            of_fields[destination.id_field] = subject.external_id
        name = subject.name or subject.external_id
        records.append(Record(subject.pk, subject.external_id, name, values, of_fields))
    return records


def _readers(
    destination: RecordDestination,
    score_set: ScoreSet,
    kind: SubjectKind,
    sources: Collection[str],
    ids: Collection[int],
) -> dict[str, Callable[[Facts], Any]]:
    readers: dict[str, Callable[[Facts], Any]] = {}
    rows = kind.engagement_rows(score_set).filter(**{f"{kind.id_column}__in": ids})
    for source in sources:
        if source.startswith(TRAIT_PREFIX):
            readers[source] = partial(_trait, source.removeprefix(TRAIT_PREFIX))
        elif source.startswith(SEGMENT_PREFIX):
            inside = _members(score_set, rows, kind, int(source.removeprefix(SEGMENT_PREFIX)))
            readers[source] = partial(_is_among, inside)
        elif source == LINK:
            readers[source] = partial(_link, destination, kind.scope)
        elif source == INSIGHTS_SOURCE:
            readers[source] = partial(_insights, _insights_by_id(score_set, rows))
        else:
            readers[source] = COLUMNS[source].value
    return readers


def plain(value: Any) -> Value:
    """The value as it is compared and sent: times as days, and what has parts as text."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).date().isoformat()
    if value is None or isinstance(value, str | int | float):
        return value or None if isinstance(value, str) else value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def domain_of(text: str) -> str:
    """The host of a domain or URL, in lower case and without www; empty if it is none."""
    try:
        host = urlsplit(text if "//" in text else f"//{text}").hostname or ""
    except ValueError:
        return ""
    host = host.lower().rstrip(".").removeprefix("www.")
    return host if "." in host else ""


def _trait(name: str, facts: Facts) -> Value:
    value = facts.subject.traits.get(name)
    return value if isinstance(value, str | int | float) else trait_text(value)


def _is_among(ids: Collection[int], facts: Facts) -> bool:
    return facts.subject.pk in ids


def _link(destination: RecordDestination, scope: Scope, facts: Facts) -> str:
    return f"{destination.base_url}{subject_url(facts.subject, scope, destination.workspace_id)}"


def _insights(by_id: Mapping[int, list[str]], facts: Facts) -> str:
    return "; ".join(by_id.get(facts.subject.pk, ()))


def _members(score_set: ScoreSet, rows: QuerySet[Any], kind: SubjectKind, pk: int) -> set[int]:
    """The subjects of the rows that are in the segment. A deleted one has none."""
    segment = Segment.objects.filter(pk=pk, workspace=score_set.workspace_id).first()
    if segment is None:
        return set()
    inside = rows.filter(members.members_filter(score_set, members.segment_rule(segment)))
    return set(inside.values_list(kind.id_column, flat=True))


def _insights_by_id(score_set: ScoreSet, rows: QuerySet[Any]) -> dict[int, list[str]]:
    """What people call the insights of each account."""
    labels = defaultdict[int, list[str]](list)
    for name, info in INSIGHTS.items():
        for id in rows.filter(insight_filter(name, score_set)).values_list("account_id", flat=True):
            labels[id].append(info.label)
    return labels
