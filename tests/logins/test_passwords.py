"""New passwords: no words of the service, and none that leaked."""

import hashlib
import io
from pathlib import Path

import pytest
from django.contrib.auth.password_validation import get_password_validators, validate_password
from django.core.exceptions import ValidationError
from pytest_django import Settings

from access.logins.passwords import LeakedPasswordValidator, has_line
from engagement.models import Product


def test_a_password_needs_more_than_the_words_of_the_service(
    acme: Product, settings: Settings
) -> None:
    settings.ALLOWED_HOSTS = ["eds.initech.example", ".test"]
    settings.PASSWORD_WORDS = ["Open Sesame"]
    words = ("Acme-2026!", "initech_Acme1", "opensesame99", "sesame-acme-7", "Engagement2026")
    for password in words:
        with pytest.raises(ValidationError, match="words that belong to this service"):
            validate_password(password)
    # Beside eight other characters, a word does no harm.
    for password in ("acme and two horses", "vivid-kettle-9", "initech?3lvesR0x9"):
        validate_password(password)


def test_a_leaked_password_is_refused(tmp_path: Path) -> None:
    leaked = [f"leaked {number}" for number in range(300)]
    digests = sorted(hashlib.sha1(each.encode()).hexdigest().upper() for each in leaked)
    file = tmp_path / "leaked.txt"
    for end, case in ((":17\r\n", str.upper), ("\n", str.lower)):
        file.write_text("".join(f"{case(digest)}{end}" for digest in digests), newline="")
        options = {"path": str(file)}
        name = f"{LeakedPasswordValidator.__module__}.{LeakedPasswordValidator.__qualname__}"
        (validator,) = get_password_validators([{"NAME": name, "OPTIONS": options}])
        for password in leaked:
            with pytest.raises(ValidationError, match="leaked somewhere"):
                validator.validate(password)
        for number in range(300):
            validator.validate(f"kept {number}")


@pytest.mark.parametrize("content", [b"", b"\n", b"A" * 40, b"B" * 40 + b"\n"])
def test_a_search_in_a_file_of_any_size_ends(content: bytes) -> None:
    assert has_line(io.BytesIO(content), b"A" * 40) == content.startswith(b"A")
