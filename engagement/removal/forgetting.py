"""Forgets users and accounts on request, with everything that the service keeps about them.

One transaction hides the subject: its traits, id, and scores are gone, and messages that arrived
before take no effect. Its events, counts, and memberships are then deleted in bounded transactions.
After a crash the ``ForgottenSubject`` row still says what is left to delete. A job of the product
does so.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any, LiteralString
from uuid import uuid4

from django.db import transaction
from django.db.models import Min

from core.database import distribution, locks, nodes, retries, sql
from core.database.arrivals import take_arrivals
from core.jobs.kinds import Blocked, Done, More, Outcome
from core.models import Job
from engagement import changes
from engagement.models import (
    AccountChance,
    AccountNote,
    AccountWork,
    AlarmWork,
    Alias,
    ForgottenSubject,
    ScoreSet,
    TraitChange,
    User,
)
from engagement.models.activity import NO_ACCOUNT
from engagement.orders import storage as orders
from engagement.recording import attribution, moving, parting, reattribution
from engagement.recording.resolve import lock_users_for_update
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.scopes import get_kind
from engagement.scores import account_uses, activation, active_days, rescore_queue
from engagement.search import entries

# Users of a forgotten account that one transaction takes out of it.
USERS_PER_TRANSACTION = 200

# Deletes what another app keeps about the subject, in the transaction that forgets it.
SubjectEraser = Callable[[SubjectRef, datetime], None]
_erasers: list[SubjectEraser] = []


def register_eraser(eraser: SubjectEraser) -> None:
    """Call *eraser* for each forgotten subject. Imports point from the other app to this one."""
    _erasers.append(eraser)


def forget(subject: SubjectRef, now: datetime, *, suppress: bool = False) -> bool:
    """Forget the user or account. Returns whether there was one.

    A user is forgotten with all ids that aliases joined. Messages that arrived until now take no
    effect. Later messages create a new subject or, with *suppress*, are dropped.
    ``erase_some()`` deletes what this leaves.
    """
    return retries.retry_on_conflict(partial(_forget, subject, now, suppress))


def _forget(subject: SubjectRef, now: datetime, suppress: bool) -> bool:
    with transaction.atomic(durable=True):
        locks.lock_scoring(subject.product_id)
        if not locks.lock_product(subject.product_id):
            return False
        with distribution.on_node_of(subject.product_id):
            same_person = _ids_of_person(subject)
            # The same for all ids of a person, so that lifting a suppression finds them.
            (up_to,) = take_arrivals(1)
            row_ids = [_forget_id(each, up_to, now, suppress) for each in same_person]
    return any(row_id is not None for row_id in row_ids)


def _forget_id(subject: SubjectRef, up_to: int, now: datetime, suppress: bool) -> int | None:
    row_id = _hide(subject)
    # A repeat leaves no further row.
    if row_id is not None or not _is_suppressed(subject):
        ForgottenSubject.objects.create(
            product_id=subject.product_id,
            scope=subject.scope,
            digest=subject.digest,
            up_to=up_to,
            is_suppressed=suppress,
            row_id=row_id,
            forgotten_at=now,
        )
    for erase in _erasers:
        erase(subject, now)
    return row_id


def _is_suppressed(subject: SubjectRef) -> bool:
    return ForgottenSubject.objects.filter(
        product_id=subject.product_id,
        scope=subject.scope,
        digest=subject.digest,
        is_suppressed=True,
    ).exists()


def _ids_of_person(subject: SubjectRef) -> list[SubjectRef]:
    """The subject under all of its ids. Deletes the aliases, which would keep them."""
    if subject.scope != SubjectScope.USER:
        return [subject]
    users = User.objects.filter(product=subject.product_id, external_id=subject.external_id)
    row = users.values_list("pk", "joined_to_id").first()
    if row is None:
        return [subject]
    user_id, joined_to = row
    aliases = Alias.objects.filter(product=subject.product_id, user=joined_to or user_id)
    pairs = aliases.values_list("previous_id", "new_id")
    ids = {subject.external_id, *(id for pair in pairs for id in pair)}
    aliases.delete()
    return [subject._replace(external_id=id) for id in sorted(ids)]


def lift_suppression(subject: SubjectRef) -> int:
    """Record later messages that name the subject, by any id that it was forgotten with. Returns
    how many requests suppressed them."""
    forgotten = ForgottenSubject.objects.filter(product_id=subject.product_id, is_suppressed=True)
    requests = list(forgotten.filter(digest=subject.digest).values_list("up_to", flat=True))
    forgotten.filter(scope=subject.scope, up_to__in=requests).update(is_suppressed=False)
    return len(requests)


def _hide(subject: SubjectRef) -> int | None:
    """Make the subject's row anonymous. Returns its id.

    The customer's id may return at once, and then gets a row of its own.
    """
    kind = get_kind(subject.scope)
    model: Any = kind.model
    rows = model.objects.filter(product=subject.product_id, external_id=subject.external_id)
    row_id: int | None = rows.values_list("pk", flat=True).first()
    if row_id is not None:
        rows.update(
            external_id=f"forgotten {uuid4()}",
            traits={},
            trait_stamps={},
            is_identified=False,
            created_at=None,
        )
        if subject.scope == SubjectScope.USER:
            User.objects.filter(product=subject.product_id, pk=row_id).update(joined_to=None)
            moving.delete_requests(subject.product_id, [row_id])
        _delete_scores(subject, row_id)
        entries.remove(subject.product_id, kind.scope, row_id)
        changes.stamp(subject.product_id, {kind.scope: [row_id]})
    return row_id


def _delete_scores(subject: SubjectRef, row_id: int) -> None:
    kind = get_kind(subject.scope)
    sets = ScoreSet.objects.filter(product=subject.product_id)
    model: Any = kind.engagement_model
    # Naming each set lets the key find the rows.
    rows = model.objects.filter(product=subject.product_id, score_set__in=list(sets))
    rows.filter(**{kind.id_column: row_id}).delete()
    activation.forget(subject.product_id, kind.scope, row_id)
    if subject.scope == SubjectScope.ACCOUNT:
        active_days.forget_account(subject.product_id, row_id, sets)
        account_uses.forget_account(subject.product_id, row_id)
        for table in (TraitChange, AccountChance, AccountWork, AccountNote, AlarmWork):
            table._default_manager.filter(product=subject.product_id, account=row_id).delete()
    sets.update(benchmarks_stale=True)


# --- Erasing --------------------------------------------------------------------------------


def products_to_erase() -> list[int]:
    """The products with forgotten subjects that something is left of, in the order of requests."""
    hidden = nodes.reachable(ForgottenSubject.objects.filter(row_id__isnull=False))
    firsts = hidden.values("product_id").annotate(first=Min("pk")).order_by("first")
    return [row["product_id"] for row in firsts]


def erase_some(job: Job, now: datetime) -> Outcome:
    """Delete some of what is left of the product's forgotten subjects."""
    product_id = int(job.key)
    if product_id in nodes.missing_products():
        return Blocked()
    hidden = ForgottenSubject.objects.filter(product_id=product_id, row_id__isnull=False)
    forgotten = hidden.order_by("pk").first()
    if forgotten is None:
        return Done()
    has_total = job.total is not None and job.total > job.progress
    total = job.total if has_total else job.progress + hidden.count()
    row_id = forgotten.row_id
    assert row_id is not None, "The filter has left others out."
    with distribution.on_node_of(product_id):
        is_erased = _erase_row(forgotten, row_id)
    if is_erased:
        ForgottenSubject.objects.filter(pk=forgotten.pk).update(row_id=None)
    return More(progress=job.progress + is_erased, total=total)


