"""A schema of another PostgreSQL, as a mirror of an export's tables.

It loads what any reader of the files would: parts wait in staging tables, and the manifest, which
comes last, merges them in one transaction. A ledger in the schema says which runs are merged. So a
worker may end anywhere: the next one repeats a part, or finds that the run is merged.
"""

import gzip
import io
import json
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.sql import SQL, Composed, Identifier
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from core.outbound.addresses import (
    AddressForbidden,
    Resolver,
    find_addresses,
    is_in_allowed_network,
)
from exports.stores.errors import StoreError

PART_SECONDS = 90.0
MERGE_SECONDS = 600.0
_MANIFEST: Final = "manifest.json"
# What identifies a row of each table.
KEYS: Final = {
    "accounts": ("id",),
    "users": ("id",),
    "account_scores": ("day", "id"),
    "user_scores": ("day", "id"),
    "license_events": ("id",),
    "trends": ("day", "segment_id"),
    "segment_moves": ("day", "segment_id", "scope", "id"),
    "usage": ("day", "kind", "name"),
    "account_timelines": ("id", "day", "place"),
    "user_timelines": ("id", "day", "place"),
    "cohorts": ("subjects", "event", "by", "group", "value", "week", "weeks_later"),
}
# A run of changes has all of their rows, too.
_WITH_ALL_ROWS: Final = {"trends", "usage", "account_timelines", "user_timelines", "cohorts"}
# Rows of the first are deleted with the subjects in the others.
NEEDS: Final = {
    "account_scores": ("accounts",),
    "user_scores": ("users",),
    "account_timelines": ("accounts",),
    "user_timelines": ("users",),
    "license_events": ("accounts",),
    "segment_moves": ("accounts", "users"),
}
_SUBJECTS: Final = {"accounts": "account", "users": "user"}
_TYPES: Final = {
    "integer": "bigint",
    "number": "double precision",
    "text": "text",
    "json": "jsonb",
    "boolean": "boolean",
    "time": "timestamptz",
    "day": "date",
}
# The second name of tracking_id goes with the next release, and no row of a mirror is deleted.
_LEFT_OUT: Final = {"external_id", "deleted"}
_LEDGER, _GONE, _STAGE = "_eds_runs", "_eds_gone", "_eds_stage_"
_OWN: Final = {"_eds_run": "bigint", "_eds_synced_at": "timestamptz"}

Cursor: TypeAlias = "psycopg.Cursor[Any]"


@dataclass(frozen=True)
class PostgresStore:
    """Connects only to addresses that are allowed, and without a verified certificate only in
    networks that the operator allows. *origin* tells this export from all others."""

    host: str
    port: int
    database: str
    schema: str
    user: str
    password: str
    tls: str
    ca: str
    origin: str
    resolve: Resolver | None = None

    def put(self, name: str, content: bytes, type: str = "") -> None:
        """Stage a part, or merge the parts that the manifest names. Raises StoreError."""
        folder, _, file = name.rpartition("/")
        is_last = file == _MANIFEST
        with self._transaction(MERGE_SECONDS if is_last else PART_SECONDS) as cursor:
            schema = _Schema(cursor, self.schema)
            if is_last:
                _Merge(schema, self.origin, folder, json.loads(content)).run()
            else:
                schema.stage(folder, file, content)

    def delete(self, name: str) -> None:
        """Nothing: a merge deletes what was staged."""

    def check(self, seconds: float) -> None:
        """Connect, create the schema if need be, and see whether a table may be made in it."""
        with self._transaction(seconds) as cursor:
            schema = _Schema(cursor, self.schema)
            if not schema.exists():
                cursor.execute(SQL("CREATE SCHEMA {}").format(Identifier(self.schema)))
            schema.require_own(self.origin)
            schema.ensure("_eds_test", {"id": "bigint"})
            schema.drop("_eds_test")

    @contextmanager
    def _transaction(self, seconds: float) -> Iterator[Cursor]:
        """One transaction at a time writes the schema. It is cut off after these *seconds*."""
        try:
            with ExitStack() as stack:
                connection = stack.enter_context(closing(self._connect(stack)))
                stack.enter_context(_cut_off(connection, seconds + 5))
                cursor = stack.enter_context(connection.cursor())
                cursor.execute(f"SET LOCAL statement_timeout = {seconds * 1000:.0f}".encode())
                cursor.execute("SET LOCAL lock_timeout = '30s'")
                cursor.execute("SET LOCAL client_min_messages = warning")
                lock = "SELECT pg_advisory_xact_lock(hashtext('eds'), hashtext(%s))"
                cursor.execute(lock, [self.schema])
                yield cursor
                connection.commit()
        except AddressForbidden as error:
            raise StoreError(str(error)) from None
        except psycopg.Error as error:
            # Its text may quote a row.
            raise StoreError(describe(error, self.user, self.schema)) from None
        except OSError:
            raise StoreError("The host of the database cannot be resolved.") from None

    def _connect(self, stack: ExitStack) -> "psycopg.Connection[Any]":
        addresses = find_addresses(self.host, self.port, self.resolve)
        if self.tls != "verify-full" and not all(map(is_in_allowed_network, addresses)):
            raise AddressForbidden(
                "Choose the verified certificate. Without it, the service connects only to "
                "networks that the operator has allowed with EDS_WEBHOOK_ALLOWED_NETWORKS."
            )
        # One host for each address, because libpq resolves no name that has an address.
        more: dict[str, Any] = self._trust(stack)
        return psycopg.connect(
            host=",".join([self.host] * len(addresses)),
            hostaddr=",".join(map(str, addresses)),
            port=self.port,
            dbname=self.database,
            user=self.user,
            password=self.password,
            passfile=os.devnull,
            application_name="engagement data service",
            connect_timeout=10,
            options="",
            gssencmode="disable",
            sslmode=self.tls,
            **more,
        )

    def _trust(self, stack: ExitStack) -> dict[str, str]:
        """Whose certificates are valid; where none is verified, the password is not sent as it
        is."""
        if self.tls != "verify-full":
            return {"require_auth": "!password"}
        if not self.ca:
            return {"sslrootcert": ssl.get_default_verify_paths().cafile or DEFAULT_CA_BUNDLE_PATH}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "ca.pem").write_text(self.ca)
        return {"sslrootcert": str(folder / "ca.pem")}


