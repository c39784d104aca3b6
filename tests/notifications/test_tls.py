"""A receiver must have a valid certificate for its name, whatever address is connected to."""

import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pytest_django import Settings

from core.outbound import requests
from core.outbound.addresses import Resolver
from core.outbound.requests import OutboundRequest
from notifications.models import Delivery

NAME = "receiver.example"


def certificate(folder: Path) -> Path:
    """A self-signed certificate for NAME, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(
        now + timedelta(days=1)
    )
    names = x509.SubjectAlternativeName([x509.DNSName(NAME)])
    authority = x509.BasicConstraints(ca=True, path_length=None)
    signed = builder.add_extension(names, False).add_extension(authority, True)
    path = folder / "certificate.pem"
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(signed.sign(key, hashes.SHA256()).public_bytes(encoding) + secret)
    return path


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def port(tmp_path: Path, settings: Settings) -> Iterator[int]:
    """The port of a server on this machine with a certificate that nobody trusts."""
    settings.WEBHOOK_ALLOWED_NETWORKS = [ip_network("127.0.0.0/8")]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    server = HTTPServer(("127.0.0.1", 0), Handler)
    # A client that refuses the certificate is no error of the server.
    server.handle_error = lambda *arguments: None  # type: ignore[method-assign]
    server.socket = context.wrap_socket(server.socket, server_side=True)

    def serve() -> None:
        with suppress(OSError):
            server.serve_forever(poll_interval=0.02)

    thread = threading.Thread(target=serve)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_certificate_is_that_of_the_name_and_of_somebody_trusted(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def post(name: str) -> requests.Result:
        url = f"https://{name}:{port}/hook"
        return OutboundRequest(url, b"{}", {}, lambda host, port: ["127.0.0.1"]).run()

    untrusted = post(NAME)
    assert untrusted.outcome == Delivery.Outcome.UNREACHABLE
    assert "certificate is not valid" in untrusted.error
    trusting = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
    monkeypatch.setattr(requests, "_tls", lambda: trusting)
    assert post(NAME).outcome == Delivery.Outcome.DELIVERED
    assert "certificate is not valid" in post("other.example").error


class Proxy(socketserver.ThreadingTCPServer):
    """A proxy that keeps what it is asked for, and leads everybody to one local port."""

    def __init__(self, port: int) -> None:
        self.port, self.heads = port, list[bytes]()
        self.answer = b"HTTP/1.1 200 Connection established\r\n\r\n"
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.url = f"http://me:se%40cret@127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,)).start()


class Tunnel(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Proxy)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.request.recv(4096)
        self.server.heads.append(head)
        self.request.sendall(self.server.answer)
        if b" 200 " not in self.server.answer:
            return
        with socket.create_connection(("127.0.0.1", self.server.port)) as target:
            back = threading.Thread(target=pass_on, args=(target, self.request))
            back.start()
            pass_on(self.request, target)
            back.join()


def pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(4096):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def proxy(port: int) -> Iterator[Proxy]:
    with Proxy(port) as proxy:
        yield proxy
        proxy.shutdown()


def test_a_proxy_gets_the_checked_address_and_nothing_that_is_not_allowed(
    port: int, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    trusting = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
    monkeypatch.setattr(requests, "_tls", lambda: trusting)
    settings.OUTBOUND_PROXY, settings.OUTBOUND_NO_PROXY = proxy.url, "internal.example"

    def post(address: str, name: str = NAME) -> requests.Result:
        resolve: Resolver = lambda host, port: [address]  # noqa: E731
        return OutboundRequest(f"https://{name}/hook", b"{}", {}, resolve).run()

    assert post("93.184.216.34").outcome == Delivery.Outcome.DELIVERED
    assert proxy.heads == [
        b"CONNECT 93.184.216.34:443 HTTP/1.1\r\nHost: 93.184.216.34:443\r\n"
        b"Proxy-Authorization: Basic bWU6c2VAY3JldA==\r\n\r\n"
    ]
    # TLS still verifies the name of the receiver, not that of the proxy.
    assert "certificate is not valid" in post("93.184.216.34", "other.example").error
    proxy.heads.clear()
    for address in ("10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1"):
        assert post(address).outcome == Delivery.Outcome.FORBIDDEN
    # The operator's own networks are reached directly.
    url = f"https://{NAME}:{port}/hook"
    direct = OutboundRequest(url, b"{}", {}, lambda host, port: ["127.0.0.1"]).run()
    assert (direct.outcome, proxy.heads) == (Delivery.Outcome.DELIVERED, [])
    proxy.answer = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
    refused = post("93.184.216.34")
    assert (refused.outcome, refused.error) == (
        Delivery.Outcome.UNREACHABLE,
        "The proxy made no connection: it answered 407.",
    )
    settings.OUTBOUND_PROXY = "socks5://127.0.0.1:1"
    assert "must begin with http://" in post("93.184.216.34").error
