"""Checks that all encrypted columns can be read, and encrypts them with a new key."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models.functions import Cast

from core.fields import EncryptedTextField

ROWS_PER_QUERY = 500


@dataclass(frozen=True)
class EncryptedColumn:
    """An encrypted column of a model."""

    model: type[models.Model]
    field: EncryptedTextField

    def __str__(self) -> str:
        return f"{self.model._meta.label}.{self.field.attname}"

    def stored(self) -> "models.QuerySet[Any]":
        """The rows that have a value, with the encrypted value as ``stored``."""
        rows = self.model._base_manager.annotate(
            stored=Cast(self.field.attname, models.TextField())
        )
        return rows.filter(stored__isnull=False)

    def batches(self) -> Iterator[list[tuple[Any, str]]]:
        """Primary keys and encrypted values, in the order of keys."""
        last: Any = None
        rows = self.stored().order_by("pk").values_list("pk", "stored")
        while batch := list((rows.filter(pk__gt=last) if last else rows)[:ROWS_PER_QUERY]):
            yield batch
            last = batch[-1][0]


@dataclass
class Rotation:
    """What a rotation did with a column's values."""

    column: EncryptedColumn
    reencrypted: int = 0
    up_to_date: int = 0
    unreadable: int = 0
    discarded: int = 0

    @property
    def total(self) -> int:
        return self.reencrypted + self.up_to_date + self.unreadable + self.discarded


def encrypted_columns() -> list[EncryptedColumn]:
    """Every encrypted column of the service."""
    return [
        EncryptedColumn(model, field)
        for model in apps.get_models()
        for field in model._meta.local_fields
        if isinstance(field, EncryptedTextField)
    ]


def count_unreadable() -> dict[str, int]:
    """The number of values that no key can decrypt, by column; columns without any are left out."""
    fernet = EncryptedTextField().f
    counts = {}
    for column in encrypted_columns():
        number = sum(
            _decrypted(fernet, stored) is None for batch in column.batches() for _, stored in batch
        )
        if number:
            counts[str(column)] = number
    return counts


def reencrypt(discard_unreadable: bool, progress: Callable[[Rotation], None]) -> list[Rotation]:
    """Encrypt every value with the first key, and report *progress* after each batch.

    It may run beside the service, and may be interrupted and repeated. It skips values that have
    the first key, and does not overwrite a value that changes at the same time. With
    *discard_unreadable* values that no key can decrypt become empty; otherwise they stay.
    """
    rotations = []
    for column in encrypted_columns():
        rotation = Rotation(column)
        for batch in column.batches():
            for pk, stored in batch:
                _rotate(rotation, pk, stored, discard_unreadable)
            progress(rotation)
        rotations.append(rotation)
    return rotations


def _rotate(rotation: Rotation, pk: Any, stored: str, discard_unreadable: bool) -> None:
    newest = Fernet(settings.ENCRYPTION_KEYS[0])
    if _decrypted(newest, stored) is not None:
        rotation.up_to_date += 1
        return
    value = _decrypted(rotation.column.field.f, stored)
    if value is None and not discard_unreadable:
        rotation.unreadable += 1
        return
    # The field encrypts the value with the first key.
    rows = rotation.column.stored().filter(pk=pk, stored=stored)
    rows.update(**{rotation.column.field.attname: value or ""})
    if value is None:
        rotation.discarded += 1
    else:
        rotation.reencrypted += 1


def _decrypted(fernet: Any, stored: str) -> str | None:
    try:
        value: str = fernet.decrypt(stored.encode()).decode()
    except (InvalidToken, UnicodeDecodeError):
        return None
    return value
