"""Cases of a test that share its fixtures, where making these takes longer than the test itself."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

Test = Callable[..., None]


def each(names: str | Sequence[str], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Call the test for each of the values, as ``pytest.mark.parametrize`` does, in one test.

    A failure names its case. Only for tests that leave nothing behind but what they add to a list
    that is a fixture: it is empty again for the next case.
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
