"""docs/scaling.md names the tables that a cluster distributes, and those that each node has."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from config.database.distribution import TABLES, Kind
from config.local.postgres import DATABASE, ROLE, SUPERUSER
from harness import cluster
from harness.cluster import Cluster
from harness.service import temporary_folder
from tests.database import needs_citus

TABLE = re.compile(r"`([a-z]+_[a-z]+)`")


def tables_in_the_document(kind: Kind) -> set[str]:
    text = (settings.BASE_DIR / "docs" / "scaling.md").read_text()
    section = text.split("## Citus", 1)[1].split("\n## ", 1)[0]
    (row,) = [
        line for line in section.splitlines() if line.startswith((f"| {kind} ", f"| {kind}: "))
    ]
    return set(TABLE.findall(row.split("|")[2]))


@pytest.mark.parametrize("kind", [Kind.DISTRIBUTED, Kind.REFERENCE])
def test_the_document_names_the_tables(kind: Kind) -> None:
    placed = {table for table, placement in TABLES.items() if placement.kind is kind}
    assert tables_in_the_document(kind) == placed


PASSWORDS = {SUPERUSER: "one", ROLE: "two"}
ASKS_FOR_PASSWORDS = "local all all trust\nhost all all 127.0.0.0/8 scram-sha-256\n"


def documented_passwords() -> str:
    """The statement of the document, with the names and passwords of this test."""
    text = (settings.BASE_DIR / "docs" / "scaling.md").read_text()
    (example,) = re.findall(r"INSERT INTO pg_dist_authinfo[^;]+;", text)
    statement = str(example)
    for name, password in (("postgres", PASSWORDS[SUPERUSER]), ("eds", PASSWORDS[ROLE])):
        role = SUPERUSER if name == "postgres" else ROLE
        statement = statement.replace(f"'{name}', 'password=…'", f"'{role}', 'password={password}'")
    assert "…" not in statement
    return statement


def ask_for_passwords(servers: Cluster) -> None:
    for server in servers.servers:
        server.create_database(DATABASE)
        with server.connect() as database:
            for role, password in PASSWORDS.items():
                database.execute(f"ALTER ROLE {role} PASSWORD '{password}'")
            (Path(server.folder) / "pg_hba.conf").write_text(ASKS_FOR_PASSWORDS)
            database.execute("SELECT pg_reload_conf()")


@needs_citus
@pytest.mark.slow
def test_nodes_that_ask_for_passwords_are_added_by_the_documented_steps() -> None:
    with temporary_folder() as folder, cluster.unconnected(folder, nodes=1) as servers:
        ask_for_passwords(servers)
        for server in servers.servers:
            with server.connect() as database:
                database.execute(documented_passwords())
        with servers.coordinator.connect() as database:
            names = [servers.coordinator.address, servers.nodes[0].address]
            database.execute("SELECT citus_set_coordinator_host(%s, 5432)", names[:1])
            database.execute("SELECT citus_add_node(%s, 5432)", names[1:])
            # The service's role reaches the node, too.
            database.execute(f"SET ROLE {ROLE}")
            rows = database.execute("SELECT success FROM run_command_on_workers('SELECT 1')")
            assert rows.fetchall() == [(True,)]
