"""The encrypted field never returns ciphertext, and its keys can be replaced."""

from io import StringIO
from typing import Any

import pytest
from celery.signals import worker_init
from cryptography.fernet import Fernet
from django.contrib.auth.models import User as AdminUser
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.utils import timezone
from pytest_django import Settings

from access.logins import second_factors
from config.setup import preflight
from core import encryption
from core.fields import DecryptionError
from engagement.models import Product
from ingestion.models import ForgetKey, IngestionKey
from marketplace.models import Connection
from readapi.models import ApiToken
from tests.destinations.rows import a_destination as a_destination_of_records
from tests.exports.rows import an_export
from tests.notifications.rows import a_destination
from tests.start.running import free_port

TOKEN = "planted-token"

pytestmark = pytest.mark.django_db


def a_connection(product: Product, token: str | None = TOKEN, **fields: Any) -> Connection:
    values = {
        "state": Connection.State.ACTIVE,
        "state_changed_at": timezone.now(),
        "user_name": "me@example.com",
        "vendor_id": "1",
        "app_product_id": "9d71209f-f2d4-5522-8742-716b66c6574f",
        **fields,
    }
    return Connection.objects.create(product=product, api_token=token, **values)


def stored(row: Any, column: str) -> str | None:
    """The encrypted value in the database."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column} FROM {row._meta.db_table} WHERE id = %s", [row.pk])
        value: str | None = cursor.fetchone()[0]
    return value


def token_of(row: Connection) -> str | None:
    return Connection.objects.defer(None).get(pk=row.pk).api_token


# --- Pitfalls of the library ----------------------------------------------------------------


def test_reading_a_value_under_a_lost_key_raises_and_never_returns_ciphertext(
    acme: Product, settings: Settings
) -> None:
    row = a_connection(acme)
    before = stored(row, "api_token")
    right, settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS, [Fernet.generate_key().decode()]
    with pytest.raises(DecryptionError) as error:
        token_of(row)
    assert str(error.value) == (
        "marketplace.Connection.api_token cannot be decrypted: the key that encrypted it is not "
        "in EDS_ENCRYPTION_KEYS. Add that key again."
    )
    # A page that does not need it works, and a save leaves it alone.
    read = Connection.objects.get(pk=row.pk)
    read.last_error = "something"
    read.save()
    settings.ENCRYPTION_KEYS = right
    assert stored(row, "api_token") == before
    assert token_of(row) == TOKEN


def test_a_failed_full_clean_leaves_later_reads_alone(acme: Product) -> None:
    row = a_connection(acme)
    connection = Connection.objects.defer(None).get(pk=row.pk)
    connection.user_name = "x" * 1000
    for _ in range(2):
        with pytest.raises(ValidationError):
            connection.full_clean()
    assert connection.api_token == TOKEN
    assert token_of(row) == TOKEN
    a_connection(Product.create_with_workspace("Globex"), "another")
    assert token_of(row) == TOKEN


@pytest.mark.parametrize("value", ["", "0", "null", " ", "x" * 100_000, "söhne", "gAAAAA"])
def test_every_text_comes_back_as_it_was(acme: Product, value: str) -> None:
    row = a_connection(acme, value)
    assert token_of(row) == value
    assert stored(row, "api_token") not in (None, value)


def test_none_stays_null(acme: Product) -> None:
    row = a_connection(acme, None, state=Connection.State.DISCONNECTED)
    assert stored(row, "api_token") is None
    assert token_of(row) is None


def test_clean_and_to_python_do_not_decrypt(acme: Product) -> None:
    field = Connection._meta.get_field("api_token")
    ciphertext = stored(a_connection(acme), "api_token")
    assert field.to_python(ciphertext) == ciphertext
    assert field.clean(ciphertext, None) == ciphertext


def test_lists_and_pages_do_not_read_the_token(acme: Product) -> None:
    a_connection(acme)
    assert "api_token" in Connection.objects.get().get_deferred_fields()


def test_dumpdata_leaves_secrets_out(acme: Product) -> None:
    secrets = [
        str(IngestionKey.create(acme, "web").secret),
        str(ApiToken.create(acme, "crm").secret),
        str(token_of(a_connection(acme))),
    ]
    for use_base_manager in (False, True):
        dump = StringIO()
        labels = ("ingestion.ingestionkey", "readapi", "marketplace")
        call_command("dumpdata", *labels, stdout=dump, use_base_manager=use_base_manager)
        assert "marketplace.connection" in dump.getvalue()
        assert not [secret for secret in secrets if secret in dump.getvalue()]


# --- Other keys -----------------------------------------------------------------------------


@pytest.fixture
def secrets(acme: Product, globex: Product) -> dict[str, str]:
    """One stored secret of each kind, by column."""
    marketplace = a_connection(acme, secret_user_name="me@example.com")
    hook = a_destination(acme)
    keys = {
        "access_key_id": "planted-id",
        "secret_access_key": "planted-secret",
        "password": "planted-password",
    }
    an_export(acme, **keys)
    crm = a_destination_of_records(acme)
    login = AdminUser.objects.create_user("maya")
    app = second_factors.add_app(login, "Phone", "GEZDGNBVGY3TQOJQ", 0, timezone.now())
    return {
        "engagement.SecondFactor.secret": app.secret,
        "ingestion.IngestionKey.secret": IngestionKey.create(acme, "web").secret,
        "ingestion.ForgetKey.secret": ForgetKey.create(acme, "erasure").secret,
        "readapi.ApiToken.secret": ApiToken.create(acme, "crm").secret,
        "marketplace.Connection.api_token": str(token_of(marketplace)),
        "marketplace.Connection.secret_user_name": "me@example.com",
        "notifications.Destination.address": hook.address,
        "notifications.Destination.signing_secrets": hook.signing_secrets,
        "destinations.RecordDestination.key": crm.key,
        **{f"exports.ScheduledExport.{name}": value for name, value in keys.items()},
    }


def read_all() -> dict[str, str]:
    return {
        str(column): getattr(column.model._base_manager.get(), column.field.attname)
        for column in encryption.encrypted_columns()
    }


def rotate(*options: str) -> str:
    output = StringIO()
    call_command("rotate_encryption_keys", *options, stdout=output)
    return output.getvalue()


def test_all_encrypted_columns_are_known(secrets: dict[str, str]) -> None:
    assert {str(column) for column in encryption.encrypted_columns()} == set(secrets)


def test_rotating_encrypts_everything_with_the_first_key(
    secrets: dict[str, str], settings: Settings
) -> None:
    old, new = settings.ENCRYPTION_KEYS[0], Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = [new, old]
    output = rotate()
    assert "marketplace.Connection.api_token: 1 checked" in output
    assert "marketplace.Connection.api_token: 1 encrypted again, 0 up to date." in output
    assert output.endswith("All secrets have the first key. You can remove the other keys.\n")
    settings.ENCRYPTION_KEYS = [new]
    assert read_all() == secrets


def test_rotating_again_writes_nothing(secrets: dict[str, str], settings: Settings) -> None:
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), *settings.ENCRYPTION_KEYS]
    rotate()
    before = stored(Connection.objects.get(), "api_token")
    assert "0 encrypted again, 1 up to date" in rotate()
    assert stored(Connection.objects.get(), "api_token") == before


def test_an_interrupted_rotation_resumes(
    acme: Product, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {IngestionKey.create(acme, f"key {number}").secret for number in range(7)}
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), *settings.ENCRYPTION_KEYS]
    monkeypatch.setattr(encryption, "ROWS_PER_QUERY", 3)

    class Interrupted(Exception):
        pass

    def interrupt(rotation: encryption.Rotation) -> None:
        if rotation.total >= 6:
            raise Interrupted

    with pytest.raises(Interrupted):
        encryption.reencrypt(False, interrupt)
    output = rotate()
    assert "ingestion.IngestionKey.secret: 1 encrypted again, 6 up to date." in output
    assert {key.secret for key in IngestionKey.objects.all()} == secrets


def test_a_value_that_changes_during_the_rotation_is_not_overwritten(
    acme: Product, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = a_connection(acme, "old token")
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), *settings.ENCRYPTION_KEYS]
    batches = encryption.EncryptedColumn.batches

    def slow(column: encryption.EncryptedColumn) -> Any:
        for batch in batches(column):
            Connection.objects.filter(pk=row.pk).update(api_token="new token")
            yield batch

    monkeypatch.setattr(encryption.EncryptedColumn, "batches", slow)
    encryption.reencrypt(False, lambda _: None)
    assert token_of(row) == "new token"


def test_secrets_whose_key_is_lost_are_reported_and_kept(
    secrets: dict[str, str], settings: Settings
) -> None:
    right, settings.ENCRYPTION_KEYS = settings.ENCRYPTION_KEYS, [Fernet.generate_key().decode()]
    with pytest.raises(CommandError, match="12 secrets cannot be decrypted"):
        rotate()
    settings.ENCRYPTION_KEYS = right
    assert read_all() == secrets


def test_secrets_whose_key_is_lost_can_be_discarded(
    secrets: dict[str, str], settings: Settings
) -> None:
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    output = rotate("--discard-unreadable")
    assert "readapi.ApiToken.secret: 0 encrypted again, 0 up to date, 1 discarded." in output
    assert set(read_all().values()) == {""}
    assert encryption.count_unreadable() == {}


# --- The check at start ---------------------------------------------------------------------


def test_with_the_right_keys_the_service_starts(secrets: dict[str, str]) -> None:
    preflight.check_secrets()


def test_without_the_right_key_it_does_not_start_and_says_why(
    secrets: dict[str, str], settings: Settings
) -> None:
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(CommandError) as error:
        preflight.check_secrets()
    output = str(error.value)
    assert "1 in marketplace.Connection.api_token" in output
    assert "the key that encrypted them is not in EDS_ENCRYPTION_KEYS. Add it again" in output
    assert not [secret for secret in secrets.values() if secret in output]


def test_a_key_that_is_lost_for_some_secrets_is_noticed(
    secrets: dict[str, str], settings: Settings, globex: Product
) -> None:
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    ApiToken.create(globex, "newer")
    assert encryption.count_unreadable()["readapi.ApiToken.secret"] == 1


@pytest.mark.django_db(transaction=True)
def test_neither_the_web_role_nor_a_worker_starts_without_the_right_key(
    secrets: dict[str, str], settings: Settings
) -> None:
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(CommandError, match="stored secrets cannot be decrypted"):
        call_command("serve", port=free_port())
    with pytest.raises(SystemExit, match="error: stored secrets cannot be decrypted"):
        worker_init.send(sender=None)


def test_the_service_starts_while_the_database_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(encryption, "count_unreadable", away)
    preflight.check_secrets()
