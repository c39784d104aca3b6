"""Celery: the workers that record and score in the background.

Everything is configured by ``config.settings``, so plain ``celery -A config worker`` and
``celery -A config beat`` are all that production needs.
"""

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

from config.parent_death import ParentDeathPipe

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# Seconds between two attempts to reach a broker that is away.
MAX_RECONNECT_DELAY = 5


class PersistentConnection(Connection):
    """Looks for a broker that is away every five seconds at the latest.

    Celery waits two seconds longer each time, up to half a minute: nothing would be recorded for
    so long after the broker is back.
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
    """The Celery application. Its publishers do not listen: only workers need notifications.

    A listener that never reads would hold PostgreSQL's notification queue.
    """

    amqp_cls = "config.celery:PersistentAMQP"

    def connection_for_write(self, url: str | None = None, **options: Any) -> Connection:
        given = options.pop("transport_options", None) or {}
        options["transport_options"] = {**self.conf.broker_publish_options, **given}
        connection: Connection = super().connection_for_write(url, **options)
        return connection


class QuietConsumer(Consumer):
    """A worker that does not chat with other workers.

    Heartbeats, gossip and mingling only serve remote control and monitors, which we do not use,
    and each costs the broker messages every two seconds.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        quiet = {"without_heartbeat": True, "without_gossip": True, "without_mingle": True}
        options["worker_options"] = {**(options.get("worker_options") or {}), **quiet}
        super().__init__(*args, **options)


@setup_logging.connect
def _keep_logging(**_: Any) -> None:
    """Having a receiver makes Celery keep to Django's LOGGING, levels and formats included."""


@worker_init.connect
def _make_lifeline(**_: Any) -> None:
    global _lifeline
    _lifeline = ParentDeathPipe()


@worker_init.connect
def _check_secrets(**_: Any) -> None:
    """A worker without the right keys does not start: its syncs would fail one after the other."""
    # Django's models are ready only now.
    preflight = import_module("config.preflight")
    try:
        preflight.check_secrets()
    except CommandError as failure:
        sys.exit(f"error: {failure}")
    finally:
        # The pool's processes must not inherit the connection.
        connections.close_all()


@worker_process_init.connect
def _hold_lifeline(**_: Any) -> None:
    """A pool process ends with its worker, even in the middle of a task (which rolls back)."""
    if _lifeline is not None:
        _lifeline.hold()


@beat_init.connect
def _end_beat_from_within(**_: Any) -> None:
    """A signal interrupts what beat does, and beat then writes its schedule and ends.

    Celery's own handler writes it at once. In the middle of a statement it would wait for a
    connection that its own process holds, for ever.
    """
    signals.update(SIGTERM=default_int_handler, SIGINT=default_int_handler)


@task_prerun.connect
def _leave_dead_connections(**_: Any) -> None:
    """A task begins with a connection that works, also after the database was restarted.

    With CELERY_DB_REUSE_MAX Celery itself looks after connections every so many tasks only.
    """
    close_old_connections()


# Celery warns root because of pickle, which we do not accept (CELERY_ACCEPT_CONTENT).
warnings.filterwarnings("ignore", category=SecurityWarning)

_lifeline: ParentDeathPipe | None = None
app = CeleryApp("engagement")
try:
    app.config_from_object("django.conf:settings", namespace="CELERY", force=True)
except ImproperlyConfigured as error:
    # Only Celery's own command line gets here with settings that nobody has read yet.
    sys.exit(f"error: {error}")
app.autodiscover_tasks()
