"""Follows a traced message from the drain to scoring and to deliveries.

A step of a trace is reported to a tracer, if one is installed, and to the log, if it is to have a
line for each request. A batch follows a few messages only, so a sender who traces every request
costs no more than one who traces some.
"""

import logging
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString, NamedTuple, Protocol

from django.conf import settings

from core import trace_context
from core.database import sql
from engagement.models import Account, SubjectTrace, User

logger = logging.getLogger(__name__)

# Of a batch. The other messages keep their trace until they are recorded.
MAX_FOLLOWED = 20
RETENTION = timedelta(hours=1)


class Tracer(Protocol):
    """Records the steps of traces, for example for OpenTelemetry."""

    def record(
        self, name: str, parent: str, started: datetime, ended: datetime, attributes: dict[str, Any]
    ) -> str:
        """Record a step, and return the trace context of what follows it."""
        ...


tracer: Tracer | None = None


def report(
    name: str, parent: str, started: datetime, ended: datetime, **attributes: str | int
) -> str:
    """Report a step of a trace, and return the trace context of what follows it."""
    if settings.ACCESS_LOG:
        seconds = round((ended - started).total_seconds(), 3)
        fields = {"step": name, "trace_id": trace_context.trace_id(parent), **attributes}
        logger.info("%s in %.3f s", name, seconds, extra={"fields": {**fields, "seconds": seconds}})
    if tracer is None:
        return parent
    return tracer.record(name, parent, started, ended, attributes)


# --- Recording --------------------------------------------------------------------------------


class TracedMessage(NamedTuple):
    """A recorded message that belongs to a sampled trace."""

    product_id: int
    user_id: str | None
    group_id: str | None
    traceparent: str


_SAVE: LiteralString = """
    INSERT INTO engagement_subjecttrace AS t
        (product_id, scope, subject_id, traceparent, recorded_at, is_scored)
    SELECT p, s, i, tp, %(now)s, false
    FROM unnest(%(products)b::bigint[], %(scopes)b::text[], %(ids)b::bigint[],
                %(traces)b::text[]) AS r(p, s, i, tp)
    ORDER BY 1, 2, 3
    ON CONFLICT (product_id, scope, subject_id) DO UPDATE SET
        traceparent = EXCLUDED.traceparent, recorded_at = EXCLUDED.recorded_at, is_scored = false
"""


def save(messages: Sequence[TracedMessage], now: datetime) -> None:
    """Remember the traces of the users and accounts that the messages changed."""
    rows: dict[tuple[int, str, int], str] = {}
    for product_id in {message.product_id for message in messages}:
        own = [message for message in messages if message.product_id == product_id]
        users, accounts = _ids(product_id, own)
        for message in own:
            user = users.get(message.user_id or "")
            account = accounts.get(message.group_id or "")
            if user is not None:
                rows[product_id, "user", user[0]] = message.traceparent
                account = account or user[1]
            if account is not None:
                rows[product_id, "account", account] = message.traceparent
    if rows:
        columns = sql.arrays(
            [(*key, trace) for key, trace in rows.items()], "products", "scopes", "ids", "traces"
        )
        sql.execute(_SAVE, {**columns, "now": now})


def _ids(
    product_id: int, messages: Sequence[TracedMessage]
) -> tuple[dict[str, tuple[int, int | None]], dict[str, int]]:
    """The users with their current accounts, and the accounts, by the ids of senders."""
    users = User.objects.filter(
        product=product_id, external_id__in={each.user_id for each in messages if each.user_id}
    )
    accounts = Account.objects.filter(
        product=product_id, external_id__in={each.group_id for each in messages if each.group_id}
    )
    return (
        {
            external: (pk, account)
            for external, pk, account in users.values_list("external_id", "pk", "account_id")
        },
        dict(accounts.values_list("external_id", "pk")),
    )


# --- Scoring and deliveries -------------------------------------------------------------------


def report_scored(
    product_id: int,
    users: Collection[int],
    accounts: Collection[int],
    started: datetime,
    ended: datetime,
) -> None:
    """Report the scoring of those subjects that were changed by a traced message."""
    scored = {"user": users, "account": accounts}
    unscored = SubjectTrace.objects.filter(product=product_id, is_scored=False)
    for trace in unscored:
        if trace.subject_id not in scored[trace.scope]:
            continue
        traceparent = report(
            "score", trace.traceparent, started, ended, scope=trace.scope, subject=trace.subject_id
        )
        same = SubjectTrace.objects.filter(pk=trace.pk, traceparent=trace.traceparent)
        same.update(traceparent=traceparent, is_scored=True)


def of_subject(product_id: int, scope: str, subject_id: int | None) -> str | None:
    """The trace of the message that changed the subject last, if it was traced."""
    if subject_id is None:
        return None
    rows = SubjectTrace.objects.filter(product=product_id, scope=scope, subject_id=subject_id)
    return rows.values_list("traceparent", flat=True).first()
