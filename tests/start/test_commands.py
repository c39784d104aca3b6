"""The commands beside ``up``, and the queue that comes with the tables."""

import io
import json
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.db import connection
from pytest_django import Settings

from config.database import broker, queue_schema
from config.database.broker import transport_options
from core import credentials
from engagement.models import Workspace
from ingestion.models import IngestionKey
from readapi.models import ApiToken
from tests.start.running import manage


def output_of(*arguments: str) -> str:
    output = io.StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue()


@pytest.mark.django_db
def test_create_product_prints_what_a_program_needs() -> None:
    product = json.loads(output_of("create_product", " Rocket ", "--json"))
    workspace = Workspace.objects.select_related("product").get(pk=product["workspace_id"])
    assert workspace.product.pk == product["product_id"]
    assert workspace.product.name == "Rocket"
    key = IngestionKey.objects.get(digest=credentials.digest(product["ingestion_key"]))
    token = ApiToken.objects.get(digest=credentials.digest(product["api_token"]))
    assert key.product == token.product == workspace.product


@pytest.mark.django_db
def test_create_product_prints_text_for_people() -> None:
    text = output_of("create_product", "Rocket")
    assert "Created the product Rocket." in text
    assert ApiToken.objects.get().secret in text


def test_generate_key_prints_a_key_that_encrypts() -> None:
    Fernet(output_of("generate_key").strip()).encrypt(b"secret")


def test_a_key_can_be_made_before_there_are_settings_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    result = manage(folder, "generate_key", DATABASE_URL="postgresql://eds@127.0.0.1:1/eds")
    Fernet(result.stdout.strip()).encrypt(b"secret")
    assert not folder.exists()


def queue_schemas() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'pgmq'")
        (number,) = cursor.fetchone()
        return int(number)


@pytest.mark.django_db
def test_the_queue_is_installed_with_the_tables_and_once_only(settings: Settings) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS pgmq CASCADE")
        # On a cluster, one transaction has all that follows.
        cursor.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
    call_command("migrate", verbosity=0)
    assert queue_schemas() == 0, "the tests' own broker is in memory"
    settings.CELERY_BROKER_URL = broker.URL
    call_command("migrate", verbosity=0)
    assert queue_schemas() == 1
    queue_schema.install()


def test_the_brokers_address_shows_no_password() -> None:
    database = {"NAME": "eds", "HOST": "db", "USER": "eds", "PASSWORD": "pa55", "OPTIONS": {}}
    options = transport_options(broker.URL, database)
    assert "pa55" in options["conn_string"]
    assert "pa55" not in repr(options)
