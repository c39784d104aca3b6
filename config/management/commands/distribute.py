"""``python manage.py distribute``: place the tables on the nodes of a Citus cluster."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.database import distribution
from config.database.distribution import Step


class Command(BaseCommand):
    help = (
        "Place the tables on the nodes of a Citus cluster: the large ones distributed by product. "
        "Says first what it will do. After an interruption it continues. Stop the workers first: "
        "clients may post meanwhile, and what they post is recorded afterwards."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def handle(self, *args: Any, yes: bool, **options: Any) -> None:
        if not distribution.has_extension():
            raise CommandError(
                "the database does not have the extension Citus, so everything stays on this "
                "server. Install it, run CREATE EXTENSION citus as a superuser, add the nodes with "
                "citus_add_node, and run this command again."
            )
        steps = distribution.remaining_steps()
        if not steps:
            self.stdout.write("All tables are where they belong.")
            return
        for line in distribution.describe(steps):
            self.stdout.write(line)
        if not yes:
            _confirm(len(steps))
        distribution.distribute(steps, self._before, self._after)
        self.stdout.write("All tables are where they belong.")

    def _before(self, step: Step) -> None:
        self.stdout.write(f"{step.table}: …", ending="")
        self.stdout.flush()

    def _after(self, step: Step, seconds: float) -> None:
        self.stdout.write(f" {step.placement.kind} after {seconds:.1f} s")


def _confirm(count: int) -> None:
    try:
        answer = input(f"Place these {count} tables on the nodes? Enter yes to continue: ")
    except EOFError:
        raise CommandError("no terminal to ask for confirmation; use --yes.") from None
    if answer.strip().lower() != "yes":
        raise CommandError("nothing was changed.")
