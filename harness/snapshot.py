"""Writes config/database/snapshot.sql: the tables that all migrations lead to.

``python -m harness.snapshot`` takes half a minute. Run it after a change to migrations; until then
a first start applies the newer ones one by one.
"""

import json
import os
import re
import subprocess
import sys

import psycopg

from config.local.postgres import DATABASE, SUPERUSER, EmbeddedPostgres
from harness.processes import PROJECT
from harness.service import own_environment, temporary_folder

# Those that migrations create for the weeks around the present day.
WEEKS = "public.engagement_event_2*"
# The broker's queues, which their package installs.
QUEUES = "pgmq"


def main() -> None:
    with temporary_folder() as folder:
        command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(command, cwd=PROJECT, env=own_environment(folder), check=True)
        postgres = EmbeddedPostgres(folder / "postgres")
        with postgres.running():
            host = str(postgres.socket_dir)
            with psycopg.connect(host=host, user=SUPERUSER, dbname=DATABASE) as connection:
                version = connection.info.server_version
                migrations = connection.execute(
                    "SELECT app, name FROM django_migrations ORDER BY id"
                ).fetchall()
            content = dump(postgres)
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    import django

    django.setup()
    from config.database import snapshot

    header = {
        "postgres": version // 10_000,
        "digest": snapshot.digest_of(migrations),
        "migrations": migrations,
    }
    snapshot.FILE.write_text(f"{snapshot.HEADER}{json.dumps(header)}\n{content}")


def dump(postgres: EmbeddedPostgres) -> str:
    """Return the database's statements, for one transaction, and without a time in them."""
    command = postgres.client_command(
        "pg_dump",
        *("--no-owner", "--no-privileges", "--no-comments", "--inserts"),
        *("--rows-per-insert", "1000", "--exclude-table", WEEKS, "--exclude-schema", QUEUES),
        DATABASE,
    )
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    text = re.sub(r"^(--.*|\\(un)?restrict.*|)\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^SET ", "SET LOCAL ", text, flags=re.MULTILINE)
    text = text.replace(
        "set_config('search_path', '', false)", "set_config('search_path', '', true)"
    )
    # When the migrations were applied.
    return re.sub(r"'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\+00'", "now()", text)


if __name__ == "__main__":
    main()
