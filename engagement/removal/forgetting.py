"""Forgetting users and accounts on request, with everything that is kept of them.

At once, in one transaction, they are out of sight: traits, id and scores are gone, and messages
that arrived before take no effect any more. Their events, counts and links then go in pieces; a
crash in between leaves a note of what is to be cleared.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, LiteralString
from uuid import uuid4

from django.db import transaction

from engagement.database import locks, retries, sql
from engagement.database.arrivals import take_arrivals
from engagement.models import (
    Account,
    AccountEngagement,
    ForgottenSubject,
    ScoreSet,
    User,
    UserEngagement,
)
from engagement.models.activity import NO_ACCOUNT
from engagement.recording import attribution, reattribution
from engagement.recording.subjects import lock_users_for_update
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.scores import rescore_queue

# So many users of a forgotten account are cleared in one transaction.
USERS_PER_TRANSACTION = 200

OutOfTime = Callable[[], bool]
# Deletes what another app keeps of the subject, inside the transaction that forgets it.
SubjectEraser = Callable[[SubjectRef, datetime], None]
_elsewhere: list[SubjectEraser] = []


def register_eraser(clear: SubjectEraser) -> None:
    """Have another app's share forgotten too; imports point from that app to this one."""
    _elsewhere.append(clear)


def forget(subject: SubjectRef, now: datetime, *, suppress: bool = False) -> bool:
    """Forget the user or account, with *suppress* for good; whether there was one.

    Messages that arrived until now take no effect; later ones are of somebody new, or refused
    where the id is suppressed. ``clear()`` deletes what this leaves.
    """
    return retries.retry_on_conflict(partial(_forget, subject, now, suppress))


def _forget(subject: SubjectRef, now: datetime, suppress: bool) -> bool:
    with transaction.atomic(durable=True):
        locks.lock_scoring(subject.product_id)
        if not locks.lock_product(subject.product_id):
            return False
        row_id = _hide(subject)
        (up_to,) = take_arrivals(1)
        ForgottenSubject.objects.create(
            product_id=subject.product_id,
            scope=subject.scope,
            digest=subject.digest,
            up_to=up_to,
            is_suppressed=suppress,
            row_id=row_id,
            forgotten_at=now,
        )
        for clear_elsewhere in _elsewhere:
            clear_elsewhere(subject, now)
    return row_id is not None


def lift_suppression(subject: SubjectRef) -> int:
    """Take later messages that name the subject; how many requests had kept them out."""
    suppressing = ForgottenSubject.objects.filter(
        product_id=subject.product_id, digest=subject.digest, is_suppressed=True
    )
    return suppressing.update(is_suppressed=False)


def _hide(subject: SubjectRef) -> int | None:
    """Make the row one of nobody: the id may come back at once, and then with a row of its own."""
    model: Any = User if subject.scope == SubjectScope.USER else Account
    known = model.objects.filter(product=subject.product_id, external_id=subject.external_id)
    row_id: int | None = known.values_list("pk", flat=True).first()
    if row_id is not None:
        known.update(
            external_id=f"forgotten {uuid4()}",
            traits={},
            trait_stamps={},
            is_identified=False,
            created_at=None,
        )
        _forget_scores(subject, row_id)
    return row_id


def _forget_scores(subject: SubjectRef, row_id: int) -> None:
    sets = ScoreSet.objects.filter(product=subject.product_id)
    numbers: Any = UserEngagement if subject.scope == SubjectScope.USER else AccountEngagement
    # With each set named, which is how the key finds them.
    rows = numbers.objects.filter(product=subject.product_id, score_set__in=list(sets))
    rows.filter(**{subject.scope.value: row_id}).delete()
    sets.update(benchmarks_stale=True)


# --- Clearing -------------------------------------------------------------------------------


def erase_forgotten(out_of_time: OutOfTime = lambda: False) -> bool:
    """Delete what is left of those who were forgotten; whether time sufficed for it."""
    to_clear = ForgottenSubject.objects.filter(row_id__isnull=False).order_by("pk")
    for pk in to_clear.values_list("pk", flat=True):
        more = True
        while more:
            if out_of_time():
                return False
            more = retries.retry_on_conflict(partial(_clear_some, pk))
    return True


def _clear_some(pk: int) -> bool:
    """One bounded piece of work; whether there is more, and it is not somebody else's already."""
    with transaction.atomic(durable=True):
        held = ForgottenSubject.objects.select_for_update(skip_locked=True, no_key=True)
        forgotten = held.filter(pk=pk, row_id__isnull=False).first()
        if forgotten is None:
            return False
        whose = {"product": forgotten.product_id, "row": forgotten.row_id}
        if forgotten.scope == SubjectScope.ACCOUNT and _clear_users_of(whose):
            return True
        if forgotten.scope == SubjectScope.USER:
            _clear_user(whose)
        sql.execute(_DELETE_ROW[SubjectScope(forgotten.scope)], whose)
        ForgottenSubject.objects.filter(pk=pk).update(row_id=None)
    return False


