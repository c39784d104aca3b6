"""What a digest says: kept in its message, and rendered when it is delivered."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from engagement.recording.suppression import SubjectRef
from engagement.scopes import ACCOUNTS
from notifications import messages
from notifications.messages import NamedThing
from notifications.models import Digest, OutboxMessage
from trends.changes import finding, whose
from trends.changes.results import Cadence, Changes, without
from trends.changes.sections import Places

TYPE = "digest."


class Content(Struct, frozen=True, kw_only=True):
    """The data of a digest's message. *query* narrows lists to what it is about; *schedule* says
    when it comes, in words."""

    text: str
    digest_id: int
    product: NamedThing
    workspace: NamedThing
    subject: str
    schedule: str
    query: Mapping[str, str]
    changes: Changes

    @property
    def places(self) -> Places:
        return Places(self.workspace.id, self.query)


def build(digest: Digest) -> Content:
    """What changed in the last complete period. Raises NoChanges. Select the digest with
    ``RELATED``."""
    own = whose.of_workspace(digest.workspace, digest.segment, digest.view)
    period = finding.last_period(own.score_set, Cadence(digest.cadence))
    changes = finding.find_changes(own, period, counts_all=True)
    query = {"segment": str(digest.segment_id)} if digest.segment_id else {}
    query |= digest.view.filters if digest.view else {}
    product = NamedThing(id=digest.product_id, name=digest.product.name)
    workspace = NamedThing(id=digest.workspace_id, name=digest.workspace.name)
    name = digest.subject if digest.segment or digest.view else digest.product.name
    return Content(
        text=f"What changed in {name} {_when(digest)}",
        digest_id=digest.pk,
        product=product,
        workspace=workspace,
        subject=digest.subject,
        schedule=describe_schedule(digest),
        query=query,
        changes=changes,
    )


RELATED = (
    *("product", "workspace__product", "workspace__scores__cached_counts"),
    *("segment", "view", "destination", "owner"),
)


def _when(digest: Digest) -> str:
    return "this week" if digest.cadence == Digest.Cadence.WEEK else "yesterday"


def describe_schedule(digest: Digest) -> str:
    """“Mondays at 08:00 (Europe/Berlin)”."""
    is_weekly = digest.cadence == Digest.Cadence.WEEK
    days = f"{digest.get_weekday_display()}s" if is_weekly else "Every day"
    return f"{days} at {digest.hour:02}:00 ({digest.time_zone.replace('_', ' ')})"


def payload(content: Content, now: datetime) -> dict[str, Any]:
    cadence = Cadence.DAY if content.changes.period.days == 1 else Cadence.WEEK
    return messages.payload(f"{TYPE}{cadence}", now, content)


def is_digest(message: OutboxMessage) -> bool:
    return str(message.payload["type"]).startswith(TYPE)


def content_of(message: OutboxMessage) -> Content:
    return msgspec.convert(message.payload["data"], Content)


def forget(subject: SubjectRef) -> None:
    """Take the account out of the stored digests of its product. Numbers stay."""
    if subject.scope.value != ACCOUNTS.scope:
        return
    rows = OutboxMessage.objects.filter(product=subject.product_id, scope="")
    for message in rows.filter(payload__type__startswith=TYPE).iterator(chunk_size=100):
        rest = without(message.payload, subject.external_id)
        if rest != message.payload:
            OutboxMessage.objects.filter(pk=message.pk).update(payload=rest)
