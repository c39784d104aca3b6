"""The keys that messages were sent with."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Q

from core.database import locks, nodes
from engagement.models import Credential
from ingestion.log import drops
from ingestion.models import IngestionKey

KEY_USE_WRITE_INTERVAL = timedelta(minutes=1)


class SenderKey(NamedTuple):
    """A message's key in the database. ``product_id`` is None if the product is being deleted.

    ``key_id`` is None if it is another credential of the product, which cannot send.
    """

    key_id: int | None
    product_id: int | None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    hint: str = ""
    expires_at: datetime | None = None

    def may_send(self, received_at: datetime) -> bool:
        """Whether the key accepts a message that was received then."""
        if self.key_id is None or self.revoked_at is not None:
            return False
        return self.expires_at is None or received_at < self.expires_at


def find_senders(digests: set[bytes]) -> dict[bytes, SenderKey]:
    """The keys by digest. Their products are locked until the transaction ends."""
    keys = list(IngestionKey.objects.filter(digest__in=digests).defer("secret"))
    existing = {bytes(key.digest) for key in keys}
    others = _other_credentials(digests - existing - {drops.NO_KEY})
    locked_products = locks.share_lock_products({each.product_id for each in (*keys, *others)})
    return {
        bytes(each.digest): SenderKey(
            each.pk if isinstance(each, IngestionKey) else None,
            each.product_id if each.product_id in locked_products else None,
            each.revoked_at,
            each.last_used_at,
            each.hint,
            each.expires_at,
        )
        for each in (*keys, *others)
    }


def _other_credentials(digests: set[bytes]) -> list[Credential]:
    """Those of the digests that are not of keys, such as that of a read token."""
    if not digests:
        return []
    models = (model for model in Credential.__subclasses__() if model is not IngestionKey)
    return [
        credential
        for model in models
        for credential in model._default_manager.filter(digest__in=digests).defer("secret")
    ]


def save_key_use(senders: Sequence[SenderKey], now: datetime) -> None:
    """Save when the keys were last used, at most once a minute for each."""
    before = now - KEY_USE_WRITE_INTERVAL
    key_ids = [
        sender.key_id
        for sender in senders
        if sender.key_id is not None
        and (sender.last_used_at is None or sender.last_used_at < before)
    ]
    if key_ids:
        is_due = Q(last_used_at=None) | Q(last_used_at__lt=before)
        # A worker that has locked such a row writes the same.
        unlocked = IngestionKey.objects.select_for_update(skip_locked=True)
        due_ids = unlocked.filter(is_due, pk__in=key_ids).values_list("pk", flat=True)
        IngestionKey.objects.filter(pk__in=list(due_ids)).update(last_used_at=now)


def waiting_keys() -> list[bytes]:
    """The digests of the keys whose messages wait, because the node of their product is missing.

    Empty, and asks nothing, unless a node is missing.
    """
    products = nodes.missing_products()
    if not products:
        return []
    keys = IngestionKey.objects.filter(product_id__in=products).order_by("pk")
    return [bytes(digest) for digest in keys.values_list("digest", flat=True)]
