"""Settings by which a connection detects that the machine at its other end is gone.

A process that ends closes its connections. A machine that loses its power or its network does not.
By default PostgreSQL would keep the transaction of such a machine, with the messages that it
claimed and the rows that it locked, for 15 minutes or two hours. A client that waits for a response
would wait as long.
"""

import json
import socket
from typing import Any, LiteralString
from weakref import WeakSet

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

# Seconds. An idle connection is probed, and closed if probes or sent data are not acknowledged
# within the timeout.
KEEPALIVE_IDLE = 5
KEEPALIVE_INTERVAL = 5
KEEPALIVE_TIMEOUT = 15
KEEPALIVE_COUNT = KEEPALIVE_TIMEOUT // KEEPALIVE_INTERVAL - 1
# Seconds for a process that hangs in a transaction on a machine that still responds.
IDLE_IN_TRANSACTION_TIMEOUT = 60

# libpq's options for our end of a connection to PostgreSQL. It ignores them on a Unix socket.
# Values in DATABASE_URL take precedence.
POSTGRES_OPTIONS = {
    "keepalives_idle": KEEPALIVE_IDLE,
    "keepalives_interval": KEEPALIVE_INTERVAL,
    "keepalives_count": KEEPALIVE_COUNT,
    "tcp_user_timeout": KEEPALIVE_TIMEOUT * 1000,
}

# The same for a connection to Redis. Not every system has all of these options.
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
# Seconds between two heartbeats of a worker and RabbitMQ.
AMQP_HEARTBEAT = 10
# The operation counter of the tasks that beat sent. It is beat's heartbeat for all machines.
BEAT_COUNTER = "beat"

# Seconds. A coordinator gives up opening a connection to a node, which by default it does after 30.
NODE_CONNECTION_TIMEOUT = 3

# The settings of PostgreSQL's end of our connections. A server without Citus skips Citus's own.
_SERVER_SETTINGS = {
    "tcp_keepalives_idle": KEEPALIVE_IDLE,
    "tcp_keepalives_interval": KEEPALIVE_INTERVAL,
    "tcp_keepalives_count": KEEPALIVE_COUNT,
    "tcp_user_timeout": KEEPALIVE_TIMEOUT * 1000,
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT * 1000,
    "citus.node_connection_timeout": NODE_CONNECTION_TIMEOUT * 1000,
}
# It keeps what an operator has set for the server, the database, or the role. It is a statement,
# because PgBouncer refuses connections with startup options.
_SET_CONFIG: LiteralString = """
    SELECT set_config(name, value, false)
    FROM json_each_text(%(settings)s) AS desired (name, value) JOIN pg_settings USING (name)
    WHERE source = 'default'
"""

_configured: "WeakSet[psycopg.Connection[Any]]" = WeakSet()


def configure_connection(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Configure PostgreSQL's end of a new connection. Receives Django's ``connection_created``."""
    raw: psycopg.Connection[Any] = connection.connection
    # A connection from a pool may have been configured before.
    if raw not in _configured:
        with connection.wrap_database_errors:
            configure_raw_connection(raw)
        _configured.add(raw)


def configure_raw_connection(raw: "psycopg.Connection[Any]") -> None:
    """Do the same for a connection that is not Django's. Raises the driver's errors."""
    with psycopg.Cursor(raw) as cursor:
        cursor.execute(_SET_CONFIG, {"settings": json.dumps(_SERVER_SETTINGS)})
