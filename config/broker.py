"""Celery's broker on the service's own PostgreSQL: kombu's ``pgmq`` transport.

The messages carry no data. They only wake a worker, so the queue may be lost and created again.
The settings import this module, so it must not import ``config.celery``, which reads them.
"""

from typing import Any

from kombu.transport import TRANSPORT_ALIASES
from psycopg.conninfo import make_conninfo

from config import keepalive

# What CELERY_BROKER_URL is unless it is given. The address is in the options.
SCHEME = "own-database"
URL = f"{SCHEME}://database"
TRANSPORT_ALIASES[SCHEME] = "config.celery.transport:Transport"
# What a DATABASE_URL may say beyond the address, and the driver passes on to the server.
LIBPQ_OPTIONS = (
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "options"),
    *keepalive.POSTGRES_OPTIONS,
)


class SecretString(str):
    """A string that may hold a password: it does not show itself in reports of the settings."""

    def __repr__(self) -> str:
        return "'***'"


def transport_options(url: str, database: dict[str, Any]) -> dict[str, Any]:
    """The options of the transport that *url* stands for; *database* are Django's settings."""
    if url == URL:
        return _of_own_database(database)
    if url.startswith(("redis", "sentinel")):
        return keepalive.REDIS_OPTIONS
    return {}


def _of_own_database(database: dict[str, Any]) -> dict[str, Any]:
    address = {
        "host": database.get("HOST"),
        "port": database.get("PORT"),
        "dbname": database["NAME"],
        "user": database.get("USER"),
        "password": database.get("PASSWORD"),
        **{name: database["OPTIONS"].get(name) for name in LIBPQ_OPTIONS},
    }
    given = {name: str(value) for name, value in address.items() if value}
    return {
        "conn_string": SecretString(make_conninfo("", **given)),
        # The SQL is installed by `migrate`; there is no extension to create.
        "init_extension": False,
        "use_notify": True,
        # Each wake-up is worth a notification: the sender already holds back the excess.
        "notify_throttle_interval_ms": 0,
        # Read without blocking and wait for a notification instead: a long poll blocks one queue
        # after the other, so a message in the second waits until the first one's poll is over.
        "wait_time_seconds": 0,
        # An unreachable database fails a publish within so many seconds.
        "pool_timeout": 3.0,
        "pool_size": 2,
    }
