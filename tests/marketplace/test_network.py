"""The way to the marketplace: HTTPS, proxies, and certificates, as the environment says."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from config import environment
from harness.marketplace.faults import Trickle
from harness.marketplace.server import Simulator
from marketplace import connecting
from marketplace.source import client
from marketplace.source.client import Credentials
from marketplace.source.errors import MarketplaceUnavailable
from tests.marketplace.connections import FAST_RETRY_POLICY, details_of, fast_client

URL, ALLOW = "MARKETPLACE_API_URL", "EDS_MARKETPLACE_ALLOW_HTTP"
ELSEWHERE = "http://marketplace.example"
VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def set_variables(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)

    def set_them(variables: dict[str, str]) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_them


# --- HTTPS ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example",
        "http://127.0.0.1:8010",
        "http://[::1]:8010",
        "http://localhost:8010",
    ],
)
def test_https_and_this_machine_are_accepted(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(URL, url)
    assert environment.marketplace_url(URL, "", is_http_allowed=False) == url


@pytest.mark.parametrize(
    "url", ["http://api.example", "http://10.0.0.7:8010", "http://localhost.example"]
)
def test_http_to_another_machine_is_refused_unless_allowed(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(URL, url)
    with pytest.raises(ImproperlyConfigured, match=f"Use https://, or set {ALLOW}=true"):
        environment.marketplace_url(URL, "", is_http_allowed=False)
    assert environment.marketplace_url(URL, "", is_http_allowed=True) == url


# --- Proxies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "url", "expected"),
    [
        ({"HTTPS_PROXY": "http://proxy:3128"}, "https://api.x", {"https": "http://proxy:3128"}),
        ({"https_proxy": "http://proxy:3128"}, "https://api.x", {"https": "http://proxy:3128"}),
        ({"ALL_PROXY": "http://proxy:3128"}, "https://api.x", {"all": "http://proxy:3128"}),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "y,.api.x"}, "https://eu.api.x", {}),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, "https://api.x", {}),
        ({"HTTP_PROXY": "http://p"}, "http://127.0.0.1:8010", {}),
        ({}, "https://api.x", {}),
    ],
)
def test_the_usual_variables_name_the_proxy(
    set_variables: Callable[[dict[str, str]], None],
    variables: dict[str, str],
    url: str,
    expected: dict[str, str],
) -> None:
    set_variables(variables)
    assert environment.proxies(url) == expected


def test_the_usual_variables_name_the_proxy_of_notifications_and_exports(
    set_variables: Callable[[dict[str, str]], None],
) -> None:
    set_variables({"ALL_PROXY": "http://all", "NO_PROXY": ".example"})
    assert environment.https_proxy() == ("http://all", ".example")
    set_variables({"ALL_PROXY": "http://all", "https_proxy": "http://p:3128"})
    assert environment.https_proxy()[0] == "http://p:3128"


def test_requests_go_through_the_proxy(simulator: Simulator, settings: Settings) -> None:
    settings.MARKETPLACE_PROXIES = {"http": simulator.url}
    settings.MARKETPLACE_API_URL = ELSEWHERE
    verified = connecting.verify_details(details_of(simulator), fast_client)
    assert verified.app.product_id == simulator.vendor.app.product_id
    assert {request.headers["Host"] for request in simulator.requests} == {"marketplace.example"}


def test_a_deadline_holds_through_a_proxy(simulator: Simulator, settings: Settings) -> None:
    settings.MARKETPLACE_PROXIES = {"http": simulator.url}
    settings.MARKETPLACE_API_URL = ELSEWHERE
    simulator.add_faults(Trickle(seconds=0.1))
    impatient = replace(FAST_RETRY_POLICY, attempts=1, request_timeout=0.5)
    vendor = simulator.vendor
    patient = client.create_client(Credentials(vendor.user_name, vendor.token), impatient)
    with pytest.raises(MarketplaceUnavailable, match="its response takes too long"):
        patient.developer_id(vendor.vendor_id)


def test_credentials_of_netrc_are_never_sent(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    connecting.verify_details(details_of(simulator), fast_client)
    assert {request.status for request in simulator.requests} == {200}


# --- Certificates -----------------------------------------------------------------------------


def test_certificates_come_from_the_named_file(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = tmp_path / "authorities.pem"
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    with pytest.raises(ImproperlyConfigured, match="REQUESTS_CA_BUNDLE names a file that cannot"):
        environment.file_path("REQUESTS_CA_BUNDLE")
    bundle.touch()
    assert environment.file_path("REQUESTS_CA_BUNDLE") == str(bundle)
    assert client.new_session(ca_bundle=str(bundle)).verify == str(bundle)
    assert client.new_session().verify is True