_DELETE: LiteralString = "DELETE FROM {} WHERE product_id = %(product)s AND {} = %(row)s"
_DELETE_ROW: dict[SubjectScope, LiteralString] = {
    SubjectScope.USER: _DELETE.format("engagement_user", "id"),
    SubjectScope.ACCOUNT: _DELETE.format("engagement_account", "id"),
}
_DELETE_EVENTS: LiteralString = _DELETE.format("engagement_event", "user_id")
_DELETE_LINKS: LiteralString = _DELETE.format("engagement_membership", "user_id")
_DELETE_COUNTS: LiteralString = (
    _DELETE.format("engagement_dailycount", "user_id") + " RETURNING account_id"
)


_IS_IN: LiteralString = """
    SELECT account_id FROM engagement_user WHERE product_id = %(product)s AND id = %(row)s
"""


def _clear_user(whose: dict[str, Any]) -> None:
    """No message finds the row any more, and with its lock nobody moves its events."""
    lock_users_for_update([whose["row"]])
    reattribution.delete_requests(whose["product"], whose["row"])
    accounts = {account_id for (account_id,) in sql.fetch(_DELETE_COUNTS, whose)}
    accounts |= {account_id or NO_ACCOUNT for (account_id,) in sql.fetch(_IS_IN, whose)}
    sql.execute(_DELETE_EVENTS, whose)
    sql.execute(_DELETE_LINKS, whose)
    product_id = whose["product"]
    rescore_queue.enqueue(
        {rescore_queue.rescore_account(product_id, id) for id in accounts if id != NO_ACCOUNT}
    )


# --- The users of a forgotten account -------------------------------------------------------

# Nearly all are found by an index; who was in the account once and did nothing there is not.
_USERS_OF: tuple[LiteralString, ...] = (
    "SELECT id FROM engagement_user WHERE account_id = %(row)s LIMIT %(limit)s",
    """
    SELECT DISTINCT user_id FROM engagement_dailycount
    WHERE product_id = %(product)s AND account_id = %(row)s LIMIT %(limit)s
    """,
    """
    SELECT DISTINCT user_id FROM engagement_membership
    WHERE product_id = %(product)s AND account_id = %(row)s LIMIT %(limit)s
    """,
)
_OF_USERS: LiteralString = """
    DELETE FROM {} WHERE product_id = %(product)s AND account_id = %(row)s
        AND user_id = ANY(%(users)b::bigint[])
"""
_FORGET_LINKS: LiteralString = _OF_USERS.format("engagement_membership")
_FORGET_EVENTS: LiteralString = _OF_USERS.format("engagement_event")
_FORGET_COUNTS: LiteralString = _OF_USERS.format("engagement_dailycount")


def _clear_users_of(whose: dict[str, Any]) -> bool:
    """Take some users out of the account, with what they did there; whether there were any."""
    ids = _some_users_of(whose)
    if not ids:
        return False
    # What was done in the account is known by its events and counts, so these must be right first.
    is_held = locks.share_lock_products([whose["product"]])
    lock_users_for_update(ids)
    if is_held and reattribution.process_user_requests(whose["product"], ids):
        return True
    for statement in (_FORGET_LINKS, _FORGET_EVENTS, _FORGET_COUNTS):
        sql.execute(statement, {**whose, "users": ids})
    _find_account_again(whose["product"], ids)
    rescore_queue.enqueue({rescore_queue.rescore_user(whose["product"], id) for id in ids})
    return True


def _some_users_of(whose: dict[str, Any]) -> list[int]:
    for statement in _USERS_OF:
        if found := sql.fetch(statement, {**whose, "limit": USERS_PER_TRANSACTION}):
            return [user_id for (user_id,) in found]
    return []


_SET_ACCOUNT: LiteralString = """
    UPDATE engagement_user u SET account_id = k.account_id, account_since = k.since
    FROM unnest(%(users)b::bigint[], %(accounts)b::bigint[], %(since)b::timestamptz[])
         AS k(id, account_id, since)
    WHERE u.id = k.id
"""


def _find_account_again(product_id: int, user_ids: Sequence[int]) -> None:
    """Put the users where their remaining links say they are."""
    current = attribution.current_accounts(product_id, user_ids)
    accounts, since = zip(*(current.get(id, (None, None)) for id in user_ids), strict=True)
    arrays = {"users": list(user_ids), "accounts": list(accounts), "since": list(since)}
    sql.execute(_SET_ACCOUNT, arrays)
    rescore_queue.enqueue(
        {rescore_queue.rescore_account(product_id, id) for id in accounts if id is not None}
    )
