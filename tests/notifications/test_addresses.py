"""No request reaches a private address, however it is written, resolved, or redirected to."""

from ipaddress import ip_address, ip_network

import pytest
from pytest_django import Settings

from core.outbound.addresses import AddressForbidden, find_target, is_allowed
from core.outbound.requests import OutboundRequest, send_now
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


PUBLIC = ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "8.8.8.8", "2001:4860:4860::8888")
# The first and the last address of each, and of those next to it the ones that are public.
NETWORKS = {
    "0.0.0.0/8": ["1.0.0.0"],
    "10.0.0.0/8": ["9.255.255.255", "11.0.0.0"],
    "100.64.0.0/10": ["100.63.255.255", "100.128.0.0"],
    "127.0.0.0/8": ["126.255.255.255", "128.0.0.0"],
    "169.254.0.0/16": ["169.253.255.255", "169.255.0.0"],
    "172.16.0.0/12": ["172.15.255.255", "172.32.0.0"],
    "192.0.0.0/24": ["191.255.255.255", "192.0.1.0"],
    "192.0.0.192/32": [],
    "192.0.2.0/24": ["192.0.3.0"],
    "192.31.196.0/24": ["192.31.195.255", "192.31.197.0"],
    "192.52.193.0/24": ["192.52.192.255", "192.52.194.0"],
    "192.88.99.0/24": ["192.88.98.255", "192.88.100.0"],
    "192.168.0.0/16": ["192.167.255.255", "192.169.0.0"],
    "192.175.48.0/24": ["192.175.47.255", "192.175.49.0"],
    "198.18.0.0/15": ["198.17.255.255", "198.20.0.0"],
    "198.51.100.0/24": ["198.51.99.255", "198.51.101.0"],
    "203.0.113.0/24": ["203.0.112.255", "203.0.114.0"],
    "224.0.0.0/4": ["223.255.255.255"],
    "240.0.0.0/4": [],
    "168.63.129.16/32": ["168.63.129.15", "168.63.129.17"],
    "::/96": [],
    "::ffff:0:0:0/96": [],
    "64:ff9b:1::/48": [],
    "100::/64": [],
    "2001::/32": [],
    "2001:2::/48": [],
    "2001:10::/28": [],
    "2001:20::/28": [],
    "2001::/23": ["2001:200::"],
    "2001:db8::/32": ["2001:db7:ffff::", "2001:db9::"],
    "2002::/16": ["2003::"],
    "2620:4f:8000::/48": ["2620:4f:7fff::", "2620:4f:8001::"],
    "3fff::/20": ["3fff:1000::"],
    "5f00::/16": [],
    "fc00::/7": [],
    "fe80::/10": [],
    "fec0::/10": [],
    "ff00::/8": [],
}


@each("network", NETWORKS)
def test_no_network_of_a_special_purpose_is_reached(network: str) -> None:
    special = ip_network(network)
    for address in (special[0], special[-1]):
        assert not is_allowed(address), address
        if address.version == 4:
            # However IPv6 spells it: mapped, translated, by NAT64, compatible, by 6to4 and Teredo.
            number = f"{int(address) >> 16:x}:{int(address) & 0xFFFF:x}"
            forms = ["::ffff:{}", "::ffff:0:{}", "64:ff9b::{}", "64:ff9b:1::{}", "::{}"]
            forms += ["2002:{}::", "2001:0:{}::"]
            assert not any(is_allowed(ip_address(form.format(number))) for form in forms), address
    for neighbor in NETWORKS[network]:
        assert is_allowed(ip_address(neighbor)), neighbor


def test_public_addresses_are_allowed_also_behind_nat64() -> None:
    assert all(is_allowed(ip_address(address)) for address in PUBLIC)
    # What a network without IPv4 resolves names to.
    assert is_allowed(ip_address("64:ff9b::5db8:d822"))
    assert is_allowed(ip_address("::ffff:93.184.216.34"))


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
