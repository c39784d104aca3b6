"""Tells readers of accounts that events of their licenses changed."""

from collections.abc import Iterable

from engagement.models import Account
from engagement.scores import rescore_queue


def note_changed_events(product_id: int, cloud_ids: Iterable[str]) -> None:
    """Have the accounts with these Cloud IDs scored again, in the caller's transaction. So they get
    a change stamp, and the members of segments are counted and compared again."""
    accounts = Account.objects.filter(product=product_id, external_id__in=sorted({*cloud_ids}))
    ids = accounts.values_list("pk", flat=True)
    rescore_queue.enqueue([rescore_queue.rescore_account(product_id, id) for id in ids])
