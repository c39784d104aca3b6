"""The checker of what readers saw accepts what is in order, and names each contradiction."""

from dataclasses import replace

import pytest

from proofs.histories import Read, contradictions

SENT = {"ada": [1.0, 2.0, 3.0], "bob": [1.5, 2.5]}


def read(reader: str, began: float, ada: int, bob: int, *, is_copy: bool = False) -> Read:
    counts = {"ada": ada, "bob": bob}
    return Read(reader, "primary", began, began + 0.1, counts, is_copy)


IN_ORDER = [
    read("a list", 1.2, 1, 0),
    read("another list", 1.25, 1, 0),
    read("a copy", 1.9, 1, 1, is_copy=True),
    read("a list", 2.6, 1, 1),
    read("a copy", 3.1, 3, 2, is_copy=True),
    read("another list", 3.3, 3, 2),
]


def promises_broken_by(*reads: Read) -> set[str]:
    return {found.promise for found in contradictions([*IN_ORDER, *reads], SENT)}


def test_what_is_in_order_is_accepted() -> None:
    assert promises_broken_by() == set()
    # Two reads at the same time may see the states in any order.
    assert promises_broken_by(read("a third", 2.65, 2, 1), read("a fourth", 2.6, 1, 1)) == set()


@pytest.mark.parametrize(
    ("promise", "wrong"),
    [
        ("monotonic", read("another list", 3.5, 2, 2)),
        ("real", read("a third", 2.0, 3, 1)),
        ("one order", read("a third", 2.65, 0, 2)),
        ("fresh", read("a third", 2.8, 1, 0)),
        ("a prefix", read("another copy", 3.5, 1, 1, is_copy=True)),
    ],
)
def test_a_contradiction_is_named(promise: str, wrong: Read) -> None:
    assert promise in promises_broken_by(wrong)


def test_a_list_that_lacks_what_a_copy_had_is_a_contradiction() -> None:
    assert promises_broken_by(read("a third", 3.25, 1, 1)) == {"a prefix"}


def test_databases_are_compared_with_themselves_alone() -> None:
    older = replace(read("a third", 3.5, 1, 0), database="replica")
    assert promises_broken_by(older) == set()
