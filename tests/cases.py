"""Cases and examples that share the fixtures of one test, where making these takes longer."""

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec

from django.db import transaction
from hypothesis import HealthCheck, settings

# EXAMPLES=10 draws ten times as many examples of each property.
FACTOR = float(os.environ.get("EXAMPLES", "1"))
P = ParamSpec("P")
Test = Callable[..., None]


def each(names: str | Sequence[str], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Call the test for each of the values, as ``pytest.mark.parametrize`` does, in one test.

    A failure names its case. Only for tests that leave nothing behind: a list that is a fixture is
    empty again for the next case, and ``leaves_no_rows`` below it rolls back what a case writes.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    rows = [value if len(columns) > 1 else (value,) for value in values]
    assert rows, "no cases"

    def with_each(test: Test) -> Test:
        signature = inspect.signature(test)

        @wraps(test)
        def run(**fixtures: Any) -> None:
            for row in rows:
                for fixture in fixtures.values():
                    if isinstance(fixture, list):
                        fixture.clear()
                case = dict(zip(columns, row, strict=True))
                try:
                    test(**fixtures, **case)
                except BaseException as error:
                    error.add_note(f"The case is {case!r:.1000}.")
                    raise

        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[p for name, p in signature.parameters.items() if name not in columns]
        )
        return run

    return with_each


def examples(count: int) -> settings:
    """Try a property with this many examples, which may take their time and share fixtures."""
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=scaled(count), deadline=None, suppress_health_check=checks)


def scaled(count: int) -> int:
    """This many examples by ``EXAMPLES``, and at least two."""
    return max(2, round(count * FACTOR))


def leaves_no_rows(test: Callable[P, None]) -> Callable[P, None]:
    """Roll back what the test writes.

    Hypothesis calls a test for one example after the other, in one transaction. Without this, each
    example would also score and search the rows of all examples before it.
    """

    @wraps(test)
    def in_savepoint(*args: P.args, **kwargs: P.kwargs) -> None:
        savepoint: Any = transaction.atomic()
        # As the block around the whole test, it is no obstacle for a durable block of the service.
        savepoint._from_testcase = True
        with savepoint:
            test(*args, **kwargs)
            transaction.set_rollback(True)

    return in_savepoint
