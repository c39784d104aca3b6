"""The TLS proxies of docs/sending-data.md, with the configuration that it shows."""

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings

from config.local.postgres import stop_process
from ingestion.doors.bodies import MAX_BATCH_BODY_BYTES
from tests.clients.conftest import need
from tests.clients.recordings import segment
from tests.clients.recordings.story import Request, basic
from tests.clients.replaying import Replayer
from tests.clients.service import Service
from tests.start.running import free_port, listens, until

DOCUMENT = Path(settings.BASE_DIR) / "docs" / "sending-data.md"
# Debian keeps nginx where only root looks for programs.
PATH = f"{os.environ['PATH']}:/usr/sbin"
PROXIES = {"caddy": "caddyfile", "nginx": "nginx"}
# They hard-code HTTPS, and ask for the address.
APPS = [recording for recording in segment.RECORDINGS if recording.settings_path]

# Without HTTP/3, which needs the port for datagrams: our claim of the port has it.
CADDY = (
    "{{\n admin off\n auto_https disable_redirects\n servers {{\n  protocols h1 h2\n }}\n}}\n{site}"
)
NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {site}
}}
"""


@pytest.fixture(scope="module")
def upstream(service: Service) -> Iterator[int]:
    """The port of the service behind the proxies."""
    with service.behind_a_proxy("localhost") as port:
        yield port


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost, signed by itself, beside its key."""
    need(shutil.which("openssl"), "openssl")
    folder = tmp_path_factory.mktemp("certificate")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return folder / "certificate.pem"


def documented_block(language: str) -> str:
    block = re.search(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    assert block
    return block[1]


@contextmanager
def proxy_running(name: str, folder: Path, certificate: Path, upstream: int) -> Iterator[str]:
    """Run the proxy with its documented configuration. Yield its host and port."""
    port = free_port()
    key = certificate.with_name("key.pem")
    site = documented_block(PROXIES[name]).replace("127.0.0.1:8000", f"127.0.0.1:{upstream}")
    if name == "caddy":
        own = f"https://localhost:{port} {{\n tls {certificate} {key}"
        site = CADDY.format(site=site.replace("eds.example.com {", own))
        command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "conf")]
    else:
        site = site.replace("/etc/ssl/eds.example.com.pem", str(certificate))
        site = site.replace("/etc/ssl/eds.example.com.key", str(key))
        site = site.replace("eds.example.com", "localhost").replace("443", f"127.0.0.1:{port}")
        site = NGINX.format(folder=folder, site=site)
        command = ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(folder / "conf")]
    (folder / "conf").write_text(site)
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **home, "PATH": PATH},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            until(lambda: listens(port) or process.poll() is not None, "the proxy")
            assert process.poll() is None, (folder / "output").read_text()
            yield f"localhost:{port}"
        finally:
            stop_process(process, signal.SIGTERM, timeout=10)


@pytest.mark.parametrize("name", PROXIES)
def test_apps_send_through_a_tls_proxy(
    name: str, service: Service, upstream: int, certificate: Path, tmp_path: Path
) -> None:
    need(shutil.which(name, path=PATH), name)
    context = ssl.create_default_context(cafile=str(certificate))
    with proxy_running(name, tmp_path, certificate, upstream) as proxy:
        prefix = f"{uuid4().hex[:8]}-"
        with closing(Replayer(service, proxy, context)) as replayer:
            path = f"/segment/v1/projects/{service.key}/settings"
            answer = json.loads(replayer.send(Request(path, {}, b"", "GET")))
            address = answer["integrations"]["Segment.io"]
            assert (address["apiHost"], address["protocol"]) == (f"{proxy}/segment/v1", "https")
            for number, recording in enumerate(APPS):
                ids = (f"{prefix}ada-{number}", f"{prefix}initech-{number}")
                assert replayer.replay(recording, *ids) == ""
            # As large as a batch may be.
            body = b'{"batch": []}'.ljust(MAX_BATCH_BODY_BYTES)
            replayer.send(Request("/v1/batch", {"Authorization": basic(service.key)}, body))
    once = {"Report exported": 1, "Viewed Home Screen": 1}
    for number in range(len(APPS)):
        service.read_counted("user", f"{prefix}ada-{number}", once)
        service.read_counted("account", f"{prefix}initech-{number}", once)
