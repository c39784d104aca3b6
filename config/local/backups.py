"""Backups of the embedded PostgreSQL: base backups and a WAL archive in a folder.

``up`` runs pg_receivewal, which copies the WAL into the folder as it is written. A base backup and
the WAL after it restore the database to any moment since. The folder has one folder per database
cluster, because two clusters' WAL must never be mixed.
"""

import json
import re
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from django.core.management.base import CommandError

from config.local.postgres import EmbeddedPostgres, EmbeddedPostgresError
from core import durable_files
from core.version import VERSION

SLOT = "eds_backup"
SEGMENT_BYTES = 16 * 1024 * 1024
SEGMENT = re.compile(r"[0-9A-F]{24}(\.gz)?(\.partial)?")
HISTORY = re.compile(r"[0-9A-F]{8}\.history(\.gz)?")
NAME_FORMAT = "%Y%m%dT%H%M%SZ"
SUMMARY = "backup.json"
# A line of PostgreSQL's at the end of a recovery.
LAST_CHANGE = re.compile(r"last completed transaction was at log time (\S+ \S+)")
SECRETS = "secrets.json"
READ_SIZE = 1024 * 1024
PARTIAL_SECONDS = 24 * 3600
# pg_basebackup writes them itself.
NOT_IN_MANIFEST = {"backup_manifest"}


@dataclass(frozen=True)
class BaseBackup:
    """A complete base backup. Its folder appears under its name only once it is complete."""

    name: str
    cluster: str
    release: str
    postgres: int
    started: str
    finished: str
    first_segment: str
    bytes: int
    has_secrets: bool

    def folder(self, root: Path) -> Path:
        return root / self.cluster / "base" / self.name

    def needs_segment(self, name: str) -> bool:
        """Return whether a restore needs the WAL segment of that name.

        Timelines do not count, because a later timeline continues the numbers.
        """
        return name[8:24] >= self.first_segment[8:]


def list_backups(root: Path) -> list[BaseBackup]:
    """Return the complete base backups in the folder, the oldest first."""
    summaries = root.glob(f"*/base/*/{SUMMARY}")
    backups = (BaseBackup(**json.loads(path.read_text())) for path in summaries)
    return sorted(backups, key=lambda backup: backup.name)


# --- The archive of the WAL -----------------------------------------------------------------


def archive_command(postgres: EmbeddedPostgres, root: Path) -> list[str]:
    """Return the command that copies the WAL of the running server. Create its slot and folder."""
    with postgres.connect_as_superuser() as connection:
        cluster, timeline = _identity(connection)
        slots = connection.execute(
            "SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s", [SLOT]
        )
        slot = slots.fetchone()
        if slot and slot[0] in ("lost", None):
            # The archive was away for too long. What follows needs a new base backup.
            connection.execute("SELECT pg_drop_replication_slot(%s)", [SLOT])
            slot = None
        if not slot:
            connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", [SLOT])
    # A restored database begins a timeline of its own, and the WAL before it is not in its slot.
    folder = _wal_folder(root, cluster) / f"{timeline:08X}"
    _make_private(folder)
    return postgres.client_command(
        "pg_receivewal",
        *("--directory", str(folder), "--slot", SLOT),
        *("--compress", "gzip:1", "--synchronous"),
    )


def _wal_folder(root: Path, cluster: str) -> Path:
    return root / cluster / "wal"


def _identity(connection: Any) -> tuple[str, int]:
    """Return the cluster's identifier and its timeline."""
    cluster, timeline = connection.execute(
        "SELECT system_identifier::text, timeline_id FROM pg_control_system(), "
        "pg_control_checkpoint()"
    ).fetchone()
    return str(cluster), int(timeline)


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(
            f"the backup folder {folder} cannot be written ({error.strerror}); "
            "set EDS_BACKUP_FOLDER to a folder that can."
        ) from None


# --- Base backups ---------------------------------------------------------------------------


