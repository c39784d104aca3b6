"""The licenses of an account that is to be forgotten go with it."""

from datetime import datetime

from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from marketplace.models import License, PendingLicense


def register_eraser() -> None:
    forgetting.register_eraser(erase_licenses)


def erase_licenses(subject: SubjectRef, now: datetime) -> None:
    """Delete the account's licenses. The next full sync brings them back, and the account with
    them, unless its id is suppressed."""
    if subject.scope == SubjectScope.ACCOUNT:
        of_account = License.objects.filter(product=subject.product_id)
        of_account.filter(cloud_id=subject.external_id).delete()
        pending = PendingLicense.objects.filter(run__connection__product=subject.product_id)
        pending.filter(cloud_id=subject.external_id).delete()
