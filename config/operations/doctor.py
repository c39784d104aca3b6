"""What ``python manage.py doctor`` examines. Its sentences name no secret."""

import shutil
import smtplib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import django
from django.conf import settings
from django.contrib.staticfiles import finders
from django.core import mail
from django.core.management.base import CommandError
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from config import sign_in
from config.celery import app
from config.database import broker, role_rights
from config.local import backups
from config.operations import health
from config.setup import preflight
from core import encryption
from core.database import distribution, nodes
from core.models import Job
from core.version import VERSION
from engagement.activity.product import silent_senders
from engagement.models import Product
from ingestion.models import InboxMessage, QuarantinedMessage

# Bytes.
GIBIBYTE = 1024**3
MIN_FREE, LOW_FREE = GIBIBYTE // 4, 2 * GIBIBYTE
MAX_SKEW, NOTICEABLE_SKEW = timedelta(seconds=60), timedelta(seconds=5)
# One file of each place that static files come from.
STATIC_FILES = ("config/admin.css", "admin/css/base.css", "drf_spectacular_sidecar/redoc/bundles")
# Packages whose version decides what the service does.
PACKAGES = ("Django", "djangorestframework", "celery", "kombu", "psycopg", "gunicorn", "gevent")
MAX_BACKUP_AGE = timedelta(days=2)
# It grows with each restore.
TIMELINE = "SELECT timeline_id FROM pg_control_checkpoint()"
ARCHIVE_IS_ACTIVE = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active"
GRANT_RIGHTS = (
    "Connect as the owner of the tables, or grant the role SELECT, INSERT, UPDATE, and DELETE on "
    "all of them."
)
# A job is tried again by itself. What fails once, such as after a lost connection, needs nobody.
MANY_FAILURES = 3
# A sentence names as many jobs.
MAX_NAMED = 5
LOCAL_HOSTS = {"localhost", "127.0.0.1", "[::1]"}
# Seconds.
BROKER_TIMEOUT, MAIL_TIMEOUT = 3, 5

Clock = Callable[[], datetime]


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """What a check says: one sentence, and for a warning or a problem what to do."""

    check: str
    status: Status
    sentence: str
    remedy: str = ""


def examine(now: Clock) -> Iterator[Finding]:
    """Yield the findings of all checks. What needs a missing database is left out."""
    yield check_settings()
    yield check_versions(Path(settings.BASE_DIR))
    yield check_disk(settings.DATA_DIR)
    yield check_static_files()
    yield check_mail()
    database = check_database()
    yield database
    if database.status is Status.PROBLEM:
        return
    yield _guarded("rights", check_rights)
    migrations = _guarded("migrations", check_migrations)
    yield migrations
    yield _guarded("clock", lambda: check_clock(now))
    yield check_broker()
    yield _guarded("backups", lambda: check_backups(now()))
    # Without its tables, all else says the same again.
    if migrations.status is Status.PROBLEM and migrations.remedy != GRANT_RIGHTS:
        return
    if distribution.is_distributed():
        yield _guarded("nodes", check_nodes)
    yield _guarded("keys", check_keys)
    yield _guarded("inbox", check_inbox)
    yield _guarded("jobs", check_jobs)
    yield _guarded("senders", lambda: check_senders(now()))
    yield from check_roles()


def _guarded(check: str, examine: Callable[[], Finding]) -> Finding:
    """What the check finds, or why it could not look: the checks that follow it still do."""
    try:
        return examine()
    except Error as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        return _problem(check, f"This could not be examined: {reason}.", GRANT_RIGHTS)


def _ok(check: str, sentence: str) -> Finding:
    return Finding(check, Status.OK, sentence)


def _warning(check: str, sentence: str, remedy: str) -> Finding:
    return Finding(check, Status.WARNING, sentence, remedy)


def _problem(check: str, sentence: str, remedy: str) -> Finding:
    return Finding(check, Status.PROBLEM, sentence, remedy)


# --- This machine ---------------------------------------------------------------------------


