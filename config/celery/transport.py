"""The transport over the service's database: kombu's ``pgmq``, which stops quickly and connects as
the service does.
"""

from typing import Any

import psycopg
from kombu.transport import pgmq
from pgmq import PGMQueue
from psycopg_pool import ConnectionPool

from config.database import keepalive

# Seconds. A worker handles its signals this often, and reads its queues even without a
# notification.
POLL_INTERVAL = 0.5


class Transport(pgmq.Transport):
    """The transport for the scheme of ``config.database.broker.URL``."""

    # Two workers may create the queues at the same moment. The second one then reconnects, as after
    # a lost connection, and does not end.
    connection_errors = (*pgmq.Transport.connection_errors, psycopg.errors.DuplicateObject)

    def drain_events(self, connection: Any, timeout: Any = None, **options: Any) -> None:
        # The driver waits for notifications in C, where Python handles no signals. Without the
        # limit a worker would take four seconds to begin to stop.
        within = min(timeout or POLL_INTERVAL, POLL_INTERVAL)
        super().drain_events(connection, timeout=within)  # type: ignore[no-untyped-call]

    # The library keeps only host, database, user and password of a connection string. It drops
    # encryption, certificates and timeouts, so we make its connections.

    def _create_pgmq_client(self) -> PGMQueue:
        options = self._options()
        pool = ConnectionPool(
            options["conn_string"],
            min_size=1,
            max_size=options["pool_size"],
            timeout=options["pool_timeout"],
            # Left alone the pool retries ever more rarely. After this a request starts again.
            reconnect_timeout=options["pool_timeout"],
            configure=_configure,
            open=True,
        )
        return PGMQueue(
            conn_string=options["conn_string"],
            pool=pool,
            vt=pgmq.Channel.default_visibility_timeout,
            init_extension=options["init_extension"],
        )

    def _options(self) -> dict[str, Any]:
        client: Any = self.client
        options: dict[str, Any] = client.transport_options
        return options

    def _get_notify_waiter(self) -> Any:
        if self._notify_waiter is None:
            self._notify_waiter = pgmq._NotifyWaiter(self._options()["conn_string"])
        return self._notify_waiter

    def close_connection(self, connection: Any) -> None:
        pool = self._pgmq_client.pool if self._pgmq_client else None
        try:
            super().close_connection(connection)
        finally:
            if pool is not None:
                pool.close()


def _configure(raw: "psycopg.Connection[Any]") -> None:
    keepalive.configure_raw_connection(raw)
    raw.commit()
