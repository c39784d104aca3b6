"""``python manage.py forget``: delete users and accounts and all their data."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from access.management.product_argument import get_product
from access.trail import entries
from core.jobs import run
from engagement.models.subjects import EXTERNAL_ID_LENGTH
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.removal.jobs import ERASE_FORGOTTEN


class Command(BaseCommand):
    help = (
        "Delete users, with all ids that aliases joined, and accounts: events, counts, "
        "memberships, traits, and scores, as well as their messages in the inbox, in quarantine, "
        "and in the list of dropped messages."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--product", required=True, help="the product's id or name")
        parser.add_argument(
            "--user",
            metavar="ID",
            action="append",
            default=[],
            help="the userId that your application sends; may be repeated",
        )
        parser.add_argument(
            "--account",
            metavar="ID",
            action="append",
            default=[],
            help="the groupId that your application sends; may be repeated",
        )
        later = parser.add_mutually_exclusive_group()
        later.add_argument(
            "--suppress", action="store_true", help="also drop all later messages about them"
        )
        later.add_argument(
            "--allow-again",
            action="store_true",
            help="delete nothing; accept messages about them again after --suppress",
        )

    def handle(
        self,
        *args: Any,
        product: str,
        user: list[str],
        account: list[str],
        suppress: bool,
        allow_again: bool,
        **options: Any,
    ) -> None:
        # All are checked before the first is deleted.
        target = get_product(product)
        subjects = _subjects(target.pk, user, account)
        for subject in subjects:
            text = _allow_again(subject) if allow_again else _forget(subject, suppress)
            scope, note = subject.scope.value, "Accepts messages again."
            if allow_again:
                entries.record_command(entries.Action.CHANGED, scope, target.pk, note=note)
            else:
                entries.record_forgotten(entries.COMMAND_LINE, scope, target.pk)
            self.stdout.write(f"{scope} {subject.external_id}: {text}")
        if not allow_again:
            is_erased = run.finish(ERASE_FORGOTTEN, target.pk, timezone.now)
            text = "Everything is deleted." if is_erased else "A worker deletes the rest."
            self.stdout.write(f"{text} Scores follow within seconds.")


def _subjects(product_id: int, users: list[str], accounts: list[str]) -> list[SubjectRef]:
    """The subjects, each once. Raises CommandError if an id cannot be one."""
    ids = [(SubjectScope.USER, id) for id in users]
    ids += [(SubjectScope.ACCOUNT, id) for id in accounts]
    if not ids:
        raise CommandError("name at least one --user or --account.")
    for scope, id in ids:
        if not id or id.isspace():
            raise CommandError(f"the {scope} id is empty; use the id that your application sends.")
        if len(id) > EXTERNAL_ID_LENGTH:
            raise CommandError(
                f"the {scope} id {id[:20]}… is longer than {EXTERNAL_ID_LENGTH} characters; "
                "use the id that your application sends."
            )
    return [SubjectRef(product_id, scope, id) for scope, id in dict.fromkeys(ids)]


def _allow_again(subject: SubjectRef) -> str:
    if forgetting.lift_suppression(subject):
        return f"messages about this {subject.scope} are accepted again."
    return f"nothing to do; messages about this {subject.scope} are not being dropped."


def _forget(subject: SubjectRef, suppress: bool) -> str:
    exists = forgetting.forget(subject, timezone.now(), suppress=suppress)
    text = (
        "forgotten with all data."
        if exists
        else f"no such {subject.scope}; messages that waited for it were deleted."
    )
    return f"{text} Later messages about it are dropped." if suppress else text
