"""Pages in one headless Chromium, each from an origin of its own and another than the service's."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen
from uuid import uuid4

from harness.threads import serving
from tests.start.running import until

HERE = Path(__file__).parent
MODULE = '<script type="module" src="{script}"></script>'
PAGE = '<!doctype html><meta charset="utf-8">'
LEFT = "<!doctype html><title>Left</title>"
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    " --disable-dev-shm-usage --remote-debugging-port=0 --disable-renderer-backgrounding"
    # Pages share the browser, and only one is in the foreground.
    " --disable-background-timer-throttling --disable-backgrounding-occluded-windows"
)


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Site:
    """An application's pages, bundled as a developer would bundle them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "left.html").write_text(LEFT)

    def add(self, *programs: Path) -> list[str]:
        """Add pages that each run a program. Return their paths."""
        bundle = ["node_modules/.bin/esbuild", *map(str, programs), "--bundle", "--format=esm"]
        bundle += ["--log-level=warning", f"--outdir={self.folder}"]
        subprocess.run(bundle, cwd=HERE, check=True, timeout=60)
        return [
            self.add_page(program.stem, MODULE.format(script=f"{program.stem}.js"))
            for program in programs
        ]

    def add_page(self, name: str, content: str) -> str:
        """Add a page. Return its path."""
        (self.folder / f"{name}.html").write_text(PAGE + content)
        return f"/{name}.html"

    @contextmanager
    def served(self) -> Iterator[int]:
        """Serve the site. Yield its port."""
        handler = partial(QuietFiles, directory=str(self.folder))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        with serving(server):
            yield server.server_port


class Browser:
    """Chromium, which opens pages when its debugging port is told to."""

    def __init__(self, chromium: str) -> None:
        self._profile = Path(tempfile.mkdtemp(prefix="eds-chromium-"))
        self._process = subprocess.Popen(
            [chromium, *FLAGS.split(), f"--user-data-dir={self._profile}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        port_file = self._profile / "DevToolsActivePort"

        def port() -> str:
            return port_file.read_text().partition("\n")[0] if port_file.exists() else ""

        self._port = until(port, "Chromium to listen")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        shutil.rmtree(self._profile, ignore_errors=True)

    @contextmanager
    def page_open(self, port: int, path: str, says: dict[str, Any]) -> Iterator[None]:
        """Keep a page of the site open, with its instructions in the fragment.

        Its host name is new, so that it shares no storage with the pages before it.
        """
        url = f"http://{uuid4().hex}.localhost:{port}{path}#{quote(json.dumps(says))}"
        page = json.loads(self._ask("PUT", f"/json/new?{quote(url, safe='')}"))
        try:
            yield
        finally:
            self._ask("GET", f"/json/close/{page['id']}")

    def _ask(self, method: str, path: str) -> bytes:
        request = Request(f"http://127.0.0.1:{self._port}{path}", method=method)
        with urlopen(request, timeout=30) as response:
            answer: bytes = response.read()
        return answer
