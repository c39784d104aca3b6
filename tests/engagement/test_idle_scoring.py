"""Scoring looks for work every few seconds, so a look that finds nothing costs little."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from engagement.models import Product
from engagement.rescoring.rescore import rescore
from tests.database import one_server
from tests.engagement.history import NOON, identify, tell, track

pytestmark = pytest.mark.django_db

# As many as before benchmarks, counts, orders, and the building of sets became jobs, a look for
# days without a decision, and one for sets that have a weekly look.
STATEMENTS = 25


@one_server
def test_an_idle_run_takes_no_more_statements_with_more_products(
    acme: Product, globex: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    for product in (acme, globex):
        tell(product, identify("ann", -1, group="initech"), track("ann"))
    # The first runs score, and end jobs that have rested.
    for minutes in (0, 20, 40, 60):
        rescore(NOON + timedelta(minutes=minutes))
    statements: list[str] = []
    execute = psycopg.Cursor.execute

    def note(cursor: Any, statement: Any, *arguments: Any, **options: Any) -> Any:
        statements.append(str(statement))
        return execute(cursor, statement, *arguments, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", note)
    rescore(NOON + timedelta(minutes=60, seconds=20))
    own = [each for each in statements if not each.startswith(("SAVEPOINT", "RELEASE"))]
    assert len(own) <= STATEMENTS, own