def check_settings() -> Finding:
    is_public = not set(settings.ALLOWED_HOSTS) <= LOCAL_HOSTS
    if settings.DEBUG:
        return _problem(
            "settings", "EDS_DEBUG is on: error pages show how the service works.", "Unset it."
        )
    if is_public and not settings.HTTPS:
        return _warning(
            "settings",
            "EDS_ALLOWED_HOSTS names other hosts, but EDS_HTTPS is off: passwords and keys may "
            "travel unencrypted.",
            "Put a proxy with HTTPS in front, and set EDS_HTTPS=true.",
        )
    if settings.RETIRED_SETTINGS:
        sentence, _, remedy = sign_in.retired_text(settings.RETIRED_SETTINGS).partition(". ")
        return _warning("settings", f"{sentence}.", remedy)
    return _ok("settings", "The settings are valid.")


def check_versions(project: Path) -> Finding:
    pinned = _pinned_versions(project)
    others = [
        f"{name} is {_installed(name)} instead of {pinned[name.lower()]}"
        for name in PACKAGES
        if _installed(name) != pinned.get(name.lower())
    ]
    if others:
        return _warning(
            "versions",
            f"This release was tested with other packages: {', '.join(others)}.",
            "Run `pip install -r requirements.txt`.",
        )
    return _ok("versions", f"This is release {VERSION}, with Django {django.get_version()}.")


