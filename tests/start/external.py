"""A PostgreSQL that the service does not run itself, as behind a DATABASE_URL."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from config.local.postgres import DATABASE, ROLE, EmbeddedPostgres, stop_process
from harness.ports import free_prefix
from tests.database import FAST, copy_migrated_cluster


class External:
    """One migrated cluster, which listens on an address while it runs."""

    def __init__(self, folder: Path, host: str, lets_in: str) -> None:
        self.url = f"postgresql://{ROLE}@{host}/{DATABASE}"
        self._log = folder / "postgres.log"
        self._server = EmbeddedPostgres(folder / "postgres", {**FAST, "listen_addresses": host})
        copy_migrated_cluster(self._server.folder)
        self._server.initialise()
        with (folder / "postgres" / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {lets_in} trust\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = self._server.start_with_log(self._log)

    def stop(self) -> None:
        if self._process is not None:
            stop_process(self._process, signal.SIGINT, timeout=30)


@contextmanager
def external(host: str = "", lets_in: str = "127.0.0.0/8") -> Iterator[External]:
    """A cluster that runs, in a folder that goes with the block.

    It listens on *host*, by default on any address of the loopback, and lets in whoever asks from
    one of *lets_in*.
    """
    # Not tmp_path: PostgreSQL's own user must be able to reach it, and its path stays short.
    folder = Path(tempfile.mkdtemp(prefix="eds-external-"))
    folder.chmod(0o711)
    host = host or f"{free_prefix()}.2"
    server = External(folder, host, lets_in)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
