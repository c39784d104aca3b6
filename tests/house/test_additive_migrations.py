"""Old code goes on running on new tables: what a migration may do once a release is out."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.migrations import operations
from django.db.migrations.loader import MigrationLoader
from django.db.models.fields import NOT_PROVIDED

from tests.cases import each

# Those before were written while there was nobody yet to be disturbed.
SINCE = {
    "core": 1,
    "engagement": 4,
    "ingestion": 3,
    "readapi": 1,
    "marketplace": 1,
    "notifications": 1,
    "exports": 1,
    "destinations": 1,
    "outcomes": 1,
    "trends": 1,
}
# What takes something away that old code still asks for, or calls by its name.
TAKES_AWAY = (
    operations.DeleteModel,
    operations.RemoveField,
    operations.RenameField,
    operations.RenameModel,
    operations.AlterModelTable,
)


def steps() -> Iterator[Any]:
    """Each operation of each migration, with where it is."""
    loader = MigrationLoader(None, ignore_no_migrations=True)
    for (app, name), migration in sorted(loader.disk_migrations.items()):
        if app in SINCE and int(name[:4]) >= SINCE[app]:
            for operation in migration.operations:
                yield pytest.param(operation, id=f"{app}.{name}: {operation.describe()}")


def can_be_left_out(field: Any) -> bool:
    """Whether an INSERT that does not know the column still works."""
    return field.null or field.many_to_many or field.db_default is not NOT_PROVIDED


@each("operation", list(steps()))
def test_a_migration_takes_nothing_away_and_asks_nothing_of_old_code(operation: Any) -> None:
    assert not isinstance(operation, TAKES_AWAY)
    if isinstance(operation, operations.AddField):
        assert can_be_left_out(operation.field), "old code inserts rows without this column"
