"""The user name of a connection, one half of its credentials: encrypted, and shown in part.

``Connection.user_name`` holds the part that pages show, and ``secret_user_name`` the whole. Earlier
releases know only ``user_name``, in plain text. Such a row keeps it for a day, so that old code can
run beside new code and you can go back; then it is encrypted.
"""

from datetime import datetime, timedelta
from typing import Final

from core.jobs import kinds
from core.jobs.kinds import Done, More, Outcome
from core.models import Job
from marketplace.models import Connection

MASK: Final = "\N{HORIZONTAL ELLIPSIS}"
PLAIN_FOR = timedelta(days=1)
QUEUE = "marketplace"
ENCRYPT_USER_NAMES = "encrypt user names"


def mask(user_name: str) -> str:
    """The part that may be shown: "i…@example.com"."""
    local, at, domain = user_name.rpartition("@")
    masked = f"{local[:1]}{MASK}@{domain}" if at else f"{domain[:1]}{MASK}"
    return masked[: Connection._meta.get_field("user_name").max_length]


def is_masked(user_name: str) -> bool:
    # No email address contains the character.
    return MASK in user_name


def full_user_name(connection: Connection) -> str:
    """The whole user name. Raises DecryptionError.

    The plain one counts as long as there is one: old code replaces only that.
    """
    if connection.secret_user_name is None or not is_masked(connection.user_name):
        return connection.user_name
    return connection.secret_user_name


def set_user_name(connection: Connection, user_name: str | None) -> None:
    """Set the user name; None forgets it except for the part that is shown. The caller saves
    ``USER_NAME_FIELDS``."""
    connection.secret_user_name = user_name
    connection.user_name = mask(user_name or connection.user_name)
    connection.plain_user_name_until = None


USER_NAME_FIELDS: Final = ("user_name", "secret_user_name", "plain_user_name_until")


def register() -> None:
    kinds.register(
        ENCRYPT_USER_NAMES,
        "Encrypts the user names of marketplace connections that earlier releases stored.",
        queue=QUEUE,
        step=encrypt_next,
    )


def encrypt_next(job: Job, now: datetime) -> Outcome:
    """Encrypt a user name that an earlier release stored, a day after it is first met."""
    plain = Connection.objects.exclude(user_name__contains=MASK)
    plain.filter(plain_user_name_until=None).update(plain_user_name_until=now + PLAIN_FOR)
    due = plain.filter(plain_user_name_until__lte=now)
    connection = due.order_by("pk").select_for_update().first()
    if connection is None:
        return Done()
    is_used = connection.state != Connection.State.DISCONNECTED
    set_user_name(connection, connection.user_name if is_used else None)
    connection.save(update_fields=USER_NAME_FIELDS)
    return More()
