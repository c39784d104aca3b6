"""``python manage.py forget``: delete a user or an account with everything that is kept of them."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from engagement.management.product_argument import get_product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting


class Command(BaseCommand):
    help = (
        "Delete a user or an account with events, counts, links, traits and scores, with what "
        "waits for them in the inbox, and with what is listed of them as dropped or quarantined."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--product", required=True, help="the product's id or name")
        whom = parser.add_mutually_exclusive_group(required=True)
        whom.add_argument("--user", metavar="ID", help="the userId that your application sends")
        whom.add_argument("--account", metavar="ID", help="the groupId that it sends")
        later = parser.add_mutually_exclusive_group()
        later.add_argument(
            "--suppress", action="store_true", help="also drop all later messages that name them"
        )
        later.add_argument(
            "--allow-again",
            action="store_true",
            help="delete nothing; take messages again that name them, which --suppress kept out",
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
            raise CommandError(f"the {scope} id is empty; give the id that your application sends.")
        subject = SubjectRef(get_product(product).pk, scope, external_id)
        said = _allow_again(subject) if allow_again else _forget(subject, suppress)
        self.stdout.write(said)


def _allow_again(subject: SubjectRef) -> str:
    if forgetting.lift_suppression(subject):
        return f"From now on messages that name this {subject.scope} are taken again."
    return f"Nothing to do: no messages are dropped because they name this {subject.scope}."


def _forget(subject: SubjectRef, suppress: bool) -> str:
    known = forgetting.forget(subject, timezone.now(), suppress=suppress)
    forgetting.erase_forgotten()
    what = subject.scope.capitalize()
    lines = [
        f"{what} deleted, with everything that was kept of it. Scores follow within seconds."
        if known
        else f"No such {subject.scope} was known; messages that waited for it are gone."
    ]
    if suppress:
        lines.append("Later messages that name it are dropped, and listed with that reason.")
    return "\n".join(lines)