def _pinned_versions(project: Path) -> dict[str, str]:
    lines = (project / "requirements.txt").read_text().splitlines()
    pins = (line.partition("==") for line in lines if "==" in line)
    return {name.partition("[")[0].lower(): pin.strip() for name, _, pin in pins}


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def check_disk(folder: Path) -> Finding:
    """Check the disk of the data folder, which holds the embedded database."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    sentence = f"{free / GIBIBYTE:,.1f} GiB are free for {folder}."
    if settings.EMBEDDED_POSTGRES is None:
        return _ok("disk", f"{sentence} The database's own disk cannot be seen from here.")
    if free < MIN_FREE:
        return _problem(
            "disk",
            sentence,
            "Free space now: on a full disk, new messages get 503 and nothing is recorded.",
        )
    if free < LOW_FREE:
        return _warning("disk", sentence, "Free space, or move EDS_DATA_DIR to a larger disk.")
    return _ok("disk", sentence)


def check_static_files() -> Finding:
    missing = [name for name in STATIC_FILES if finders.find(name) is None]
    if missing:
        return _problem(
            "static files",
            f"Files of the admin's pages are missing: {', '.join(missing)}.",
            "Install the release and its packages again.",
        )
    return _ok("static files", "The files of the admin's pages are there.")


def check_mail() -> Finding:
    if not settings.HAS_EMAIL:
        return _ok("mail", "No mail server is set (EDS_EMAIL_URL), so no email is sent.")
    server = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    try:
        with mail.get_connection(timeout=MAIL_TIMEOUT):
            return _ok("mail", f"The mail server {server} accepts connections.")
    except smtplib.SMTPAuthenticationError:
        return _problem(
            "mail",
            f"The mail server {server} rejects the user name or the password.",
            "Correct EDS_EMAIL_URL.",
        )
    except (OSError, smtplib.SMTPException) as error:
        return _problem(
            "mail",
            f"The mail server {server} cannot be used ({type(error).__name__}).",
            "Check EDS_EMAIL_URL, the network, and the firewall.",
        )


# --- The database and the queue -------------------------------------------------------------


def check_database() -> Finding:
    postgres = settings.EMBEDDED_POSTGRES
    if postgres is not None and postgres.pid() is None:
        return _problem(
            "database",
            "The embedded PostgreSQL is not running.",
            "Start the service with `python manage.py up`, and run doctor beside it.",
        )
    started = time.monotonic()
    try:
        preflight.check_database()
    except CommandError as error:
        return _problem(
            "database",
            _sentence(str(error).rpartition(";")[0]),
            "Check DATABASE_URL, PostgreSQL, and the network.",
        )
    number = connection.pg_version // 10_000  # type: ignore[attr-defined]
    milliseconds = 1000 * (time.monotonic() - started)
    return _ok("database", f"PostgreSQL {number} answered after {milliseconds:.0f} ms.")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def check_rights() -> Finding:
    """Check that the role may use all tables that exist."""
    if lacking := role_rights.describe(role_rights.tables_without_rights()):
        return _problem("rights", lacking, GRANT_RIGHTS)
    return _ok("rights", "The database role may read and write all tables.")


def check_migrations() -> Finding:
    executor = MigrationExecutor(connection)
    loader = executor.loader
    if executor.migration_plan(loader.graph.leaf_nodes()):
        return _problem(
            "migrations",
            "The database's tables are those of an older release.",
            "Run `python manage.py migrate`.",
        )
    newer = set(loader.applied_migrations) - set(loader.disk_migrations)
    apps = {label for label, _ in loader.disk_migrations}
    if any(label in apps for label, _ in newer):
        return _warning(
            "migrations",
            "The database's tables are those of a newer release than this one.",
            "Finish the upgrade on this machine. Old code works meanwhile.",
        )
    return _ok("migrations", "The database's tables are those of this release.")


def check_clock(now: Clock) -> Finding:
    with connection.cursor() as cursor:
        before = now()
        cursor.execute("SELECT clock_timestamp()")
        (theirs,) = cursor.fetchone()
    skew = max(before - theirs, theirs - now())
    if skew <= NOTICEABLE_SKEW:
        return _ok("clock", "This machine's clock agrees with the database's.")
    direction = "ahead of" if before > theirs else "behind"
    sentence = (
        f"This machine's clock is {skew.total_seconds():,.0f} seconds {direction} the database's."
    )
    remedy = "Synchronize both clocks (NTP): scores and schedules follow them."
    return (_problem if skew > MAX_SKEW else _warning)("clock", sentence, remedy)


def check_broker() -> Finding:
    is_own = settings.CELERY_BROKER_URL == broker.URL
    name = "The queue in the database" if is_own else "The broker (CELERY_BROKER_URL)"
    try:
        with app.connection_for_write() as queue:
            queue.ensure_connection(max_retries=1, timeout=BROKER_TIMEOUT)
    except Exception as error:
        # Each transport has errors of its own. Their texts may hold the address.
        return _problem(
            "queue",
            f"{name} cannot be used ({type(error).__name__}).",
            "Run `python manage.py migrate`." if is_own else "Start it, or correct the variable.",
        )
    return _ok("queue", f"{name} accepts messages.")


def check_backups(now: datetime) -> Finding:
    """Check the backups of the embedded database."""
    if settings.EMBEDDED_POSTGRES is None:
        return _ok("backups", "The database's own backups cannot be seen from here.")
    if not settings.BACKUP_FOLDER:
        return _warning(
            "backups", "The database is not backed up.", "Set EDS_BACKUP_FOLDER, and restart."
        )
    with connection.cursor() as cursor:
        cursor.execute(ARCHIVE_IS_ACTIVE, [backups.SLOT])
        is_archived = cursor.fetchone() is not None
        cursor.execute(TIMELINE)
        (timeline,) = cursor.fetchone()
    if not is_archived:
        return _problem(
            "backups",
            "The WAL is not copied to EDS_BACKUP_FOLDER.",
            "Look for lines of `archive` in the log of `up`.",
        )
    base_backups = backups.list_backups(Path(settings.BACKUP_FOLDER))
    if not base_backups or datetime.fromisoformat(base_backups[-1].finished) < now - MAX_BACKUP_AGE:
        return _warning(
            "backups",
            f"The last base backup is {base_backups[-1].name if base_backups else 'missing'}.",
            "Run `python manage.py backup` each night.",
        )
    if int(base_backups[-1].first_segment[:8], 16) < timeline:
        return _warning(
            "backups",
            f"The database was restored after its last base backup, {base_backups[-1].name}.",
            "Run `python manage.py backup` now.",
        )
    return _ok(
        "backups", f"The last base backup is {base_backups[-1].name}, and the WAL is copied."
    )


# --- What the service does ------------------------------------------------------------------


def check_keys() -> Finding:
    unreadable = encryption.count_unreadable()
    if unreadable:
        return _problem(
            "keys",
            f"{sum(unreadable.values()):,} stored secrets cannot be decrypted.",
            "Add the key that encrypted them to EDS_ENCRYPTION_KEYS again.",
        )
    return _ok("keys", "All stored secrets can be decrypted.")


def check_nodes() -> Finding:
    """Check that the nodes of a cluster can be reached."""
    missing = nodes.missing_nodes()
    names = Product.objects.in_bulk([pk for pks in missing.values() for pk in pks])
    if missing:
        return _problem(
            "nodes",
            nodes.describe({node: [names[pk] for pk in pks] for node, pks in missing.items()}),
            "Start its PostgreSQL, or repair the network. Until then its products' messages wait "
            "in the inbox, in order; all others are recorded.",
        )
    return _ok("nodes", "All nodes of the cluster can be reached.")


def check_inbox() -> Finding:
    waiting = InboxMessage.objects.count()
    quarantined = QuarantinedMessage.objects.count()
    if waiting > settings.INBOX_LIMIT // 2:
        return _problem(
            "inbox",
            f"{waiting:,} messages wait to be recorded, and at {settings.INBOX_LIMIT:,} senders "
            "get 503.",
            "Start more workers, and look at their logs.",
        )
    if quarantined:
        return _warning(
            "inbox",
            f"{quarantined:,} messages are in quarantine, because they could not be recorded.",
            "Look at Quarantine in the admin, and retry them after the repair.",
        )
    return _ok("inbox", f"{waiting:,} messages wait to be recorded.")


def check_jobs() -> Finding:
    """Check that no background job fails or is paused."""
    failing = list(Job.objects.filter(failures__gte=MANY_FAILURES).order_by("-failures", "pk"))
    if failing:
        names = ", ".join(f"{job} ({job.failures:,} times in a row)" for job in failing[:MAX_NAMED])
        more = f", and {len(failing) - MAX_NAMED} more" if len(failing) > MAX_NAMED else ""
        return _problem(
            "jobs",
            f"These background jobs fail: {names}{more}.",
            "Background jobs in the admin says why, and runs one at once after the repair.",
        )
    if paused := Job.objects.filter(is_paused=True).order_by("kind", "key"):
        return _warning(
            "jobs",
            f"These background jobs are paused: {', '.join(map(str, paused[:MAX_NAMED]))}.",
            "Resume them under Background jobs in the admin. What they do waits until then.",
        )
    return _ok("jobs", "No background job fails.")


def check_senders(now: datetime) -> Finding:
    """Check that each product that was active had active users on its last complete day."""
    silent = silent_senders(now)
    if silent:
        named = " ".join(f"{each.product}: {each.sentence}" for each in silent[:MAX_NAMED])
        more = f" And {len(silent) - MAX_NAMED} more." if len(silent) > MAX_NAMED else ""
        return _warning(
            "senders",
            f"{named}{more}",
            "Look at the ingestion log of the product, and ask its team what sends.",
        )
    return _ok("senders", "No sender is silent.")


def check_roles() -> Iterator[Finding]:
    """Check when the other roles last worked, on any machine."""
    try:
        results = health.check_roles(health.database_time())
    except Error as error:
        yield _problem("roles", f"The database failed ({type(error).__name__}).", "See its log.")
        return
    names = {"drain": "worker", "scoring": "scoring", "beat": "beat"}
    for check, result in results.items():
        if result == "ok":
            yield _ok(names[check], "It worked within the last minutes.")
        else:
            sentence, _, remedy = result.partition(". ")
            yield _problem(names[check], f"{sentence}.", remedy)
