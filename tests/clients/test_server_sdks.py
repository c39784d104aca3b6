"""SDKs from the package registries, unmodified, against a running service, side by side."""

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import uuid4

import pytest

from tests.clients.proxy import Proxy
from tests.clients.sending import (
    PERSISTENT_SDKS,
    PROGRAMS,
    REACT_NATIVE,
    SERVER_SDKS,
    Call,
    sending,
)
from tests.clients.service import Service
from tests.start.running import until

pytestmark = pytest.mark.usefixtures("node")

LONG_AGO = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
# The clocks are the same; what is left is the way of the request.
ON_THE_WAY = timedelta(seconds=20)
LONGEST_RUN = timedelta(minutes=10)


def a_bit_of_everything(prefix: str) -> list[Call]:
    ada, initech = f"{prefix}ada", f"{prefix}initech"
    return [
        {"type": "identify", "userId": ada, "traits": {"email": "ada@example.com", "seats": 3}},
        {
            "type": "group",
            "userId": ada,
            "groupId": initech,
            "traits": {"name": "Initech", "domain": "initech.example.com"},
        },
        {
            "type": "track",
            "userId": ada,
            "event": "Report exported",
            "timestamp": LONG_AGO.isoformat(),
            "context": {"groupId": f"{prefix}globex"},
        },
        {"type": "track", "userId": ada, "event": "Größe geändert 📏"},
        {"type": "page", "userId": ada, "name": "Pricing"},
        {"type": "screen", "userId": ada, "name": "Home"},
        {"type": "alias", "userId": ada, "previousId": f"{prefix}ada-before"},
        {"type": "track", "anonymousId": f"{prefix}visitor", "event": "Opened"},
    ]


def an_app(prefix: str) -> list[Call]:
    """What an app can say. Its SDK adds the user to each call."""
    ada, initech = f"{prefix}ada", f"{prefix}initech"
    return [
        {"type": "track", "event": "Opened"},
        {"type": "alias", "userId": ada},
        {"type": "identify", "userId": ada, "traits": {"email": "ada@example.com", "seats": 3}},
        {"type": "group", "groupId": initech, "traits": {"name": "Initech"}},
        {"type": "track", "event": "Report exported"},
        {"type": "screen", "name": "Home"},
    ]


class Sent(NamedTuple):
    """What an SDK has sent: the prefix of its ids, and its output if it gave up a message."""

    prefix: str
    failure: str


@pytest.fixture(scope="module")
def sent_by_sdk(service: Service) -> dict[str, Sent]:
    """What all SDKs have sent at the same time."""
    dropped = service.dropped()
    prefixes = {sdk: f"{uuid4().hex[:8]}-" for sdk in PROGRAMS}
    with ExitStack() as stack:
        at_work = []
        for sdk, prefix in prefixes.items():
            calls = an_app(prefix) if sdk == REACT_NATIVE else a_bit_of_everything(prefix)
            at_work.append(stack.enter_context(sending(sdk, service.address, service.key, calls)))
        failures = [program.failure() for program in at_work]
    service.until_drained()
    since = service.dropped() - dropped
    assert since.pop("anonymous") >= len(PROGRAMS)
    assert not since
    pairs = zip(prefixes.items(), failures, strict=True)
    return {sdk: Sent(prefix, failure) for (sdk, prefix), failure in pairs}


