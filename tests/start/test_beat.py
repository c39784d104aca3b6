"""The scheduler ends when it is told to, whatever it is doing."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from celery.signals import beat_init
from django.db import connection, transaction

import config.celery  # noqa: F401  (what is sent below is received there)


@pytest.fixture
def in_beat() -> Iterator[None]:
    """The handlers of signals are those of a scheduler that has started."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    beat_init.send(sender=None)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.django_db
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_interrupts_a_statement_and_the_schedule_can_be_written_then(
    in_beat: None, number: signal.Signals
) -> None:
    with pytest.raises(KeyboardInterrupt), transaction.atomic(), connection.cursor() as cursor:
        told_soon(number)
        cursor.execute("SELECT pg_sleep(30)")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def told_soon(number: signal.Signals) -> None:
    """The signal comes in a fifth of a second."""
    threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
