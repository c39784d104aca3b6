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
KEEPALIVE_IDLE = 5
KEEPALIVE_INTERVAL = 5
KEEPALIVE_TIMEOUT = 15
KEEPALIVE_COUNT = KEEPALIVE_TIMEOUT // KEEPALIVE_INTERVAL - 1
# A machine that answers, with a process that hangs in the middle of a transaction, is given more.
IDLE_IN_TRANSACTION_TIMEOUT = 60

# Our end of a connection to PostgreSQL, in the words of the driver, which leaves them aside where
# the connection is a Unix socket. What DATABASE_URL says about them goes before.
POSTGRES_OPTIONS = {
    "keepalives_idle": KEEPALIVE_IDLE,
    "keepalives_interval": KEEPALIVE_INTERVAL,
    "keepalives_count": KEEPALIVE_COUNT,
    "tcp_user_timeout": KEEPALIVE_TIMEOUT * 1000,
}

# And of one to Redis. Not every system knows all of these.
REDIS_OPTIONS = {
    "socket_keepalive": True,
    "socket_keepalive_options": {
        getattr(socket, name): value
        for name, value in {
            "TCP_KEEPIDLE": KEEPALIVE_IDLE,
            "TCP_KEEPINTVL": KEEPALIVE_INTERVAL,
            "TCP_KEEPCNT": KEEPALIVE_COUNT,
            "TCP_USER_TIMEOUT": KEEPALIVE_TIMEOUT * 1000,
        }.items()
        if hasattr(socket, name)
    },
}
# Seconds between two signs of life that a worker and RabbitMQ give each other.
AMQP_HEARTBEAT = 10
# The measure of what beat has sent: its sign of life, for whoever asks on whatever machine.
BEAT_COUNTER = "beat"

# PostgreSQL's end of our connections.
_OF_POSTGRES = {
    "tcp_keepalives_idle": KEEPALIVE_IDLE,
    "tcp_keepalives_interval": KEEPALIVE_INTERVAL,
    "tcp_keepalives_count": KEEPALIVE_COUNT,
    "tcp_user_timeout": KEEPALIVE_TIMEOUT * 1000,
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT * 1000,
}
# What somebody has set for the server, the database or the role stays. A statement, because
# PgBouncer refuses connections that bring settings along.
_TELL: LiteralString = """
    SELECT set_config(name, value, false)
    FROM json_each_text(%(settings)s) AS ours (name, value) JOIN pg_settings USING (name)
    WHERE source = 'default'
"""

_told: "WeakSet[psycopg.Connection[Any]]" = WeakSet()


def configure_connection(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Have PostgreSQL notice, too. Receives Django's ``connection_created``."""
    raw: psycopg.Connection[Any] = connection.connection
    # One that is borrowed from a pool once more has been told.
    if raw not in _told:
        with connection.wrap_database_errors:
            configure_raw_connection(raw)
        _told.add(raw)


def configure_raw_connection(raw: "psycopg.Connection[Any]") -> None:
    """The same for a connection that is not Django's. Raises the driver's errors."""
    with psycopg.Cursor(raw) as cursor:
        cursor.execute(_TELL, {"settings": json.dumps(_OF_POSTGRES)})