_FIRST_DAY: LiteralString = """
    SELECT min(day) FROM engagement_dailycount
    WHERE product_id = %(product)s AND {} = %(row)s HAVING min(day) IS NOT NULL
"""


def _erase_row(forgotten: ForgottenSubject, row_id: int) -> bool:
    """Delete what is left of the subject. Returns False if there is more to do before its row."""
    row = {"product": forgotten.product_id, "row": row_id}
    # Figures of the product's days are without the subject from now on.
    for (day,) in sql.fetch(_FIRST_DAY.format(get_kind(forgotten.scope).id_column), row):
        rescore_queue.enqueue([rescore_queue.rescore_days_since(forgotten.product_id, day)])
    if forgotten.scope == SubjectScope.ACCOUNT and _erase_users_of(row):
        return False
    if forgotten.scope == SubjectScope.USER:
        # What came with another id, which was parted before, is that one's.
        if parting.process_user_requests(forgotten.product_id, [row_id]):
            return False
        _erase_user(row)
    orders.remove_subject(forgotten.product_id, forgotten.scope, row_id)
    sql.execute(_DELETE.format(get_kind(forgotten.scope).table, "id"), row)
    return True


_DELETE: LiteralString = "DELETE FROM {} WHERE product_id = %(product)s AND {} = %(row)s"
_DELETE_EVENTS: LiteralString = _DELETE.format("engagement_event", "user_id")
_DELETE_MEMBERSHIPS: LiteralString = _DELETE.format("engagement_membership", "user_id")
_DELETE_COUNTS: LiteralString = f"""
    WITH deleted AS (
        {_DELETE.format("engagement_dailycount", "user_id")} RETURNING account_id, day)
    SELECT account_id, min(day) FROM deleted GROUP BY account_id
"""


