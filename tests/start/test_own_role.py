"""The service's role owns its database, also one of an older release, and may do nothing else."""

import json
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import ProgrammingError, connection

from config.local import ownership
from config.local.postgres import DATABASE, ROLE, SUPERUSER, EmbeddedPostgres, stop_process
from tests.database import FAST, copy_migrated_cluster, superuser
from tests.start.running import manage

NOT_OURS = """
    SELECT oid::regclass::text FROM pg_class
    WHERE relowner <> %s::regrole AND oid >= 16384 AND relkind NOT IN ('i', 'I', 't')
    UNION ALL SELECT oid::regprocedure::text FROM pg_proc
    WHERE proowner <> %s::regrole AND oid >= 16384
    UNION ALL SELECT datname FROM pg_database
    WHERE datdba <> %s::regrole AND datname = current_database()
"""


@pytest.mark.django_db
@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "SELECT pg_read_file('postgresql.conf')",
        "SET ROLE postgres",
        "CREATE ROLE another",
    ],
)
def test_the_service_cannot_reach_beyond_its_database(statement: str) -> None:
    with connection.cursor() as cursor, pytest.raises(ProgrammingError, match="permission denied"):
        cursor.execute(statement)


@contextmanager
def running(server: EmbeddedPostgres) -> Iterator[None]:
    server.initialise()
    process = server.start_with_log(server.folder.parent / "log")
    try:
        yield
    finally:
        stop_process(process, signal.SIGINT, timeout=30)


@pytest.fixture
def data() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="eds-role-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def test_a_database_of_an_older_release_is_transferred_to_the_role(
    data: Path,
) -> None:
    server = EmbeddedPostgres(data / "postgres", FAST)
    as_before = f"postgresql://{SUPERUSER}@/{DATABASE}?host={server.socket_dir}"
    variables = {
        "DATABASE_URL": as_before,
        "EDS_SECRET_KEY": "s" * 60,
        "EDS_ENCRYPTION_KEYS": ",".join(map(str, settings.ENCRYPTION_KEYS)),
    }
    copy_migrated_cluster(server.folder)
    with running(server):
        with superuser(server, DATABASE) as operator:
            operator.execute(f"ALTER DATABASE {DATABASE} OWNER TO {SUPERUSER}")
            operator.execute(f"REASSIGN OWNED BY {ROLE} TO {SUPERUSER}")
            owned = operator.execute(NOT_OURS, [ROLE] * 3).fetchall()
            assert ("engagement_product",) in owned and (DATABASE,) in owned
        product = json.loads(manage(data, "create_product", "Acme", "--json", **variables).stdout)
    keys = variables["EDS_ENCRYPTION_KEYS"]
    ended = manage(data, "create_product", "Globex", EDS_ENCRYPTION_KEYS=keys)
    assert ended.returncode == 0, ended.stderr
    with running(server), superuser(server, DATABASE) as operator:
        assert operator.execute(NOT_OURS, [ROLE] * 3).fetchall() == []
        names = operator.execute("SELECT name FROM engagement_product ORDER BY id").fetchall()
        assert names == [("Acme",), ("Globex",)] and product["product_id"] == 1
        rights = operator.execute(
            "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles "
            "WHERE rolname = %s",
            [ROLE],
        )
        assert rights.fetchone() == (False,) * 4


def test_objects_in_use_are_transferred_later(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "LOCK_TIMEOUT", "10ms")
    server = EmbeddedPostgres(data / "postgres", FAST)
    with running(server), superuser(server, DATABASE) as old:
        old.execute("CREATE TABLE held (id bigint GENERATED ALWAYS AS IDENTITY)")
        with superuser(server, DATABASE) as operator:
            with old.transaction():
                old.execute("LOCK TABLE held IN ACCESS SHARE MODE")
                with pytest.raises(ownership.ObjectsInUse):
                    ownership.transfer_ownership(operator, ROLE)
            ownership.transfer_ownership(operator, ROLE)
        with psycopg.connect(host=str(server.socket_dir), user=ROLE, dbname=DATABASE) as service:
            service.execute("ALTER TABLE held ADD COLUMN name text")
            service.execute("INSERT INTO held (name) VALUES ('x')")
