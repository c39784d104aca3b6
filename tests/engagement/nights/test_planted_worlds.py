"""The service decides about a planted world in its tables as its functions do on arrays."""

import pytest

from proofs.alarm_nights import WAYS, a_world
from proofs.alarms import SOME

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@pytest.mark.parametrize("way", WAYS)
def test_the_alarms_in_the_tables_are_those_of_the_functions(way: str) -> None:
    # In others, an account with hardly any activity is younger in a replay: days are kept 53 weeks.
    stored, expected = WAYS[way](a_world(SOME.name, 2, 40))
    assert stored.alarms == expected.alarms
    assert len({alarm[0] for alarm in stored.alarms}) > 10
    differing = {
        night: (number, expected.decidable.get(night))
        for night, number in stored.decidable.items()
        if number != expected.decidable.get(night)
    }
    assert not differing