def take(postgres: EmbeddedPostgres, root: Path, now: datetime, secrets: Path | None) -> BaseBackup:
    """Write a base backup of the running server, verify it, and return it."""
    with postgres.connect_as_superuser() as connection:
        cluster, _ = _identity(connection)
        number = connection.info.server_version // 10_000
    name = now.astimezone(UTC).strftime(NAME_FORMAT)
    target = root / cluster / "base" / name
    partial = target.with_name(f".{name}.partial")
    _make_private(partial.parent)
    shutil.rmtree(partial, ignore_errors=True)
    command = postgres.client_command(
        "pg_basebackup",
        *("--pgdata", str(partial), "--format", "tar", "--gzip", "--checkpoint", "fast"),
        *("--wal-method", "stream", "--manifest-checksums", "SHA256"),
    )
    _run(command)
    if secrets is not None:
        durable_files.replace(partial / SECRETS, secrets.read_text())
    verify(partial)
    backup = BaseBackup(
        name=name,
        cluster=cluster,
        release=VERSION,
        postgres=number,
        started=now.isoformat(timespec="seconds"),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        first_segment=_first_segment(partial),
        bytes=sum(path.stat().st_size for path in partial.iterdir()),
        has_secrets=secrets is not None,
    )
    durable_files.replace(partial / SUMMARY, json.dumps(asdict(backup), indent=2))
    partial.rename(target)
    durable_files.sync_folder(target.parent)
    return backup


def verify(folder: Path) -> None:
    """Compare a base backup with its checksums. Raise CommandError if they differ.

    The wheel's pg_verifybackup crashes at once, so this does the same for our one format.
    """
    expected = {
        file["Path"]: (file["Size"], file["Checksum"]) for file in _manifest(folder)["Files"]
    }
    try:
        with tarfile.open(folder / "base.tar.gz") as archive:
            for member in archive:
                if member.isfile() and member.name not in NOT_IN_MANIFEST:
                    _verify_file(
                        archive.extractfile(member), member, expected.pop(member.name, None)
                    )
        with tarfile.open(folder / "pg_wal.tar.gz") as archive:
            for member in archive:
                _digest(archive.extractfile(member))
    except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error) as error:
        raise _damaged(folder, str(error)) from None
    if expected:
        raise _damaged(folder, f"{next(iter(expected))} is missing")


def _verify_file(
    file: IO[bytes] | None, member: tarfile.TarInfo, expected: tuple[int, str] | None
) -> None:
    if expected != (member.size, _digest(file)):
        raise ValueError(f"{member.name} differs from the manifest")


def _digest(file: IO[bytes] | None) -> str:
    digest = sha256()
    while file is not None and (data := file.read(READ_SIZE)):
        digest.update(data)
    return digest.hexdigest()


def _damaged(folder: Path, reason: str) -> CommandError:
    return CommandError(
        f"the base backup {folder.name} is damaged ({reason}); take another one, and check the "
        "disk."
    )


