"""Whatever a door accepts, the drain can record: nothing of it ends in the quarantine."""

import json
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.messages import Track
from engagement.models import Account, Event, EventName, Product, User
from engagement.recording.placeholders import is_placeholder
from ingestion.errors import IngestionError
from ingestion.payloads import Payload
from tests.cases import examples
from tests.ingestion.examples import MINIMAL
from tests.ingestion.test_hostile_input import CONTROL, DOORS, members, paths
from tests.pipeline.waiting import drain, dropped, quarantined, wait, waiting

NOW = datetime(2026, 9, 24, 12, tzinfo=UTC)

# Identifiers that the doors take, of every kind of character and up to their longest.
letters = st.characters(codec="utf-8", exclude_characters=CONTROL)
ids = st.text(letters, min_size=1, max_size=30).filter(str.strip) | st.builds(
    lambda letter, length: letter * length,
    letters.filter(lambda letter: bool(letter.strip())),
    st.sampled_from([255, 256, 512]),
)
keys = st.text(letters, max_size=20) | st.sampled_from(["email", "domain", "name", "AM.Tier", "\0"])
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(10**300), 10**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=400)
    | st.sampled_from(["\0", "\ud800", "x" * 9_000, "İ" * 3_000, "2026-09-24", 1e308, 5e-324])
)
traits = st.dictionaries(
    keys,
    st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=8,
    ),
    max_size=6,
)
times = st.none() | st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31)).map(
    datetime.isoformat
)
bodies = st.one_of(
    st.tuples(paths, members).map(lambda drawn: (drawn[0], MINIMAL[drawn[0]] | drawn[1])),
    st.fixed_dictionaries(
        {"userId": ids, "traits": traits, "groupId": st.none() | ids, "timestamp": times}
    ).map(lambda body: ("/v2/identify", body)),
    st.fixed_dictionaries(
        {"groupId": ids, "traits": traits, "userId": st.none() | ids, "timestamp": times}
    ).map(lambda body: ("/v2/group", body)),
    st.fixed_dictionaries({"userId": ids, "event": ids, "timestamp": times}).map(
        lambda body: ("/v2/track", body)
    ),
)


def accepted(path: str, body: Any) -> list[Payload]:
    try:
        return list(DOORS[path](json.dumps(body), {}, NOW).messages)
    except IngestionError:
        return []


# Each example adds to what earlier ones left, as messages do.
@examples(5)
@given(st.lists(bodies, min_size=1, max_size=12))
def test_any_accepted_messages_are_recorded(
    acme: Product, acme_key: str, calls: list[tuple[str, Any]]
) -> None:
    messages = [message for path, body in calls for message in accepted(path, body)]
    events = Event.objects.count()
    known_users = set(User.objects.values_list("external_id", flat=True))
    wait(acme_key, *messages)
    drain(NOW)
    assert (waiting(), quarantined()) == ([], [])
    repeats = [reason for _, reason in dropped()]
    # An id that is drawn may stand for nobody.
    named = [received_ids(message) for message in messages]
    may_be_nobody = any(map(is_placeholder, chain.from_iterable(named)))
    assert set(repeats) <= ({"duplicate", "placeholder"} if may_be_nobody else {"duplicate"})
    if not repeats:
        assert_recorded(messages, events, known_users)


def received_ids(message: Payload) -> list[str | None]:
    names = ("user_id", "group_id", "previous_id")
    return [getattr(message, name, None) for name in names]


def assert_recorded(messages: list[Payload], events: int, user_ids: set[str]) -> None:
    """The ids are there exactly as they were sent, and each track is an event."""
    users = {message.user_id for message in messages if message.user_id is not None}
    assert set(User.objects.values_list("external_id", flat=True)) == user_ids | users
    accounts = {message.group_id for message in messages if message.group_id is not None}
    assert accounts <= set(Account.objects.values_list("external_id", flat=True))
    tracks = [message for message in messages if isinstance(message, Track)]
    assert Event.objects.count() == events + len(tracks)
    assert {message.event for message in tracks} <= set(
        EventName.objects.values_list("name", flat=True)
    )


@pytest.mark.parametrize("name", ["email", "domain", "name", "plan", "am.tier"])
@pytest.mark.parametrize("value", ["x" * 9_000, "İ" * 3_000, "😀" * 9_000, ["x" * 9_000], 10**300])
def test_long_values_fit_every_index(name: str, value: Any, acme: Product, acme_key: str) -> None:
    messages = accepted("/v2/identify", {"userId": "ada", "traits": {name: value}})
    messages += accepted("/v2/group", {"groupId": "initech", "traits": {name: value}})
    assert len(messages) == 2
    wait(acme_key, *messages)
    drain(NOW)
    assert (waiting(), quarantined()) == ([], [])


def test_the_longest_ids_of_the_widest_characters_fit_their_indexes(
    acme: Product, acme_key: str
) -> None:
    widest = "".join(chr(0x10000 + number * 7919 % 60_000) for number in range(512))
    body = {"userId": widest, "event": widest[:256], "context": {"groupId": widest}}
    wait(acme_key, *accepted("/v2/track", {**body, "messageId": widest[:100]}))
    drain(NOW)
    assert User.objects.get().external_id == widest
    assert (waiting(), quarantined()) == ([], [])