@pytest.mark.parametrize("sdk", SERVER_SDKS)
def test_what_is_sent_is_what_arrives(
    sdk: str, sent_by_sdk: dict[str, Sent], service: Service
) -> None:
    now = datetime.now(UTC)
    prefix, failure = sent_by_sdk[sdk]
    assert failure == ""
    assert service.accounts(prefix) == {
        f"{prefix}initech": {"name": "Initech", "domain": "initech.example.com"},
        f"{prefix}globex": {},
    }
    first, *others = service.events(prefix)
    assert first[:3] == (f"{prefix}ada", "Report exported", f"{prefix}globex")
    assert LONG_AGO <= first.at < LONG_AGO + ON_THE_WAY
    assert [event[:3] for event in others] == [
        (f"{prefix}ada", event, f"{prefix}initech")
        for event in ("Größe geändert 📏", "Viewed Pricing Page", "Viewed Home Screen")
    ]
    assert all(now - LONGEST_RUN < event.at < now for event in others)

    recent = {"Größe geändert 📏": 1, "Viewed Pricing Page": 1, "Viewed Home Screen": 1}
    user = service.read_counted("user", f"{prefix}ada", recent)
    assert user["traits"] == {"email": "ada@example.com", "seats": 3}
    assert user["account"]["tracking_id"] == f"{prefix}initech"
    service.read_counted("account", f"{prefix}initech", recent)


def test_what_an_app_sends_is_what_arrives(sent_by_sdk: dict[str, Sent], service: Service) -> None:
    prefix, failure = sent_by_sdk[REACT_NATIVE]
    assert failure == ""
    once = {"Report exported": 1, "Viewed Home Screen": 1}
    user = service.read_counted("user", f"{prefix}ada", once)
    assert user["traits"] == {"email": "ada@example.com", "seats": 3}
    assert user["account"]["tracking_id"] == f"{prefix}initech"
    account = service.read_counted("account", f"{prefix}initech", once)
    assert account["traits"] == {"name": "Initech"}


# --- When something goes wrong --------------------------------------------------------------


def many(prefix: str, sdk: str, number: int) -> list[Call]:
    """Calls of a user for each SDK, with events that each happen once."""
    user = f"{prefix}{sdk}"
    tracks = [{"type": "track", "userId": user, "event": f"event {n}"} for n in range(number)]
    return [{"type": "identify", "userId": user, "traits": {"sdk": sdk}}, *tracks]


def assert_each_arrived_once(service: Service, prefix: str, number: int) -> None:
    service.until_events(prefix, number * len(PERSISTENT_SDKS))
    assert service.counts(prefix) == {
        (f"{prefix}{sdk}", f"event {n}"): 1 for sdk in PERSISTENT_SDKS for n in range(number)
    }
    assert service.users(prefix) == {f"{prefix}{sdk}": {"sdk": sdk} for sdk in PERSISTENT_SDKS}


def tried_again(proxy: Proxy) -> bool:
    return len(proxy.statuses()) >= 2


def test_an_outage_and_lost_answers_lose_and_double_nothing(service: Service, prefix: str) -> None:
    dropped = service.dropped()
    with ExitStack() as stack:
        proxies = {
            sdk: stack.enter_context(Proxy(service.address, lose=1).running())
            for sdk in PERSISTENT_SDKS
        }
        with service.outage():
            at_work = [
                stack.enter_context(sending(sdk, proxy.address, service.key, many(prefix, sdk, 50)))
                for sdk, proxy in proxies.items()
            ]
            until(lambda: all(tried_again(proxy) for proxy in proxies.values()), "all to retry")
        for program in at_work:
            program.wait()
    assert_each_arrived_once(service, prefix, 50)
    for proxy in proxies.values():
        assert set(proxy.statuses()) == {503, 200}
        assert proxy.statuses()[:2] == [503, 503]
    repeats = service.dropped() - dropped
    assert set(repeats) == {"duplicate"}
    assert repeats["duplicate"] >= len(PERSISTENT_SDKS)


def test_a_web_server_that_is_killed_again_and_again_loses_and_doubles_nothing(
    service: Service, prefix: str
) -> None:
    with ExitStack() as stack:
        at_work = [
            stack.enter_context(
                sending(sdk, service.address, service.key, many(prefix, sdk, 80), pause=0.05)
            )
            for sdk in PERSISTENT_SDKS
        ]
        for arrived in (40, 140):
            service.until_arrived(prefix, arrived)
            service.kill_the_web_role()
        for program in at_work:
            program.wait()
    assert_each_arrived_once(service, prefix, 80)
