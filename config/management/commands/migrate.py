"""``python manage.py migrate``: Django's command, which never blocks a running service for long."""

import time
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from psycopg.errors import DeadlockDetected, LockNotAvailable

from config.database import distribution

# A statement that waits for a table's lock blocks all that come after it. It gives up before
# PostgreSQL looks for deadlocks (after a second), so that none fails a request of the service.
LOCK_TIMEOUT = "500ms"
ATTEMPTS = 20
# A statement of the running service may hold what a migration needs, and wait for what that holds.
IN_USE = (LockNotAvailable, DeadlockDetected)
# Seconds for the statements that waited meanwhile.
RETRY_DELAY = 3.0


class Command(migrate.Command):
    help = f"{migrate.Command.help} Waits {LOCK_TIMEOUT} for a lock, then tries again."

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate. Raise CommandError if another session holds a lock through all attempts.

        Completed migrations stay applied, and the next call continues from there.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._migrate_with_timeout(*args, **options)
            except OperationalError as error:
                if not isinstance(error.__cause__, IN_USE):
                    raise
            if attempt < ATTEMPTS:
                self.stderr.write(f"A table is locked; trying again in {RETRY_DELAY:.0f} s.")
                time.sleep(RETRY_DELAY)
        raise CommandError(
            "a table that has to be changed is locked by a long transaction, so the migration gave "
            "up and left the service undisturbed; end that transaction (pg_stat_activity shows "
            "it) or wait for it, and run `python manage.py migrate` again."
        )

    def _distribute(self, options: dict[str, Any]) -> None:
        """Place the tables on the nodes, if the database is the coordinator of a cluster."""
        is_partial = options["app_label"] or options["plan"] or options["check_unapplied"]
        if not is_partial and distribution.has_extension():
            steps = distribution.remaining_steps()
            distribution.distribute(steps, lambda _: None, self._report)

    def _report(self, step: distribution.Step, seconds: float) -> None:
        self.stdout.write(f"  {step.table}: {step.placement.kind} after {seconds:.1f} s")

    def _migrate_with_timeout(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [LOCK_TIMEOUT])
        try:
            super().handle(*args, **options)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")
        self._distribute(options)