_CURRENT_ACCOUNT: LiteralString = """
    SELECT account_id FROM engagement_user WHERE product_id = %(product)s AND id = %(row)s
"""


def _erase_user(row: dict[str, Any]) -> None:
    """Delete what a user did. No message finds the row any more, and its lock keeps everybody
    else from moving its events."""
    product_id, user_id = row["product"], row["row"]
    lock_users_for_update([user_id])
    reattribution.delete_requests(product_id, user_id)
    first_days: dict[int, date | None] = {
        id or NO_ACCOUNT: None for (id,) in sql.fetch(_CURRENT_ACCOUNT, row)
    }
    first_days |= dict(sql.fetch(_DELETE_COUNTS, row))
    sql.execute(_DELETE_EVENTS, row)
    sql.execute(_DELETE_MEMBERSHIPS, row)
    rescore_queue.enqueue(
        {
            rescore_queue.rescore_account(product_id, id, day)
            for id, day in first_days.items()
            if id != NO_ACCOUNT
        }
    )


# --- The users of a forgotten account -------------------------------------------------------

# Indexes find nearly all of them, but not a user who once was in the account and did nothing there.
_USERS_OF: tuple[LiteralString, ...] = (
    f"""
    SELECT id FROM engagement_user u
    WHERE account_id = %(row)s AND {sql.on_node("u")} LIMIT %(limit)s
    """,
    """
    SELECT DISTINCT user_id FROM engagement_dailycount
    WHERE product_id = %(product)s AND account_id = %(row)s LIMIT %(limit)s
    """,
    """
    SELECT DISTINCT user_id FROM engagement_membership
    WHERE product_id = %(product)s AND account_id = %(row)s LIMIT %(limit)s
    """,
)
_DELETE_OF_USERS: LiteralString = """
    DELETE FROM {} WHERE product_id = %(product)s AND account_id = %(row)s
        AND user_id = ANY(%(users)b::bigint[])
"""
_DELETE_FROM_ACCOUNT: tuple[LiteralString, ...] = (
    _DELETE_OF_USERS.format("engagement_membership"),
    _DELETE_OF_USERS.format("engagement_event"),
    _DELETE_OF_USERS.format("engagement_dailycount"),
)


def _erase_users_of(row: dict[str, Any]) -> bool:
    """Take some users out of the account and delete what they did there. Returns whether there
    were any."""
    product_id, ids = row["product"], _some_users_of(row)
    if not ids:
        return False
    # Events and counts say what was done in the account, so their accounts must be correct first.
    is_locked = locks.share_lock_products([product_id])
    lock_users_for_update(ids)
    if is_locked and (
        moving.process_user_requests(product_id, ids)
        or parting.process_user_requests(product_id, ids)
        or reattribution.process_user_requests(product_id, ids)
    ):
        return True
    for statement in _DELETE_FROM_ACCOUNT:
        sql.execute(statement, {**row, "users": ids})
    _set_current_accounts(product_id, ids)
    rescore_queue.enqueue({rescore_queue.rescore_user(product_id, id) for id in ids})
    return True


def _some_users_of(row: dict[str, Any]) -> list[int]:
    for statement in _USERS_OF:
        if users := sql.fetch(statement, {**row, "limit": USERS_PER_TRANSACTION}):
            return [user_id for (user_id,) in users]
    return []


_SET_ACCOUNT: LiteralString = f"""
    UPDATE engagement_user u SET account_id = k.account_id, account_since = k.since
    FROM unnest(%(users)b::bigint[], %(accounts)b::bigint[], %(since)b::timestamptz[])
         AS k(id, account_id, since)
    WHERE u.id = k.id AND {sql.on_node("u")}
"""


def _set_current_accounts(product_id: int, user_ids: Sequence[int]) -> None:
    """Set each user's current account by their remaining memberships."""
    current = attribution.current_accounts(product_id, user_ids)
    rows = [(id, *current.get(id, (None, None))) for id in user_ids]
    sql.execute(_SET_ACCOUNT, sql.arrays(rows, "users", "accounts", "since"))
    rescore_queue.enqueue(
        {rescore_queue.rescore_account(product_id, id) for id, _ in current.values()}
    )
