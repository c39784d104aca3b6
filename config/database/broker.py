"""Celery's broker on the service's own PostgreSQL: kombu's ``pgmq`` transport.

The messages carry no data. They only wake a worker, so the queue may be lost and created again.
The settings import this module, so it must not import ``config.celery``, which reads them.
"""

from typing import Any

from kombu.transport import TRANSPORT_ALIASES
from psycopg.conninfo import make_conninfo

from config.database import keepalive

# The default of CELERY_BROKER_URL. The address itself is in the transport options.
SCHEME = "own-database"
URL = f"{SCHEME}://database"
TRANSPORT_ALIASES[SCHEME] = "config.celery.transport:Transport"
# Options that a DATABASE_URL may have besides the address.
LIBPQ_OPTIONS = (
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "options"),
    *keepalive.POSTGRES_OPTIONS,
)


class SecretString(str):
    """A string that may hold a password, and so does not show its value in reports of settings."""

    def __repr__(self) -> str:
        return "'***'"


def transport_options(url: str, database: dict[str, Any]) -> dict[str, Any]:
    """Return the transport options for *url*; *database* is Django's entry in DATABASES."""
    if url == URL:
        return _own_database_options(database)
    if url.startswith(("redis", "sentinel")):
        return keepalive.REDIS_OPTIONS
    return {}


def _own_database_options(database: dict[str, Any]) -> dict[str, Any]:
    address = {
        "host": database.get("HOST"),
        "port": database.get("PORT"),
        "dbname": database["NAME"],
        "user": database.get("USER"),
        "password": database.get("PASSWORD"),
        **{name: database["OPTIONS"].get(name) for name in LIBPQ_OPTIONS},
    }
    parameters = {name: str(value) for name, value in address.items() if value}
    return {
        "conn_string": SecretString(make_conninfo("", **parameters)),
        # `migrate` installs the SQL, so there is no extension to create.
        "init_extension": False,
        "use_notify": True,
        # Notify of each wake-up. The sender already limits their number.
        "notify_throttle_interval_ms": 0,
        # Read without blocking, and wait for a notification. Long polls run one queue after the
        # other, so a message in the second queue would wait for the end of the first poll.
        "wait_time_seconds": 0,
        # Seconds until publishing to an unreachable database fails.
        "pool_timeout": 3.0,
        "pool_size": 2,
    }
