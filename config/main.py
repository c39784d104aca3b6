"""Runs a management command with the database it needs and errors that people can read."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import OperationalError, ProgrammingError

from config.management.commands.generate_key import Command as GenerateKey

# These work without a database, or bring their own (`up` supervises one).
WITHOUT_DATABASE = {None, "help", "version", "--help", "--version", "-h", "up", "check"}
WITHOUT_DATABASE |= {"collectstatic", "startapp", "diffsettings"}
WITHOUT_DATABASE |= {"marketplace_simulator"}


def run_command(arguments: list[str]) -> None:
    """Run the command line *arguments*; a failure a person can mend is one sentence, status 1."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from config.failures import StartFailed

    command = arguments[1] if len(arguments) > 1 else None
    if command == "generate_key":
        # Before there are settings: those of production cannot be without a key.
        GenerateKey().run_from_argv(arguments)
        return
    try:
        with _database(command):
            _execute(arguments)
    except (ImproperlyConfigured, StartFailed) as error:
        sys.exit(f"error: {error}")
    except OperationalError as error:
        sys.exit(f"error: the database cannot be used: {single_line(error)}")


def _execute(arguments: list[str]) -> None:
    from config.failures import StartFailed

    try:
        execute_from_command_line(arguments)
    except ProgrammingError:
        # Django's models are ready only now.
        from config import preflight

        if not preflight.has_pending_migrations():
            raise
        raise StartFailed(
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
