"""How a connection notices that the machine at its other end is gone without a word.

A process that ends says so; a machine that loses its power or its network does not. Without what is
set here PostgreSQL would keep such a machine's transaction, with the messages that it claimed and
the rows that it locked, for a quarter of an hour or for two hours, and a client that waits for an
answer would wait as long.
"""

import json
import socket
from typing import Any, LiteralString
from weakref import WeakSet

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

# Seconds. Whoever is silent is asked for a sign of life, and given up when there was none for so
# long, or when what was sent was not acknowledged for so long.
ASKED_AFTER = 5
ASKED_EVERY = 5
GIVEN_UP_AFTER = 15
ASKED_AT_MOST = GIVEN_UP_AFTER // ASKED_EVERY - 1
# A machine that answers, with a process that hangs in the middle of a transaction, is given more.
IDLE_IN_TRANSACTION = 60

# Our end of a connection to PostgreSQL, in the words of the driver, which leaves them aside where
# the connection is a Unix socket. What DATABASE_URL says about them goes before.
TO_POSTGRES = {
    "keepalives_idle": ASKED_AFTER,
    "keepalives_interval": ASKED_EVERY,
    "keepalives_count": ASKED_AT_MOST,
    "tcp_user_timeout": GIVEN_UP_AFTER * 1000,
}

# And of one to Redis. Not every system knows all of these.
TO_REDIS = {
    "socket_keepalive": True,
    "socket_keepalive_options": {
        getattr(socket, name): value
        for name, value in {
            "TCP_KEEPIDLE": ASKED_AFTER,
            "TCP_KEEPINTVL": ASKED_EVERY,
            "TCP_KEEPCNT": ASKED_AT_MOST,
            "TCP_USER_TIMEOUT": GIVEN_UP_AFTER * 1000,
        }.items()
        if hasattr(socket, name)
    },
}
# Seconds between two signs of life that a worker and RabbitMQ give each other.
HEARTBEAT = 10
# The measure of what beat has sent: its sign of life, for whoever asks on whatever machine.
BEAT = "beat"

# PostgreSQL's end of our connections.
_OF_POSTGRES = {
    "tcp_keepalives_idle": ASKED_AFTER,
    "tcp_keepalives_interval": ASKED_EVERY,
    "tcp_keepalives_count": ASKED_AT_MOST,
    "tcp_user_timeout": GIVEN_UP_AFTER * 1000,
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION * 1000,
}
# What somebody has set for the server, the database or the role stays. A statement, because
# PgBouncer refuses connections that bring settings along.
_TELL: LiteralString = """
    SELECT set_config(name, value, false)
    FROM json_each_text(%(settings)s) AS ours (name, value) JOIN pg_settings USING (name)
    WHERE source = 'default'
"""

_told: "WeakSet[psycopg.Connection[Any]]" = WeakSet()


def tell_postgres(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Have PostgreSQL notice, too. Receives Django's ``connection_created``."""
    raw: psycopg.Connection[Any] = connection.connection
    # One that is borrowed from a pool once more has been told.
    if raw not in _told:
        with connection.wrap_database_errors:
            tell(raw)
        _told.add(raw)


def tell(raw: "psycopg.Connection[Any]") -> None:
    """The same for a connection that is not Django's. Raises the driver's errors."""
    with psycopg.Cursor(raw) as cursor:
        cursor.execute(_TELL, {"settings": json.dumps(_OF_POSTGRES)})
