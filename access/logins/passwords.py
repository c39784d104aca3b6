"""Checks of new passwords, beside Django's: words of this service, and passwords that leaked."""

import hashlib
import os
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from django.conf import settings
from django.core.exceptions import ValidationError

from engagement.models import Product

# Everybody who works here guesses these. The rest of the password must be as long as a password
# has to be.
SERVICE_WORDS = ("engagement", "password", "admin")
MIN_WORD_LENGTH = 4
# All validators in one line, where each has a sentence of its own.
RULES = (
    "At least 8 characters, not only digits; no common or leaked password, and no names of yours, "
    "of your products, or of this service."
)
MIN_OTHER_CHARACTERS = 8
_SHA1_HEX_LENGTH = 40


class ServiceWordsValidator:
    """A password must not consist of words that belong to this installation: those of its hosts,
    its products, and EDS_PASSWORD_WORDS."""

    def validate(self, password: str, user: Any = None) -> None:
        plain = _letters_and_digits(password)
        # The longest first: a word may begin with another one.
        for word in sorted(set(_words()), key=len, reverse=True):
            plain = plain.replace(word, "")
        has_words = plain != _letters_and_digits(password)
        if has_words and len(plain) < MIN_OTHER_CHARACTERS:
            raise ValidationError(
                "The password consists of words that belong to this service. Use at least "
                f"{MIN_OTHER_CHARACTERS} letters and digits beside them.",
                code="password_of_service_words",
            )

    def get_help_text(self) -> str:
        return "Your password can’t consist of names of your products or of this service."


def _words() -> Iterator[str]:
    names = Product.objects.values_list("name", flat=True)
    for text in (*SERVICE_WORDS, *settings.ALLOWED_HOSTS, *settings.PASSWORD_WORDS, *names):
        for part in (text, *re.split(r"[\W_]+", text)):
            word = _letters_and_digits(part)
            if len(word) >= MIN_WORD_LENGTH:
                yield word


def _letters_and_digits(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


class LeakedPasswordValidator:
    """A password must not be in a file of leaked ones, that of EDS_LEAKED_PASSWORDS.

    A line begins with a SHA-1 digest in hexadecimal, and the lines are sorted, as in the lists of
    Have I Been Pwned. Nothing leaves the machine.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def validate(self, password: str, user: Any = None) -> None:
        digest = hashlib.sha1(password.encode(), usedforsecurity=False).hexdigest()
        with open(self._path, "rb") as file:
            if has_line(file, digest.upper().encode()):
                raise ValidationError(
                    "This password is in a list of passwords that leaked somewhere. Choose "
                    "another one.",
                    code="password_leaked",
                )

    def get_help_text(self) -> str:
        return "Your password can’t be in lists of passwords that leaked."


def has_line(file: BinaryIO, prefix: bytes) -> bool:
    """Whether a line of the sorted file begins with *prefix*. Reads few lines of it."""
    low, high = 0, file.seek(0, os.SEEK_END)
    # The line is the first one at or after low, if it is there.
    while low < high:
        middle = (low + high) // 2
        if _line_after(file, middle)[:_SHA1_HEX_LENGTH].upper() < prefix:
            low = middle + 1
        else:
            high = middle
    return _line_after(file, low)[: len(prefix)].upper() == prefix


def _line_after(file: BinaryIO, offset: int) -> bytes:
    """The first line that begins at the offset or later. After the end, one after all others."""
    file.seek(max(0, offset - 1))
    if offset:
        file.readline()
    return file.readline() or b"\xff"
