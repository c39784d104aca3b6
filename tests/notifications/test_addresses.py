"""No request reaches a private address, however it is written, resolved, or redirected to."""

from ipaddress import ip_address, ip_network

import pytest
from pytest_django import Settings

from engagement.outbound.addresses import AddressForbidden, find_target, is_allowed
from engagement.outbound.requests import OutboundRequest, send_now
from notifications.models import Delivery
from tests.cases import each
from tests.notifications.receiver import Received, Receiver

Outcome = Delivery.Outcome


@each(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "127.0.0.1.",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0",
        "localhost",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
        "169.254.169.254",
        "168.63.129.16",
        "10.0.0.1",
        "172.16.5.4",
        "192.168.0.1",
        "100.64.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
    ],
)
def test_an_address_that_is_not_public_is_refused_however_it_is_written(host: str) -> None:
    request = OutboundRequest(f"https://{host}/hook", b"{}", {})
    result = request.run()
    # What the system does not take for an address at all is not reached either.
    assert result.outcome in (Outcome.FORBIDDEN, Outcome.UNREACHABLE)
    assert result.outcome == Outcome.FORBIDDEN or "resolved" in result.error


@each(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://",
        "https:///hook",
        "https://user:secret@example.com/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://exa mple.com/",
        "https://example.com/\r\nHost: other",
        "https://exämple.com/",
        "https://example.com\\@127.0.0.1/",
        "https://exam%00ple.com/",
        "https://[::1",
        "https://example.com/" + "a" * 2000,
    ],
)
def test_a_url_that_can_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(AddressForbidden):
        find_target(url, lambda host, port: ["93.184.216.34"])


def test_a_public_address_is_allowed_by_https_only() -> None:
    def resolve(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"]

    target = find_target("https://example.com/hook?a=b", resolve)
    assert (target.path, target.port, target.authority) == ("/hook?a=b", 443, "example.com")
    assert target.addresses == ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946")
    with pytest.raises(AddressForbidden, match="https"):
        find_target("http://example.com/hook", resolve)


def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    with pytest.raises(AddressForbidden, match="private"):
        find_target("https://example.com/", lambda host, port: ["93.184.216.34", "10.0.0.1"])


def test_a_name_that_changes_its_address_is_asked_once(receiver: Receiver) -> None:
    """The first answer is checked and used. A second one would lead elsewhere."""
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    url = receiver.url.replace("127.0.0.1", "rebinding.example")
    result = OutboundRequest(url, b"{}", {}, lambda host, port: next(answers)).run()
    assert result.outcome == Outcome.DELIVERED
    assert receiver.received[0].headers["host"].startswith("rebinding.example:")
    assert next(answers) == ["169.254.169.254"]


def test_the_operator_may_allow_networks(settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_NETWORKS = [ip_network("10.1.0.0/16")]
    assert is_allowed(ip_address("10.1.2.3")) and is_allowed(ip_address("::ffff:10.1.2.3"))
    assert not is_allowed(ip_address("10.2.0.1")) and not is_allowed(ip_address("127.0.0.1"))


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    def answer(received: Received) -> object:
        return 302, {"Location": receiver.url.replace("/hook", "/elsewhere")}

    receiver.answer = answer
    result = OutboundRequest(receiver.url, b"{}", {}).run()
    assert (result.outcome, result.status) == (Outcome.REFUSED, 302)
    assert "not followed" in result.error
    assert [received.path for received in receiver.received] == ["/hook"]


def test_a_response_is_kept_in_part(receiver: Receiver) -> None:
    receiver.answer = lambda received: (500, {"Retry-After": "120"})
    result = send_now(OutboundRequest(receiver.url, b"{}", {}))
    assert (result.status, result.response, result.retry_after) == (500, "thank you", 120)
