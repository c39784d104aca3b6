"""A receiver must have a valid certificate for its name, whatever address is connected to."""

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

from notifications.delivery import requests
from notifications.delivery.requests import PostRequest
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
        return PostRequest(url, b"{}", {}, lambda host, port: ["127.0.0.1"]).run()

    untrusted = post(NAME)
    assert untrusted.outcome == Delivery.Outcome.UNREACHABLE
    assert "certificate is not valid" in untrusted.error
    trusting = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
    monkeypatch.setattr(requests, "_tls", lambda: trusting)
    assert post(NAME).outcome == Delivery.Outcome.DELIVERED
    assert "certificate is not valid" in post("other.example").error
