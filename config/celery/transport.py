"""Celery's transport over the service's own database: kombu's ``pgmq``, quick to stop, and with
connections as the service's own.
"""

from typing import Any

import psycopg
from kombu.transport import pgmq
from pgmq import PGMQueue
from psycopg_pool import ConnectionPool

from config import keepalive

# Seconds. A worker looks at its signals this often, and reads its queues even where no
# notification came.
POLL_INTERVAL = 0.5


class Transport(pgmq.Transport):
    """The transport that the scheme of ``config.broker.URL`` stands for."""

    # Two workers may set the queues up at the same moment: whoever comes second begins anew, as
    # after a lost connection, instead of ending.
    connection_errors = (*pgmq.Transport.connection_errors, psycopg.errors.DuplicateObject)

    def drain_events(self, connection: Any, timeout: Any = None, **options: Any) -> None:
        # The driver waits for notifications in C, where signals are not seen: a worker that is
        # asked to stop would answer after four seconds.
        within = min(timeout or POLL_INTERVAL, POLL_INTERVAL)
        super().drain_events(connection, timeout=within)  # type: ignore[no-untyped-call]

    # The library keeps host, name and password of an address and leaves out whatever else it says:
    # encryption, certificates, time limits. So it is given connections that are made already.

    def _create_pgmq_client(self) -> PGMQueue:
        options = self._options()
        pool = ConnectionPool(
            options["conn_string"],
            min_size=1,
            max_size=options["pool_size"],
            timeout=options["pool_timeout"],
            # Whoever asks after that begins anew. By itself it tries again less and less often.
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
        broker: Any = self.client
        options: dict[str, Any] = broker.transport_options
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
