"""Whose messages are recorded: those of products that are there to stay, unless they name somebody
who was forgotten on request.

Forgotten users and accounts are known by a digest of their ids alone.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import LiteralString, NamedTuple

from engagement.database import locks, sql
from engagement.messages import ReceivedMessage
from engagement.models import ForgottenSubject

SubjectScope = ForgottenSubject.Scope


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
    """Up to which arrival messages that name somebody take no effect, and whether later ones do."""

    up_to: int
    is_suppressed: bool


def split_recordable(
    received: Sequence[ReceivedMessage],
) -> tuple[list[ReceivedMessage], list[ReceivedMessage]]:
    """Those to record, and those refused: their product is gone, or they name who was forgotten.

    Nothing of the products of the former is forgotten until the caller's transaction ends.
    """
    products = locks.share_lock_products({one.product_id for one in received})
    bans = _bans(received, products)
    if not bans and all(one.product_id in products for one in received):
        return list(received), []
    admitted: list[ReceivedMessage] = []
    refused: list[ReceivedMessage] = []
    for one in received:
        is_refused = one.product_id not in products or (bool(bans) and _is_banned(one, bans))
        (refused if is_refused else admitted).append(one)
    return admitted, refused


def _is_banned(one: ReceivedMessage, bans: dict[SubjectRef, Suppression]) -> bool:
    found = (bans.get(subject) for subject in subjects_of(one))
    return any(ban and (ban.is_suppressed or one.arrival <= ban.up_to) for ban in found)


def subjects_of(one: ReceivedMessage) -> Iterator[SubjectRef]:
    """The user and the account that the message names."""
    if one.message.user_id is not None:
        yield SubjectRef(one.product_id, SubjectScope.USER, one.message.user_id)
    if one.message.group_id is not None:
        yield SubjectRef(one.product_id, SubjectScope.ACCOUNT, one.message.group_id)


def suppressed_ids(product_id: int, scope: SubjectScope, external_ids: Collection[str]) -> set[str]:
    """Of these those whose messages take no effect any more; for whoever writes more of them than
    ``record()`` does. The product must be held."""
    if not _with_any([product_id]):
        return set()
    subjects = [SubjectRef(product_id, scope, external_id) for external_id in external_ids]
    bans = _bans_on(subjects)
    return {one.external_id for one, ban in bans.items() if ban.is_suppressed}


# --- Who was forgotten ----------------------------------------------------------------------

# A statement of its own: it must look after the products are held.
_PRODUCTS_WITH_ANY: LiteralString = """
    SELECT product_id FROM unnest(%(products)b::bigint[]) AS k(product_id)
    WHERE EXISTS (SELECT FROM engagement_forgottensubject f WHERE f.product_id = k.product_id)
"""
_BANS: LiteralString = """
    SELECT k.place, max(f.up_to), bool_or(f.is_suppressed)
    FROM unnest(%(products)b::bigint[], %(digests)b::bytea[])
         WITH ORDINALITY AS k(product_id, digest, place)
    JOIN engagement_forgottensubject f USING (product_id, digest)
    GROUP BY k.place
"""


def _bans(
    received: Sequence[ReceivedMessage], products: Collection[int]
) -> dict[SubjectRef, Suppression]:
    """The bans on those whom the messages name; nearly always there are none."""
    if not products:
        return {}
    concerned = _with_any(products)
    if not concerned:
        return {}
    return _bans_on(
        list(
            {
                subject
                for one in received
                if one.product_id in concerned
                for subject in subjects_of(one)
            }
        )
    )


def _with_any(products: Collection[int]) -> set[int]:
    """Of the products those of which somebody was forgotten."""
    rows = sql.fetch(_PRODUCTS_WITH_ANY, {"products": list(products)})
    return {product_id for (product_id,) in rows}


def _bans_on(subjects: Sequence[SubjectRef]) -> dict[SubjectRef, Suppression]:
    arrays = {
        "products": [subject.product_id for subject in subjects],
        "digests": [subject.digest for subject in subjects],
    }
    return {
        subjects[place - 1]: Suppression(up_to, is_suppressed)
        for place, up_to, is_suppressed in sql.fetch(_BANS, arrays)
    }
