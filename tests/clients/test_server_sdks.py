"""Server SDKs from the package registries, unmodified, against a running service."""

from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from tests.clients.proxy import Proxy
from tests.clients.sending import SDKS, Call, sending
from tests.clients.service import Service
from tests.start.running import until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("node")]

LONG_AGO = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
# The clocks are the same; what is left is the way of the request.
ON_THE_WAY = timedelta(seconds=20)


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
        {"type": "alias", "userId": ada, "previousId": f"{prefix}visitor"},
        {"type": "track", "anonymousId": f"{prefix}visitor", "event": "Opened"},
    ]


@pytest.mark.parametrize("sdk", SDKS)
def test_what_is_sent_is_what_arrives(sdk: str, service: Service, prefix: str) -> None:
    started = datetime.now(UTC)
    dropped = service.dropped()
    with sending(sdk, service.address, service.key, a_bit_of_everything(prefix)) as sdk_at_work:
        sdk_at_work.wait()
    service.until_events(prefix, 4)

    assert service.users(prefix) == {f"{prefix}ada": {"email": "ada@example.com", "seats": 3}}
    assert service.accounts(prefix) == {
        f"{prefix}initech": {"name": "Initech", "domain": "initech.example.com"},
        f"{prefix}globex": {},
    }
    first, *others = service.events(prefix)
    assert first[:3] == (f"{prefix}ada", "Report exported", f"{prefix}globex")
    assert LONG_AGO <= first.at < LONG_AGO + ON_THE_WAY
    assert [one[:3] for one in others] == [
        (f"{prefix}ada", event, f"{prefix}initech")
        for event in ("Größe geändert 📏", "Viewed Pricing Page", "Viewed Home Screen")
    ]
    assert all(started - ON_THE_WAY < one.at < started + 2 * ON_THE_WAY for one in others)
    assert service.dropped() - dropped == Counter({"anonymous": 1})


# --- When something goes wrong --------------------------------------------------------------


def many(prefix: str, sdk: str, number: int) -> list[Call]:
    """Calls of a user for each SDK, with events that each happen once."""
    user = f"{prefix}{sdk}"
    tracks = [{"type": "track", "userId": user, "event": f"event {n}"} for n in range(number)]
    return [{"type": "identify", "userId": user, "traits": {"sdk": sdk}}, *tracks]


def assert_each_arrived_once(service: Service, prefix: str, number: int) -> None:
    service.until_events(prefix, number * len(SDKS))
    assert service.counts(prefix) == {
        (f"{prefix}{sdk}", f"event {n}"): 1 for sdk in SDKS for n in range(number)
    }
    assert service.users(prefix) == {f"{prefix}{sdk}": {"sdk": sdk} for sdk in SDKS}


def tried_again(proxy: Proxy) -> bool:
    return len(proxy.statuses()) >= 2


def test_an_outage_loses_and_doubles_nothing(service: Service, prefix: str) -> None:
    with ExitStack() as stack:
        proxies = {sdk: stack.enter_context(Proxy(service.address).running()) for sdk in SDKS}
        with service.outage():
            at_work = [
                stack.enter_context(
                    sending(sdk, proxies[sdk].address, service.key, many(prefix, sdk, 50))
                )
                for sdk in SDKS
            ]
            until(lambda: all(tried_again(one) for one in proxies.values()), "all to try again")
        for one in at_work:
            one.wait()
    assert_each_arrived_once(service, prefix, 50)
    for proxy in proxies.values():
        assert set(proxy.statuses()) == {503, 200}
        assert proxy.statuses()[:2] == [503, 503]


def test_answers_that_are_lost_make_nothing_count_twice(service: Service, prefix: str) -> None:
    dropped = service.dropped()
    with ExitStack() as stack:
        proxies = {
            sdk: stack.enter_context(Proxy(service.address, lose=2).running()) for sdk in SDKS
        }
        at_work = [
            stack.enter_context(
                sending(sdk, proxies[sdk].address, service.key, many(prefix, sdk, 50))
            )
            for sdk in SDKS
        ]
        for one in at_work:
            one.wait()
    assert_each_arrived_once(service, prefix, 50)
    repeats = service.dropped() - dropped
    assert set(repeats) == {"duplicate"}
    assert repeats["duplicate"] >= 2 * len(SDKS)


def test_a_web_server_that_is_killed_again_and_again_loses_and_doubles_nothing(
    service: Service, prefix: str
) -> None:
    with ExitStack() as stack:
        at_work = [
            stack.enter_context(
                sending(sdk, service.address, service.key, many(prefix, sdk, 200), pause=0.05)
            )
            for sdk in SDKS
        ]
        for arrived in (100, 300):
            service.until_arrived(prefix, arrived)
            service.kill_the_web_role()
        for one in at_work:
            one.wait()
    assert_each_arrived_once(service, prefix, 200)
