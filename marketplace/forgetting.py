"""Deletes the licenses of a forgotten account."""

from datetime import datetime

from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from marketplace.models import License, PendingLicense


def register_eraser() -> None:
    forgetting.register_eraser(erase_licenses)


def erase_licenses(subject: SubjectRef, now: datetime) -> None:
    """Delete the account's licenses. The next full sync imports them and the account again, unless
    its id is suppressed."""
    if subject.scope == SubjectScope.ACCOUNT:
        product_id, cloud_id = subject.product_id, subject.external_id
        License.objects.filter(product=product_id, cloud_id=cloud_id).delete()
        PendingLicense.objects.filter(
            run__connection__product=product_id, cloud_id=cloud_id
        ).delete()
