"""The format of keys and tokens, and how their secrets are stored."""

import re
import string
import zlib

import pytest
from cryptography.fernet import Fernet
from django.conf import settings
from django.db import connection
from pytest_django import Settings

from core import credentials
from core.fields import DecryptionError
from engagement.models import Product
from ingestion.models import IngestionKey
from readapi.models import ApiToken


def test_a_credential_has_a_prefix_160_random_bits_and_a_checksum() -> None:
    generated = {credentials.generate("eds") for _ in range(1000)}
    assert len(generated) == 1000
    assert all(len(credential) == len("eds_") + 27 + 6 for credential in generated)
    assert 62**27 > 2**160
    assert all(credentials.is_well_formed(credential, "eds") for credential in generated)


def test_scanners_find_and_check_a_credential_as_the_documentation_says() -> None:
    text = (settings.BASE_DIR / "docs" / "security.md").read_text()
    pattern = next(line for line in text.splitlines() if line.startswith("\\b("))
    digits = string.digits + string.ascii_uppercase + string.ascii_lowercase
    for prefix in ("edk", "eds", "edi"):
        credential = credentials.generate(prefix)
        match = re.search(pattern, f'TOKEN="{credential}"')
        assert match is not None and match[0] == credential
        number = zlib.crc32(credential[:-6].encode())
        checksum = ""
        while number:
            number, digit = divmod(number, 62)
            checksum = digits[digit] + checksum
        assert credential[-6:] == checksum.rjust(6, "0")


@pytest.mark.parametrize(
    "damage",
    [
        lambda secret: secret[:-1],
        lambda secret: secret[:10] + ("a" if secret[10] != "a" else "b") + secret[11:],
        lambda secret: secret.replace("eds_", "edk_"),
        lambda secret: secret + "0",
        lambda secret: "",
        lambda secret: "eds_" + "é" * 33,
    ],
)
def test_a_damaged_credential_is_not_well_formed(damage: object) -> None:
    secret = credentials.generate("eds")
    assert not credentials.is_well_formed(damage(secret), "eds")  # type: ignore[operator]


def test_the_hint_of_something_that_is_not_ours_is_empty() -> None:
    assert credentials.hint("edk_abcdefghijklmnop", "edk") == "edk_abcde"
    assert credentials.hint("somebody's password", "edk") == ""


def test_a_product_may_have_several_keys(acme: Product) -> None:
    first, second = IngestionKey.create(acme, "web"), IngestionKey.create(acme, "server")
    assert first.secret != second.secret
    assert acme.ingestionkeys.count() == 2


def test_a_secret_is_stored_encrypted_and_read_back(acme: Product) -> None:
    token = ApiToken.create(acme, "crm")
    with connection.cursor() as cursor:
        cursor.execute("SELECT secret FROM readapi_apitoken WHERE id = %s", [token.pk])
        (value,) = cursor.fetchone()
    assert token.secret not in value
    assert ApiToken.objects.get(pk=token.pk).secret == token.secret


def test_full_clean_leaves_a_secret_as_it_is(acme: Product) -> None:
    token = ApiToken.create(acme, "crm")
    secret = token.secret
    read = ApiToken.objects.get(pk=token.pk)
    read.full_clean()
    read.save()
    assert ApiToken.objects.get(pk=token.pk).secret == secret


def test_a_secret_under_a_lost_key_raises_and_never_shows_ciphertext(
    acme: Product, settings: Settings
) -> None:
    token = ApiToken.create(acme, "crm")
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(DecryptionError, match="EDS_ENCRYPTION_KEYS"):
        ApiToken.objects.get(pk=token.pk)


def test_a_new_first_key_still_reads_what_the_old_one_encrypted(
    acme: Product, settings: Settings
) -> None:
    token = ApiToken.create(acme, "crm")
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), *settings.ENCRYPTION_KEYS]
    assert ApiToken.objects.get(pk=token.pk).secret == token.secret
