"""Finds the messages that name a user or an account that was deleted on request.

The service knows forgotten users and accounts only by a digest of their ids.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import LiteralString, NamedTuple, TypeAlias

from core.database import sql
from engagement.messages import Alias, ReceivedMessage
from engagement.models import ForgottenSubject

SubjectScope = ForgottenSubject.Scope
# (product id, account id)
AccountId: TypeAlias = tuple[int, int]


class SubjectRef(NamedTuple):
    """A user or an account by the customer's id."""

    product_id: int
    scope: SubjectScope
    external_id: str

    @property
    def digest(self) -> bytes:
        text = f"{self.product_id} {self.scope.value} {self.external_id}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class Suppression(NamedTuple):
    """The last arrival that takes no effect, and whether all later ones take none, either."""

    up_to: int
    is_suppressed: bool


def split_suppressed(
    messages: Sequence[ReceivedMessage],
) -> tuple[list[ReceivedMessage], list[ReceivedMessage]]:
    """The messages to record, and those that name a forgotten user or account.

    The products must be locked (``locks.share_lock_products``) by an earlier statement.
    """
    suppressions = _suppressions(messages)
    if not suppressions:
        return list(messages), []
    recordable: list[ReceivedMessage] = []
    suppressed: list[ReceivedMessage] = []
    for message in messages:
        (suppressed if _is_suppressed(message, suppressions) else recordable).append(message)
    return recordable, suppressed


def _is_suppressed(received: ReceivedMessage, suppressions: dict[SubjectRef, Suppression]) -> bool:
    return any(
        suppression.is_suppressed or received.arrival <= suppression.up_to
        for subject in subjects_of(received)
        if (suppression := suppressions.get(subject)) is not None
    )


def subjects_of(received: ReceivedMessage) -> Iterator[SubjectRef]:
    """The users and the account that the message names."""
    if received.message.user_id is not None:
        yield SubjectRef(received.product_id, SubjectScope.USER, received.message.user_id)
    if isinstance(received.message, Alias):
        yield SubjectRef(received.product_id, SubjectScope.USER, received.message.previous_id)
    if received.message.group_id is not None:
        yield SubjectRef(received.product_id, SubjectScope.ACCOUNT, received.message.group_id)


def suppressed_ids(product_id: int, scope: SubjectScope, external_ids: Collection[str]) -> set[str]:
    """Those of the ids whose messages take no effect any more.

    For writers that keep more about a subject than ``record()`` does. The product must be locked.
    """
    if not _products_with_forgotten([product_id]):
        return set()
    subjects = [SubjectRef(product_id, scope, external_id) for external_id in external_ids]
    suppressions = _find_suppressions(subjects)
    return {
        subject.external_id
        for subject, suppression in suppressions.items()
        if suppression.is_suppressed
    }


def without_forgotten(accounts: Collection[AccountId]) -> set[AccountId]:
    """Those of the accounts that are not forgotten.

    A forgotten account has a row and users until it is erased.
    """
    if not accounts:
        return set()
    row_ids = {id for (id,) in sql.fetch(_FORGOTTEN, {"ids": [id for _, id in accounts]})}
    return {account for account in accounts if account[1] not in row_ids}


# --- Forgotten subjects ---------------------------------------------------------------------

_FORGOTTEN: LiteralString = """
    SELECT row_id FROM engagement_forgottensubject
    WHERE row_id = ANY(%(ids)b::bigint[]) AND scope = 'account'
"""

_PRODUCTS_WITH_FORGOTTEN: LiteralString = """
    SELECT product_id FROM unnest(%(products)b::bigint[]) AS k(product_id)
    WHERE EXISTS (SELECT FROM engagement_forgottensubject f WHERE f.product_id = k.product_id)
"""
_FIND_SUPPRESSIONS: LiteralString = """
    SELECT k.place, max(f.up_to), bool_or(f.is_suppressed)
    FROM unnest(%(products)b::bigint[], %(digests)b::bytea[])
         WITH ORDINALITY AS k(product_id, digest, place)
    JOIN engagement_forgottensubject f USING (product_id, digest)
    GROUP BY k.place
"""


def _suppressions(messages: Sequence[ReceivedMessage]) -> dict[SubjectRef, Suppression]:
    """The suppressions of the subjects that the messages name; nearly always there are none."""
    products = _products_with_forgotten({received.product_id for received in messages})
    if not products:
        return {}
    subjects = {
        subject
        for received in messages
        if received.product_id in products
        for subject in subjects_of(received)
    }
    return _find_suppressions(list(subjects))


def _products_with_forgotten(products: Collection[int]) -> set[int]:
    """Those of the products that have forgotten subjects."""
    if not products:
        return set()
    rows = sql.fetch(_PRODUCTS_WITH_FORGOTTEN, {"products": list(products)})
    return {product_id for (product_id,) in rows}


def _find_suppressions(subjects: Sequence[SubjectRef]) -> dict[SubjectRef, Suppression]:
    arrays = sql.arrays(
        ((subject.product_id, subject.digest) for subject in subjects), "products", "digests"
    )
    return {
        subjects[place - 1]: Suppression(up_to, is_suppressed)
        for place, up_to, is_suppressed in sql.fetch(_FIND_SUPPRESSIONS, arrays)
    }
