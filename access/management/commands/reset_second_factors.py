from typing import Any

from django.contrib.auth.models import User as AdminUser
from django.core.management.base import BaseCommand, CommandError, CommandParser

from access.logins import second_factors, sessions
from access.trail import entries


class Command(BaseCommand):
    help = "Deletes the second factors of a login that has lost them, and ends its sessions."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name of the login")

    def handle(self, *args: Any, **options: Any) -> None:
        login = AdminUser.objects.filter(username=options["name"]).first()
        if login is None:
            raise CommandError(f"There is no login named {options['name']}.")
        number = second_factors.reset(login)
        sessions.end_all(login)
        entries.record(
            entries.COMMAND_LINE,
            entries.Action.CHANGED,
            "login",
            object_id=login.pk,
            name=login.get_username(),
            note="Reset the second factors and ended the sessions.",
        )
        plural = "" if number == 1 else "s"
        self.stdout.write(f"Deleted {number} second factor{plural}, and ended all sessions.")