@contextmanager
def _cut_off(connection: "psycopg.Connection[Any]", seconds: float) -> Iterator[None]:
    """End the connection after these seconds, also if the other side says nothing more."""
    duplicate = socket.socket(fileno=os.dup(connection.fileno()))

    def end() -> None:
        with suppress(OSError):
            duplicate.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        duplicate.close()


# --- The schema -----------------------------------------------------------------------------


class _Schema:
    """Tables of the schema, by their names."""

    def __init__(self, cursor: Cursor, name: str) -> None:
        self.cursor, self._name = cursor, name

    def exists(self) -> bool:
        rows = self.cursor.execute("SELECT FROM pg_namespace WHERE nspname = %s", [self._name])
        return rows.fetchone() is not None

    def execute(self, statement: str, *parameters: Any, **parts: Any) -> Cursor:
        """Each part is a table's name, or SQL."""
        named = {
            name: Identifier(self._name, part) if isinstance(part, str) else part
            for name, part in parts.items()
        }
        text: Any = statement
        return self.cursor.execute(SQL(text).format(**named), parameters or None)

    def columns(self, table: str) -> list[str]:
        """The names of the table's columns, in their order; none if there is no such table."""
        rows = self.cursor.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(format('%%I.%%I', "
            "%s::text, %s::text)) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [self._name, table],
        )
        return [name for (name,) in rows]

    def ensure(
        self, table: str, columns: Mapping[str, str], key: Collection[str] = (), kind: str = ""
    ) -> bool:
        """Make the table, or add the columns that it lacks. Returns whether anything was made."""
        present = self.columns(table)
        missing = {name: type for name, type in columns.items() if name not in present}
        lines = [SQL("{} " + type).format(Identifier(name)) for name, type in missing.items()]
        if not present:
            if key:
                lines.append(SQL("PRIMARY KEY ({})").format(_names(key)))
            creation = "CREATE " + kind + " TABLE {table} ({lines})"
            self.execute(creation, table=table, lines=SQL(", ").join(lines))
        elif lines:
            added = SQL(", ").join(SQL("ADD COLUMN {}").format(line) for line in lines)
            self.execute("ALTER TABLE {table} {added}", table=table, added=added)
        return bool(missing)

    def drop(self, table: str) -> None:
        self.execute("DROP TABLE IF EXISTS {table}", table=table)

    def require_own(self, origin: str) -> None:
        """Raise StoreError if something else is in the schema."""
        if self.columns(_LEDGER):
            others = "SELECT 1 FROM {ledger} WHERE origin <> %s LIMIT 1"
            if self.execute(others, origin, ledger=_LEDGER).fetchone():
                raise StoreError("The schema has the rows of another export. Choose another one.")
            return
        for table in KEYS:
            if self.columns(table):
                text = f"The schema has a table {table} that no export has made."
                raise StoreError(f"{text} Choose another schema.")

    def stage(self, folder: str, file: str, content: bytes) -> None:
        """Keep the rows of a part until the merge, as texts. A repeated part replaces itself."""
        stage = _STAGE + file.rpartition("-")[0]
        with gzip.open(io.BytesIO(content), "rt", encoding="utf-8", newline="") as lines:
            names = lines.readline().strip().split(",")
        self.ensure(stage, {"_eds_file": "text", **dict.fromkeys(names, "text")}, (), "UNLOGGED")
        name = f"{folder}/{file}"
        old = "DELETE FROM {stage} WHERE _eds_file = %s OR split_part(_eds_file, '/', 1) <> %s"
        self.execute(old, name, folder, stage=stage)
        default = "ALTER TABLE {stage} ALTER COLUMN _eds_file SET DEFAULT {name}"
        self.execute(default, stage=stage, name=psycopg.sql.Literal(name))
        copy = SQL("COPY {}({}) FROM STDIN (FORMAT csv, HEADER true)")
        target = Identifier(self._name, stage)
        with (
            gzip.open(io.BytesIO(content), "rb") as data,
            self.cursor.copy(copy.format(target, _names(names))) as rows,
        ):
            while block := data.read(1 << 20):
                rows.write(block)


# --- The merge ------------------------------------------------------------------------------


class _Merge:
    """What a run's manifest does to the schema, in one transaction."""

    def __init__(self, schema: _Schema, origin: str, folder: str, manifest: dict[str, Any]) -> None:
        self._schema, self._origin, self._folder = schema, origin, folder
        self._manifest, self._tables = manifest, manifest["tables"]
        self._is_complete = manifest["since"] is None

    def run(self) -> None:
        schema, manifest = self._schema, self._manifest
        schema.require_own(self._origin)
        schema.ensure(
            _LEDGER,
            {
                "number": "bigint GENERATED ALWAYS AS IDENTITY",
                **dict.fromkeys(("run", "follows", "stamp", "rows"), "bigint"),
                **dict.fromkeys(("origin", "folder", "extent"), "text"),
                "loaded_at": "timestamptz DEFAULT now()",
            },
            ("number",),
        )
        merged = "SELECT 1 FROM {ledger} WHERE folder = %s"
        if schema.execute(merged, self._folder, ledger=_LEDGER).fetchone():
            return
        self._refuse_gap()
        self._find_gone()
        is_new = [self._merge(table) for table in self._tables]
        if self._is_complete:
            self._empty_others()
        if any(is_new):
            for table in self._tables:
                self._make_view(table)
        schema.execute(
            "INSERT INTO {ledger} (run, follows, stamp, rows, origin, folder, extent) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s)",
            *(manifest["run"], manifest["changes_since_run"], manifest["until"]["stamp"]),
            *(manifest["rows"], self._origin, self._folder, manifest["extent"]),
            ledger=_LEDGER,
        )
        for table in (_GONE, *(_STAGE + table for table in KEYS)):
            schema.drop(table)

    def _refuse_gap(self) -> None:
        """Changes are merged into the state that they follow, and into no other."""
        if self._is_complete:
            return
        last = "SELECT run, stamp FROM {ledger} ORDER BY number DESC LIMIT 1"
        row = self._schema.execute(last, ledger=_LEDGER).fetchone()
        since = self._manifest["since"]
        if row != (since["run"], since["stamp"]):
            state = f"was last loaded by run {row[0]}" if row else "was never loaded"
            raise StoreError(
                f"These changes follow run {since['run']}, but the schema {state}. "
                "Choose “Write everything” on the page of the export."
            )

    def _find_gone(self) -> None:
        """Note who is gone, and delete what the other tables have of them."""
        schema = self._schema
        schema.drop(_GONE)
        columns = {"scope": "text", "id": "bigint", "tracking_id": "text"}
        schema.ensure(_GONE, columns, (), "UNLOGGED")
        for table, scope in _SUBJECTS.items():
            if table not in self._tables or not schema.columns(table):
                continue
            self._require_staged(table)
            deleted = (
                "EXISTS (SELECT FROM {stage} s WHERE s.id::bigint = t.id AND s.deleted = 'true')"
            )
            absent = "NOT EXISTS (SELECT FROM {stage} s WHERE s.id::bigint = t.id)"
            schema.execute(
                "INSERT INTO {gone} SELECT %s, t.id, t.tracking_id FROM {table} t WHERE "
                + (absent if self._is_complete else deleted),
                scope,
                **{"gone": _GONE, "table": table, "stage": _STAGE + table},
            )
        for table, same in (
            ("accounts", "g.scope = 'account' AND g.id = t.id"),
            ("users", "g.scope = 'user' AND g.id = t.id"),
            ("account_scores", "g.scope = 'account' AND g.id = t.id"),
            ("user_scores", "g.scope = 'user' AND g.id = t.id"),
            ("account_timelines", "g.scope = 'account' AND g.id = t.id"),
            ("user_timelines", "g.scope = 'user' AND g.id = t.id"),
            ("segment_moves", "g.scope = t.scope AND g.id = t.id"),
            ("license_events", "g.scope = 'account' AND g.tracking_id = t.tracking_id"),
        ):
            if schema.columns(table):
                statement = "DELETE FROM {table} t USING {gone} g WHERE " + same
                schema.execute(statement, table=table, gone=_GONE)

    def _require_staged(self, table: str) -> None:
        """A crash of the database empties what is staged."""
        stage, schema = _STAGE + table, self._schema
        info = self._tables[table]
        names = {each["name"]: "text" for each in info["columns"]}
        schema.ensure(stage, {"_eds_file": "text", **names}, (), "UNLOGGED")
        counts = "SELECT _eds_file, count(*) FROM {stage} GROUP BY _eds_file"
        staged = dict(schema.execute(counts, stage=stage).fetchall())
        expected = {f"{self._folder}/{file['name']}": file["rows"] for file in info["files"]}
        if staged != {name: rows for name, rows in expected.items() if rows}:
            raise StoreError("The database has lost a part of the run. The next run has its rows.")

    def _merge(self, table: str) -> bool:
        """Make the table have the rows of the run. Returns whether it got new columns."""
        self._require_staged(table)
        schema, key = self._schema, KEYS[table]
        types = {
            each["name"]: _TYPES[each["type"]]
            for each in self._tables[table]["columns"]
            if each["name"] not in _LEFT_OUT
        }
        is_new = not schema.columns(table)
        has_more = schema.ensure(table, types | _OWN, key)
        if is_new and key == ("day", "id"):
            schema.execute("CREATE INDEX ON {table} (id)", table=table)
        has_deleted = any(each["name"] == "deleted" for each in self._tables[table]["columns"])

        def value(name: str) -> Composed:
            # An empty field of CSV is NULL, which no key may be.
            text = "coalesce(s.{}, '')" if name in key and types[name] == "text" else "s.{}::"
            cast = "" if text.endswith(")") else types[name]
            return SQL(text + cast).format(Identifier(name))

        parts: dict[str, Any] = {
            "table": table,
            "stage": _STAGE + table,
            "names": _names(types),
            "values": SQL(", ").join(map(value, types)),
            "key": _names(key),
            "key_values": SQL(", ").join(map(value, key)),
            "same": SQL(" AND ").join(
                SQL("t.{} = {}").format(Identifier(name), value(name)) for name in key
            ),
            "old": _names(types, "t"),
            "new": _names(types, "excluded"),
        }
        if has_deleted:
            withdrawal = "DELETE FROM {table} t USING {stage} s WHERE s.deleted = 'true' AND {same}"
            schema.execute(withdrawal, **parts)
        # The service no longer keeps the days before the first one that the run has. Of timelines,
        # the first entry may be gone for another reason, so what is no longer told goes.
        since_then = "t.day >= (SELECT min(day::date) FROM {stage}) AND "
        if self._is_complete or table in _WITH_ALL_ROWS:
            absent = "NOT EXISTS (SELECT FROM {stage} s WHERE {same})"
            where = (since_then if key[0] == "day" else "") + absent
            schema.execute("DELETE FROM {table} t WHERE " + where, **parts)
        schema.execute(
            "INSERT INTO {table} AS t ({names}, _eds_run, _eds_synced_at) "
            "SELECT DISTINCT ON ({key_values}) {values}, %s::bigint, now() FROM {stage} s "
            + ("WHERE s.deleted IS DISTINCT FROM 'true' " if has_deleted else "")
            + "ORDER BY {key_values}, s._eds_file DESC "
            "ON CONFLICT ({key}) DO UPDATE SET ({names}, _eds_run, _eds_synced_at) = "
            "ROW({new}, excluded._eds_run, now()) WHERE ({old}) IS DISTINCT FROM ({new})",
            self._manifest["run"],
            **parts,
        )
        return has_more

    def _empty_others(self) -> None:
        """Tables that are no longer exported keep nobody."""
        for table in KEYS.keys() - self._tables.keys():
            if self._schema.columns(table):
                self._schema.execute("DELETE FROM {table}", table=table)

    def _make_view(self, table: str) -> None:
        """A view with names for people. New columns come last, as a replaced view must have them;
        no view is dropped, because others may stand on it."""
        columns = [name for name in self._schema.columns(table) if not name.startswith("_eds_")]
        selected = [
            SQL("t.{} AS {}").format(Identifier(name), Identifier(friendly(name)))
            for name in columns
        ]
        joined: dict[str, Any] = {}
        source = "FROM {table} t"
        if table.endswith(("_scores", "_timelines")):
            (subjects,) = NEEDS[table]
            selected.insert(0, SQL('coalesce(n.name, n.tracking_id) AS "Name"').format())
            source += " LEFT JOIN {subjects} n ON n.id = t.id"
            joined = {"subjects": subjects}
        self._schema.execute(
            "CREATE OR REPLACE VIEW {view} AS SELECT {selected} " + source,
            **{"view": friendly(table), "selected": SQL(", ").join(selected), "table": table},
            **joined,
        )


def friendly(name: str) -> str:
    """“Last active at”."""
    return " ".join(name.split("_")).capitalize().replace("Id", "ID").replace(" id", " ID")


def _names(names: Collection[str], prefix: str = "") -> Composed:
    before = (prefix,) if prefix else ()
    return SQL(", ").join(Identifier(*before, name) for name in names)


# --- What went wrong ------------------------------------------------------------------------

_SENTENCES: Final = {
    "28P01": "The database refuses the user or the password.",
    "28000": "The database lets {user} not in from here. Check its pg_hba.conf.",
    "3D000": "The server has no database with this name.",
    "3F000": "The schema is gone. Choose “Try the connection”, which makes it again.",
    "42501": (
        "{user} may not do that. Let it own the schema: "
        "CREATE SCHEMA {schema} AUTHORIZATION {user}."
    ),
    "53100": "The disk of the database is full.",
    "53300": "The database has too many connections.",
    "55P03": "A table of the schema was locked for 30 seconds. End the query that holds it.",
    "57014": "The database took too long.",
    "57P03": "The database is starting or shutting down.",
    "25006": "The database is read-only. Enter the primary.",
    "42804": "A column of the schema has another type. Give it back its type, or drop its table.",
    "42703": "A column of the schema is missing. Choose “Write everything” after adding it.",
    "42P16": "A view of the schema was changed. Drop it, and the next run makes it again.",
}
# While it connects, libpq has only a text.
_TEXTS: Final = (
    ("password authentication failed", "28P01"),
    ("no pg_hba.conf entry", "28000"),
    ("is not permitted to log in", "28000"),
    ("starting up", "57P03"),
    ("shutting down", "57P03"),
    ("too many", "53300"),
)
_CONNECTING: Final = (
    ("certificate verify failed", "The certificate of the database is not valid."),
    ("does not match host name", "The certificate of the database is for another host."),
    ("does not support SSL", "The database offers no TLS."),
    ("no password supplied", "Enter a password."),
    ("password", "The database asks for the password without protection."),
    ("timeout", "The database does not answer."),
    ("Connection refused", "The database refuses the connection. Check the host and the port."),
    ("database", "The server has no database with this name."),
)


def describe(error: psycopg.Error, user: str, schema: str) -> str:
    """What went wrong and what to do, without a row or a password."""
    text, code = str(error), error.sqlstate
    if code is None:
        code = next((state for part, state in _TEXTS if part in text), None)
    if code is None:
        sentences = (sentence for part, sentence in _CONNECTING if part in text)
        return next(sentences, "The connection to the database broke.")
    name = type(error).__name__
    sentence = _SENTENCES.get(code, f"The database answered {code} ({name}).")
    return sentence.format(user=user, schema=schema)
