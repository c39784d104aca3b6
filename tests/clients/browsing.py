"""Pages in headless Chromium, served from another origin than the service's."""

import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.clients.conftest import HERE

PAGE = '<!doctype html><meta charset="utf-8"><script type="module" src="{script}"></script>'
LEFT = "<!doctype html><title>Left</title>"


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Site:
    """An application's pages, bundled as a developer would bundle them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "left.html").write_text(LEFT)

    def add(self, program: Path) -> str:
        """Add a page that runs the program. Return its path."""
        bundle = ["node_modules/.bin/esbuild", str(program), "--bundle", "--format=esm"]
        bundle += ["--log-level=warning", f"--outfile={self._folder / program.stem}.js"]
        subprocess.run(bundle, cwd=HERE, check=True, timeout=60)
        page = self._folder / f"{program.stem}.html"
        page.write_text(PAGE.format(script=f"{program.stem}.js"))
        return f"/{page.name}"

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve the site. Yield its address."""
        handler = partial(QuietFiles, directory=str(self._folder))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            serving.join()


@contextmanager
def page_open(chromium: str, url: str, says: dict[str, Any]) -> Iterator[None]:
    """Keep the page open in a new browser, with its instructions in the fragment."""
    profile = tempfile.mkdtemp(prefix="eds-chromium-")
    command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-dev-shm-usage"]
    command += ["--remote-debugging-port=0", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        [*command, f"{url}#{quote(json.dumps(says))}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(profile, ignore_errors=True)