def _manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest. Its last line holds the checksum of all lines before it."""
    content = (folder / "backup_manifest").read_bytes()
    try:
        manifest: dict[str, Any] = json.loads(content)
        end = content.rindex(b'"Manifest-Checksum"')
        is_whole = sha256(content[:end]).hexdigest() == manifest["Manifest-Checksum"]
    except (ValueError, KeyError):
        is_whole = False
    if not is_whole:
        raise _damaged(folder, "the manifest is not whole")
    return manifest


def _first_segment(folder: Path) -> str:
    """Return the name of the first WAL segment that a restore needs."""
    first = _manifest(folder)["WAL-Ranges"][0]
    high, low = (int(part, 16) for part in first["Start-LSN"].split("/"))
    return f"{first['Timeline']:08X}{high:08X}{low // SEGMENT_BYTES:08X}"


def prune(root: Path, keep: int, now: datetime) -> list[BaseBackup]:
    """Delete all but the newest *keep* base backups of each cluster, and WAL before them."""
    removed_backups = []
    base_backups = list_backups(root)
    for cluster in {backup.cluster for backup in base_backups}:
        backups = [backup for backup in base_backups if backup.cluster == cluster]
        for backup in backups[:-keep]:
            shutil.rmtree(backup.folder(root))
            removed_backups.append(backup)
        for path in _segments(root, cluster):
            if not any(backup.needs_segment(path.name) for backup in backups[-keep:]):
                path.unlink()
    for path in root.glob("*/base/.*.partial"):
        # A backup that was killed.
        if path.stat().st_mtime < now.timestamp() - PARTIAL_SECONDS:
            shutil.rmtree(path)
    return removed_backups


def _segments(root: Path, cluster: str) -> Iterator[Path]:
    for path in sorted(_wal_folder(root, cluster).glob("*/*")):
        if SEGMENT.fullmatch(path.name):
            yield path


def _run(command: list[str]) -> None:
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"status {process.returncode}"]
        raise CommandError(
            f"{Path(command[0]).name} failed: {lines[-1].partition('error: ')[2] or lines[-1]}"
        )


# --- Restoring ------------------------------------------------------------------------------


def choose(root: Path, name: str | None, at: datetime | None) -> BaseBackup:
    """Return the base backup to restore: the named one, or the last before *at*."""
    backups = list_backups(root)
    if name is not None:
        backups = [backup for backup in backups if backup.name == name]
    if at is not None:
        backups = [b for b in backups if datetime.fromisoformat(b.finished) <= at]
    if not backups:
        raise CommandError(
            f"{root} has no complete base backup{f' named {name}' if name else ''}"
            f"{f' from before {at.isoformat()}' if at else ''}; `python manage.py backup --list` "
            "lists them."
        )
    return backups[-1]


def restore(
    postgres: EmbeddedPostgres, root: Path, backup: BaseBackup, at: datetime | None
) -> datetime | None:
    """Restore the backup into the server's folder, which must not exist, up to *at* or the end.

    Return the time of the last restored transaction, or None if there was none after the backup.
    """
    verify(backup.folder(root))
    postgres.claim_folder()
    for archive, into in (("base.tar.gz", postgres.folder), ("pg_wal.tar.gz", postgres.wal_folder)):
        into.mkdir(mode=0o700, exist_ok=True)
        shutil.unpack_archive(backup.folder(root) / archive, into, filter="data")
    for lock in postgres.folder.glob(".s.PGSQL.*.lock"):
        # The server's socket was in the folder.
        lock.unlink()
    segments = postgres.folder / "restored_wal"
    segments.mkdir(mode=0o700)
    _collect_wal(root, backup, segments)
    (postgres.folder / "recovery.signal").touch(mode=0o600)
    options = {
        "restore_command": f'cp "{segments}/%f" "%p"',
        "recovery_target_timeline": "latest",
    }
    if at is not None:
        options |= {"recovery_target_time": at.isoformat(), "recovery_target_action": "promote"}
    try:
        recovered = postgres.recover(options)
    except EmbeddedPostgresError as error:
        raise CommandError(_past_the_end(str(error)) if at else str(error)) from None
    shutil.rmtree(segments)
    return recovered


def _past_the_end(error: str) -> str:
    """The error of a recovery up to a moment, with the last one that is possible."""
    if "before configured recovery target" not in error:
        return error
    # PostgreSQL says it where it ends, and nothing if there was no change after the base backup.
    last = LAST_CHANGE.search(error)
    end = f" with a change of {last[1]}" if last else " with the base backup"
    return (
        f"the archive ends before that time,{end}; leave out --at to restore everything, or "
        "choose an earlier time."
    )


def _collect_wal(root: Path, backup: BaseBackup, target: Path) -> None:
    """Unpack the archived WAL that follows the backup. The last segment may be incomplete."""
    for path in _segments(root, backup.cluster):
        if not backup.needs_segment(path.name):
            continue
        segment = target / path.name[:24]
        # A complete copy of the segment takes precedence.
        if not path.name.endswith(".partial") or not segment.exists():
            segment.write_bytes(_unpacked(path))
    for path in _wal_folder(root, backup.cluster).glob("*/*"):
        if HISTORY.fullmatch(path.name):
            (target / path.name.removesuffix(".gz")).write_bytes(_unpacked(path, pad=False))


def _unpacked(path: Path, *, pad: bool = True) -> bytes:
    """Return the segment's content. PostgreSQL ends recovery where zeros follow."""
    content = path.read_bytes()
    if ".gz" in path.name:
        decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            content = decoder.decompress(content)
        except zlib.error as error:
            raise CommandError(f"the archived WAL {path} is damaged: {error}.") from None
    return content.ljust(SEGMENT_BYTES, b"\0") if pad else content
