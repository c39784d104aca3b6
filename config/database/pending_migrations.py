"""Whether a database lacks migrations of this release."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


def has_pending_migrations(connection: BaseDatabaseWrapper) -> bool:
    """Return whether there are migrations that are not applied to the database."""
    # Their names are compared first, because loading all migrations takes ten times as long.
    if MigrationRecorder(connection).applied_migrations().keys() >= set(_migrations()):
        return False
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _migrations() -> Iterator[tuple[str, str]]:
    """The app and the name of each migration of this release."""
    for app in apps.get_app_configs():
        module, _ = MigrationLoader.migrations_module(app.label)
        try:
            folder = import_module(str(module)).__path__
        except ModuleNotFoundError:
            # An app without models.
            continue
        for migration in iter_modules(folder):
            if migration.name[0] not in "_~":
                yield app.label, migration.name
