"""``python manage.py forget``: delete a user or an account and all their data."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from engagement.management.product_argument import get_product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.trail import entries


class Command(BaseCommand):
    help = (
        "Delete a user, with all ids that aliases joined, or an account: events, counts, "
        "memberships, traits, and scores, as well as their messages in the inbox, in quarantine, "
        "and in the list of dropped messages."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--product", required=True, help="the product's id or name")
        subject = parser.add_mutually_exclusive_group(required=True)
        subject.add_argument("--user", metavar="ID", help="the userId that your application sends")
        subject.add_argument(
            "--account", metavar="ID", help="the groupId that your application sends"
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
        user: str | None,
        account: str | None,
        suppress: bool,
        allow_again: bool,
        **options: Any,
    ) -> None:
        scope = SubjectScope.ACCOUNT if user is None else SubjectScope.USER
        external_id = account if user is None else user
        if not external_id:
            raise CommandError(f"the {scope} id is empty; use the id that your application sends.")
        subject = SubjectRef(get_product(product).pk, scope, external_id)
        text = _allow_again(subject) if allow_again else _forget(subject, suppress)
        # Without the id, which must not stay anywhere.
        note = "Accepts messages again." if allow_again else f"Forgot a {scope.value} on request."
        action = entries.Action.CHANGED if allow_again else entries.Action.FORGOTTEN
        entries.record_command(action, scope.value, subject.product_id, note=note)
        self.stdout.write(text)


def _allow_again(subject: SubjectRef) -> str:
    if forgetting.lift_suppression(subject):
        return f"Messages about this {subject.scope} are accepted again."
    return f"Nothing to do: messages about this {subject.scope} are not being dropped."


def _forget(subject: SubjectRef, suppress: bool) -> str:
    exists = forgetting.forget(subject, timezone.now(), suppress=suppress)
    forgetting.erase_forgotten()
    lines = [
        f"{subject.scope.capitalize()} deleted with all data. Scores follow within seconds."
        if exists
        else f"No such {subject.scope}; messages that waited for it were deleted."
    ]
    if suppress:
        lines.append("Later messages about it are dropped, and listed with that reason.")
    return "\n".join(lines)
