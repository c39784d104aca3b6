"""Text that is stored encrypted."""

from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models
from encrypted_fields.fields import EncryptedTextField as LibraryEncryptedTextField


class DecryptionError(Exception):
    """A stored value cannot be decrypted with any key in EDS_ENCRYPTION_KEYS."""


class EncryptedTextField(LibraryEncryptedTextField):  # type: ignore[misc]
    """Text, encrypted in the database with the first of ``settings.ENCRYPTION_KEYS``.

    The library's field returns the ciphertext if it cannot decrypt it, and a later save encrypts
    that again. It decrypts in ``to_python``, which forms and ``full_clean`` call. It stores an
    empty text as NULL. This field raises DecryptionError, decrypts only values from the database,
    and keeps an empty text empty. ``dumpdata`` leaves it out, because it would write it decrypted.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.serialize = False

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        del kwargs["serialize"]
        return name, path, args, kwargs

    @property
    def f(self) -> MultiFernet:
        # Not cached: the keys are a setting, and rotating them must not need a restart in tests.
        return MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])

    def get_prep_value(self, value: Any) -> str | None:
        text = models.TextField.get_prep_value(self, value)
        return None if text is None else self.f.encrypt(str(text).encode()).decode("ascii")

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        if value is None:
            return None
        try:
            return self.f.decrypt(value.encode()).decode()
        except InvalidToken:
            raise DecryptionError(
                f"{self.model._meta.label}.{self.attname} cannot be decrypted: the key that "
                "encrypted it is not in EDS_ENCRYPTION_KEYS. Add that key again."
            ) from None

    def to_python(self, value: Any) -> Any:
        return models.TextField.to_python(self, value)

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        return models.TextField.clean(self, value, model_instance)
