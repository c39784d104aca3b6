"""Runs a management command with the database it needs and with errors that people can read."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext

from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, execute_from_command_line
from django.core.management.base import BaseCommand, SystemCheckError
from django.db import OperationalError, ProgrammingError, connection

from config.logging import json_streams
from config.management.commands.doctor import Command as Doctor
from config.management.commands.generate_key import Command as GenerateKey
from config.management.commands.generate_secrets import Command as GenerateSecrets
from config.management.commands.up import Command as Up
from config.management.commands.version import Command as Version

# These work without a database.
WITHOUT_DATABASE = {None, "help", "--help", "-h", "check"}
WITHOUT_DATABASE |= {"collectstatic", "startapp", "diffsettings"}
WITHOUT_DATABASE |= {"marketplace_simulator", "restore"}
# These run before the apps are loaded. In production the settings need what two of them generate.
# `up` loads them while its processes start. Django would print its own version.
BEFORE_APPS: dict[str, type[BaseCommand]] = {
    "doctor": Doctor,
    "generate_key": GenerateKey,
    "generate_secrets": GenerateSecrets,
    "up": Up,
    "version": Version,
    "--version": Version,
}
# Their output is a result, or they write lines of their own (`up`).
WITH_OWN_OUTPUT = {None, "help", "--help", "-h", "diffsettings", *BEFORE_APPS}
WITH_OWN_OUTPUT |= {"create_product", "export_product", "dumpdata"}
WITH_OWN_OUTPUT |= {"showmigrations", "sqlmigrate", "inspectdb", "shell", "dbshell"}


def run_command(arguments: list[str]) -> None:
    """Run the command line *arguments*; print an expected failure as one sentence, and exit."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    command = arguments[1] if len(arguments) > 1 else None
    has_own_output = command in WITH_OWN_OUTPUT or "--json" in arguments
    json_streams.install(with_output=not has_own_output)
    try:
        if command in BEFORE_APPS:
            # Without --traceback Django prints a CommandError itself, behind the name of the class.
            own_arguments = [arguments[0], command, "--traceback", *arguments[2:]]
            BEFORE_APPS[command]().run_from_argv(own_arguments)
            return
        with _database(command):
            _execute(arguments)
    except SystemCheckError as error:
        # It is a report of several lines.
        sys.exit(str(error))
    except CommandError as error:
        if "--traceback" in arguments:
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.returncode)
    except ImproperlyConfigured as error:
        sys.exit(f"error: {error}")
    except OperationalError as error:
        sys.exit(f"error: the database cannot be used: {single_line(error)}")


def _execute(arguments: list[str]) -> None:
    program, *rest = arguments
    if rest and not rest[0].startswith("-") and rest[0] != "help":
        # Without it Django prints a CommandError itself, behind the name of the class. It answers
        # help itself, which takes no options.
        rest.insert(1, "--traceback")
    try:
        execute_from_command_line([program, *rest])
    except ProgrammingError:
        # Models can be imported only now.
        from config.database.pending_migrations import has_pending_migrations

        if not has_pending_migrations(connection):
            raise
        raise CommandError(
            "the database's tables are not those of this release; "
            "run `python manage.py migrate` first."
        ) from None


def single_line(error: BaseException) -> str:
    """The error's text on one line, without the password that a connection string may hold."""
    return " ".join(str(error).split())


def _database(command: str | None) -> AbstractContextManager[None]:
    from django.conf import settings

    if command in WITHOUT_DATABASE or settings.EMBEDDED_POSTGRES is None:
        return nullcontext()
    running: AbstractContextManager[None] = settings.EMBEDDED_POSTGRES.running()
    return running
