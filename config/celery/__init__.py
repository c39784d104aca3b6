"""The Celery application of the workers and of beat.

``config.settings`` configures everything, so production needs no options beyond
``celery -A config worker`` and ``celery -A config beat``.
"""

import logging
import os
import sys
import warnings
from importlib import import_module
from signal import default_int_handler
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP
from celery.exceptions import SecurityWarning
from celery.platforms import signals
from celery.signals import (
    beat_init,
    setup_logging,
    task_prerun,
    worker_init,
    worker_process_init,
)
from celery.worker.consumer import Consumer
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import close_old_connections, connections
from kombu import Connection

from config.logging import json_streams
from config.server.parent_death import ParentDeathPipe

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# Celery's own command line imports this first.
json_streams.install()

logger = logging.getLogger(__name__)

# Seconds between two attempts to reach a broker that is away.
MAX_RECONNECT_DELAY = 5


class PersistentConnection(Connection):
    """A connection that tries to reach a missing broker at least every five seconds.

    Celery waits two seconds longer after each attempt, up to half a minute. Recording would start
    that late after the broker is back. No setting changes it.
    """

    def ensure_connection(self, *arguments: Any, **options: Any) -> "PersistentConnection":
        waits = {"interval_start": 1, "interval_step": 1, "interval_max": MAX_RECONNECT_DELAY}
        connection: PersistentConnection = super().ensure_connection(
            *arguments, **{**waits, **options}
        )
        return connection


class PersistentAMQP(AMQP):
    Connection = PersistentConnection


class CeleryApp(Celery):
    """The Celery application, whose publishers do not listen for notifications.

    A listener that never reads would fill PostgreSQL's notification queue.
    """

    amqp_cls = "config.celery:PersistentAMQP"

    def connection_for_write(self, url: str | None = None, **options: Any) -> Connection:
        own_options = options.pop("transport_options", None) or {}
        options["transport_options"] = {**self.conf.broker_publish_options, **own_options}
        connection: Connection = super().connection_for_write(url, **options)
        return connection


class QuietConsumer(Consumer):
    """A consumer without heartbeats, gossip, and mingling.

    They serve remote control and monitors, which we do not use, and cost the broker messages every
    two seconds. Celery has options for them on its command line, but no settings.
    """

    connection_errors: tuple[type[Exception], ...]

    def __init__(self, *args: Any, **options: Any) -> None:
        quiet = {"without_heartbeat": True, "without_gossip": True, "without_mingle": True}
        options["worker_options"] = {**(options.get("worker_options") or {}), **quiet}
        super().__init__(*args, **options)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Discard a task of another release, which is only a wake-up, with one line in the log."""
        name = message.headers.get("task")
        logger.warning("Another release sent the task %s, which this one lacks; discarded.", name)
        message.reject_log_error(logger, self.connection_errors)


@setup_logging.connect
def _keep_logging(**_: Any) -> None:
    """Do nothing. A receiver of this signal makes Celery keep Django's LOGGING."""


@worker_init.connect
def _log_shutdown_as_json(**_: Any) -> None:
    """Have Celery write what it says about its shutdown as other lines, not past the streams."""
    if json_streams.is_wanted():
        worker: Any = import_module("celery.apps.worker")
        worker.safe_say = _say


def _say(message: object, stream: Any = None) -> None:
    sys.stderr.write(f"{message}\n")


@worker_init.connect
def _open_parent_death_pipe(**_: Any) -> None:
    global _parent_death
    _parent_death = ParentDeathPipe()


@worker_init.connect
def _check_secrets(**_: Any) -> None:
    """Exit if the worker lacks the right keys, because each of its syncs would fail."""
    # Models can be imported only now.
    from config.setup import preflight

    try:
        preflight.check_secrets()
    except CommandError as error:
        sys.exit(f"error: {error}")
    finally:
        # The pool's processes must not inherit the connection.
        connections.close_all()


@worker_process_init.connect
def _exit_with_parent(**_: Any) -> None:
    """Have the pool process end with its worker, even in a task. The task rolls back."""
    if _parent_death is not None:
        _parent_death.exit_with_parent()


@beat_init.connect
def _interrupt_beat_with_signals(**_: Any) -> None:
    """Have a signal interrupt beat, which then saves its schedule and ends.

    Celery's handler saves the schedule itself. In the middle of a statement it would wait forever
    for the connection that this process is using.
    """
    signals.update(SIGTERM=default_int_handler, SIGINT=default_int_handler)


@task_prerun.connect
def _close_dead_connections(**_: Any) -> None:
    """Close dead connections before each task, for example after a restart of the database.

    With CELERY_DB_REUSE_MAX Celery itself checks connections only once in that many tasks.
    """
    close_old_connections()


# Celery warns root of pickle, which we do not accept (CELERY_ACCEPT_CONTENT).
warnings.filterwarnings("ignore", category=SecurityWarning)

_parent_death: ParentDeathPipe | None = None
app = CeleryApp("engagement")
try:
    app.config_from_object("django.conf:settings", namespace="CELERY", force=True)
except ImproperlyConfigured as error:
    # On Celery's own command line this is the first access to the settings.
    sys.exit(f"error: {error}")
app.autodiscover_tasks()
