"""A real streaming replica of a PostgreSQL that runs here, created as docs/operating.md says."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from config.local.postgres import EmbeddedPostgres, stop_process

SLOT = "read_replica"
STOP_TIMEOUT = 15.0


class Standby:
    """A copy of the cluster in a folder of its own, which follows it through a slot."""

    def __init__(
        self, primary: EmbeddedPostgres, folder: Path, options: dict[str, str] | None = None
    ) -> None:
        self.server = EmbeddedPostgres(folder, options)
        self._primary = primary
        self._process: subprocess.Popen[bytes] | None = None

    def copy(self) -> None:
        """Make the replica's files, and the slot at the primary. The primary serves meanwhile."""
        owner = self._primary.folder.stat()
        folder = self.server.folder
        folder.mkdir(mode=0o700)
        identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            # PostgreSQL runs as a user of its own where we are root, and so do its programs.
            os.chown(folder, owner.st_uid, owner.st_gid)
            identity = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        command = self._primary.client_command("pg_basebackup", "--pgdata", str(folder))
        command += ["--checkpoint", "fast"]
        # The address of the primary goes into the replica's files.
        command += ["--write-recovery-conf", "--create-slot", "--slot", SLOT, "--no-sync"]
        subprocess.run(command, cwd="/", check=True, capture_output=True, **identity)
        # The primary's socket is in its folder, and so is what says that it is taken.
        for lock in folder.glob(".s.PGSQL.*.lock"):
            lock.unlink()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Return once it takes connections; it may run already."""
        if self._process is not None and self._process.poll() is None:
            return
        folder = self.server.folder
        self._process = self.server.start_with_log(folder.with_name(f"{folder.name}.log"))

    def stop(self) -> None:
        if self._process is not None:
            stop_process(self._process, signal.SIGINT, timeout=STOP_TIMEOUT)
        self._process = None
