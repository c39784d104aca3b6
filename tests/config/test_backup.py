"""What docs/operating.md says about backups, done: the service is there again."""

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User as AdminUser
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.utils import timezone

from access.logins import second_factors
from config.local.postgres import EmbeddedPostgres, import_wheel, stop_process
from engagement.models import Product
from ingestion.models import IngestionKey
from tests.database import FAST, one_server_as
from tests.readapi.scored import fill

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "correct horse battery staple"
# As the commands of the document call it.
RESTORED = "eds_restored"
READ = """
import os, sys
import django, pyotp
django.setup()
from django.test import Client
from django.utils import timezone
from ingestion.drain import processing
TRACK = {"userId": "stranger", "event": "opened"}
from django.contrib.sessions.models import Session
from ingestion.models import IngestionKey
print(Session.objects.count(), "sessions")
for key in IngestionKey.objects.order_by("name"):
    print(key.product.name, key.name, key.secret)
person = Client(headers={"host": "localhost"})
person.post("/admin/login/", {"username": "maya", "password": os.environ["MAYA"]})
print(person.get("/admin/preferences/").status_code, "with the password alone")
code = pyotp.TOTP(os.environ["APP"]).now()
person.post("/admin/login/second-factor/", {"code": code})
print(person.get("/admin/preferences/").status_code, "with the code of the app")
for key in IngestionKey.objects.order_by("name"):
    sender = Client(headers={"authorization": f"Bearer {key.secret}", "host": "localhost"})
    sent = sender.post("/v2/track", TRACK, content_type="application/json")
    print(sent.status_code, processing.drain(timezone.now).messages, "sent and recorded")
reads = Client(headers={"authorization": f"Bearer {sys.argv[1]}", "host": "localhost"})
for address in sys.argv[2:]:
    print(reads.get(address).text)
"""


def program(name: str) -> str:
    """PostgreSQL's client of the server's own version."""
    major = f" {connection.pg_version // 10_000}."  # type: ignore[attr-defined]
    for path in sorted(Path(import_wheel().__file__).parent.glob(f"pginstall*/bin/{name}")):
        if major in subprocess.check_output([path, "--version"], text=True):
            return str(path)
    raise AssertionError(f"no {name} for{major}")


def documented(beginning: str) -> str:
    """The commands of the document that begin like this."""
    text = (settings.BASE_DIR / "docs" / "operating.md").read_text()
    (block,) = (
        block_text
        for block_text in re.findall(r"```sh\n(.*?)```", text, re.S)
        if beginning in block_text
    )
    return str(block)


def run(commands: str, folder: Path, **variables: str) -> None:
    subprocess.run(
        ["sh", "-e"],
        input=commands,
        cwd=folder,
        env={**os.environ, **variables},
        check=True,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def service(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment in which the commands find the tests' database; what they made goes."""
    where = connection.settings_dict
    file = tmp_path / "services"
    file.write_text(f"[eds]\nhost={where['HOST']}\nuser={where['USER']}\ndbname={where['NAME']}\n")
    programs = str(Path(program("pg_dump")).parent)
    yield {"PGSERVICEFILE": str(file), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {RESTORED}")


@one_server_as("its servers are backed up in another way (proofs.cluster_backups).")
@pytest.mark.slow
def test_people_senders_and_readers_go_on_after_a_restore(
    acme: Product, acme_key: str, acme_token: str, service: dict[str, str], tmp_path: Path
) -> None:
    Session.objects.create(session_key="s", session_data="", expire_date=timezone.now())
    workspace = fill(acme)
    maya = AdminUser.objects.create_user("maya", password=PASSWORD, is_staff=True)
    app = second_factors.new_app_secret()
    second_factors.add_app(maya, "Phone", app, 0, timezone.now())
    addresses = [f"/v2/{kind}?workspace_id={workspace.pk}" for kind in ("accounts", "users")]
    before = Client(headers={"authorization": f"Bearer {acme_token}", "host": "localhost"})
    answers = [before.get(address).text for address in addresses]
    assert '"score":' in answers[0] and '"initech"' in answers[0]
    assert '"score":' in answers[1] and '"ann"' in answers[1]
    run(documented("pg_dump"), tmp_path, **service)
    assert stat.S_IMODE((tmp_path / "eds.dump").stat().st_mode) == 0o600
    key = IngestionKey.objects.get()
    output = run_on(RESTORED, READ, acme_token, *addresses, MAYA=PASSWORD, APP=app)
    assert output.splitlines() == [
        "0 sessions",
        f"{acme.name} {key.name} {acme_key}",
        "302 with the password alone",
        "200 with the code of the app",
        "202 1 sent and recorded",
        *answers,
    ]


def test_no_command_shows_a_password() -> None:
    assert "DATABASE_URL" not in documented("pg_dump")


@pytest.mark.slow
def test_a_copy_of_the_data_folder_is_a_database_that_starts() -> None:
    with tempfile.TemporaryDirectory(prefix="eds-copy-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        original = EmbeddedPostgres(folder / ".data" / "postgres", FAST)
        original.initialise()
        run(documented("cp "), folder)
        copy = EmbeddedPostgres(folder / "eds-data-copy" / "postgres", FAST)
        server = copy.start_with_log(folder / "log")
        stop_process(server, signal.SIGINT, timeout=30)


def run_on(database: str, script: str, *arguments: str, **variables: str) -> str:
    """The output of a script of the service on the database, in a process of its own."""
    where = connection.settings_dict
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=settings.BASE_DIR,
        env={
            **os.environ,
            **variables,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": f"postgresql://{where['USER']}@/{database}?host={where['HOST']}",
            "EDS_SECRET_KEY": "only-for-this-test" * 4,
            "EDS_ENCRYPTION_KEYS": ",".join(map(str, settings.ENCRYPTION_KEYS)),
        },
        check=True,
        capture_output=True,
        text=True,
    ).stdout
