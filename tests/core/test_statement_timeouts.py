"""A statement that takes too long, and one that somebody cancels."""

import pytest
from django.db import OperationalError

from core.database import sql

pytestmark = pytest.mark.django_db


def test_a_statement_that_takes_too_long_is_a_timeout() -> None:
    with pytest.raises(sql.StatementTimeout), sql.statement_timeout(0.05):
        sql.execute("SELECT pg_sleep(10)", {})
    assert sql.fetch("SELECT current_setting('statement_timeout')", {}) == [("0",)]


def test_a_statement_that_somebody_cancels_is_no_timeout() -> None:
    """Scoring gives up a subject that takes too long by itself, and must not do so for a cancel:
    seed 101 of ``proofs.schedules`` lost a rescore request that way."""
    with pytest.raises(OperationalError, match="user request"), sql.statement_timeout(60):
        sql.execute("SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(10)", {})
