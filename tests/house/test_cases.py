"""Cases that share a set-up are all tried, and a failure says which one it was."""

import pytest

from tests.cases import each

SEEN: list[tuple[int, str]] = []


@pytest.fixture
def notes() -> list[int]:
    return []


@each("number", [1, 2, 3])
@each(("letter", "_ignored"), [("a", 0), ("b", 0)])
def test_all_combinations(number: int, letter: str, _ignored: int, notes: list[int]) -> None:
    assert notes == [], "what an earlier case noted"
    notes.append(number)
    SEEN.append((number, letter))


def test_all_combinations_were_tried() -> None:
    test_all_combinations(notes=[])
    assert SEEN[-6:] == [(number, letter) for number in (1, 2, 3) for letter in "ab"]


def test_a_failure_names_its_case() -> None:
    @each("number", [1, 2, 3])
    def is_below_two(number: int) -> None:
        assert number < 2

    with pytest.raises(AssertionError) as failure:
        is_below_two()
    assert failure.value.__notes__ == ["The case is {'number': 2}."]
