"""Celery's transport over the service's own database: kombu's ``pgmq``, quick to stop."""

from typing import Any

from kombu.transport import pgmq

# Seconds. A worker looks at its signals this often, and reads its queues even where no
# notification came.
LOOK_INTERVAL = 0.5


class Transport(pgmq.Transport):
    """The transport that the scheme of ``config.broker.URL`` stands for."""

    def drain_events(self, connection: Any, timeout: Any = None, **options: Any) -> None:
        # The driver waits for notifications in C, where signals are not seen: a worker that is
        # asked to stop would answer after four seconds.
        within = min(timeout or LOOK_INTERVAL, LOOK_INTERVAL)
        super().drain_events(connection, timeout=within)  # type: ignore[no-untyped-call]
