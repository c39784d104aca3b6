"""An upgrade: an older release runs, the new one migrates beneath it, runs beside it and takes
over, while clients post and read, and every message is accounted for. Before that, a product with
alarms lives some days with each release: its alarms stay, its nights go on, and nobody is told of
an alarm twice.

Both releases run in this Python environment, so the older one runs with today's packages.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

from harness import accounting, cluster
from harness.command import run_command
from harness.http import Reader
from harness.posting import Posted, posting
from harness.processes import PROJECT, Failed, stop
from harness.report import Report, Result, Table, progress
from harness.service import Service, any_address, temporary_service

# Seconds. The first releases lack dozens of migrations, and clients keep the machine busy.
MIGRATED_WITHIN = 600.0
# A day of the product with alarms; the first one decides months.
LIVED_WITHIN = 300.0
DAY = timedelta(days=1)


class Release:
    """One release of the service, with a process for each role."""

    def __init__(self, name: str, service: Service, project: Path) -> None:
        self.address = any_address()
        self._name = name
        self._service = service
        self._project = project
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def migrate(self) -> list[str]:
        """Bring the tables up to date for this release; the migrations that were applied."""
        self._service.project = self._project
        output = self._service.run("manage.py", "migrate", "--no-color", timeout=MIGRATED_WITHIN)
        return re.findall(r"Applying (\S+?)\.\.\. OK", output)

    def start(self) -> None:
        service = self._service
        service.project = self._project
        # In the order in which they end, which is that of docs/operating.md.
        self._processes["worker"] = service.start_worker(f"{self._name} worker")
        self._processes["beat"] = service.start_beat(f"{self._name} beat")
        self._processes["web"] = service.serve(f"{self._name} web", self.address)
        service.wait_until_ready(self.address)

    def stop(self) -> None:
        for process in self._processes.values():
            stop(process)
        self._processes.clear()

    def check(self) -> None:
        """Raise Failed if a role ended by itself."""
        for role, process in self._processes.items():
            if process.poll() is not None:
                last_lines = self._service.last_lines(f"{self._name} {role}")
                raise Failed(f"The {self._name} {role} ended by itself:\n{last_lines}")


class Upgrade:
    """An old release that is replaced by a new one while clients post to both and read."""

    def __init__(self, old: Release, new: Release, product: dict[str, Any], seed: int) -> None:
        self.posted = Posted()
        path = f"/v2/accounts?workspace_id={product['workspace_id']}"
        self.reader = Reader(path, product["api_token"], old.address)
        self.applied: list[str] = []
        self._old, self._new = old, new
        self._key = product["ingestion_key"]
        self._seed = seed
        self._clients = ExitStack()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Clients post and read as long as the block runs, first from the old release alone."""
        with self.reader.reading(), self._clients:
            # They continue with the new release when their connections break.
            self._post_to(self._old, self._new)
            yield

    def migrate(self) -> None:
        self.applied = self._new.migrate()

    def start_new(self) -> None:
        self._new.start()
        self.reader.addresses.append(self._new.address)
        self._post_to(self._new)

    def stop_old(self) -> None:
        self._old.check()
        with self.reader.lock:
            self.reader.addresses.remove(self._old.address)
        self._old.stop()

    def _post_to(self, *releases: Release) -> None:
        addresses = [release.address for release in releases]
        self._seed += 1000
        self._clients.enter_context(posting([addresses], self._key, self._seed, self.posted))


# What happens one after the other, each followed by an equal share of the time.
PHASES: tuple[tuple[str, Callable[[Upgrade], None]], ...] = (
    ("old alone", lambda upgrade: None),
    ("tables migrated beneath the old", Upgrade.migrate),
    ("new beside the old", Upgrade.start_new),
    ("old ended", Upgrade.stop_old),
)


# The commit of each release of the changelog.
RELEASES = {
    "0.1.0": "f5c7be4",
    "0.2.0": "bb60b73",
    "0.3.0": "65df5e5",
    "0.4.0": "87dfc71",
    "0.5.0": "777658f",
}

# What a worker of these releases logs about a task that only the new one has. The task is a wake-up
# and comes again.
UNKNOWN_TASK = r"Received unregistered task of type .*?KeyError: '[a-z.]+'"

# --- The two releases -------------------------------------------------------------------------


def before_last_migration() -> str:
    """The commit before the last one that added a migration."""
    # Merges join migrations of two branches, and then there is no single one before.
    added = ("--no-merges", "--diff-filter=A", "--format=%h^")
    return git("log", "-1", *added, "--", "*/migrations/0*.py").strip()


@contextmanager
def exported(commit: str) -> Iterator[Path]:
    """The project as it was at the commit, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="eds-release-") as name:
        archive = Path(name, "release.tar")
        git("archive", "--output", str(archive), commit)
        shutil.unpack_archive(archive, name, filter="data")
        yield Path(name)


def git(*arguments: str) -> str:
    process = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True)
    if process.returncode:
        raise Failed(f"git knows no older release to start from: {process.stderr.strip()}")
    return process.stdout


# --- Alarms -----------------------------------------------------------------------------------

_ALARMS: LiteralString = """
    SELECT account_id, signal, level, since, window_days, observed, expected, p
    FROM engagement_alarm WHERE product_id = %s AND level >= 0
"""
_NIGHTS: LiteralString = """
    SELECT n.day FROM engagement_alarmnight n
    JOIN engagement_workspace w ON w.id = n.workspace_id
    WHERE w.product_id = %s AND n.decided_at IS NOT NULL ORDER BY n.day
"""
_SENT: LiteralString = """
    SELECT subscription_id, subject_id FROM notifications_outboxmessage WHERE product_id = %s
"""
# Days that the old release lives, one on its own tables fewer, and the new one.
OLD_DAYS, NEW_DAYS = 4, 2


class LivedAlarms:
    """A product with alarms (``proofs.alarm_days``), in a service that is upgraded."""

    def __init__(self, service: Service, today: date) -> None:
        self.product = service.create_product("Alarms")["product_id"]
        self._service, self._database = service, service.connect()
        self.days = [today - DAY * ago for ago in range(OLD_DAYS + NEW_DAYS, 0, -1)]

    def step(self, name: str, *days: date) -> None:
        text = PROJECT.joinpath("proofs", "alarm_days.py").read_text()
        arguments = (str(self.product), *map(str, days))
        self._service.run("-c", text, name, *arguments, timeout=LIVED_WITHIN)

    def live(self, day: date) -> None:
        progress(f"{day}.")
        self.step("live", day, self.days[0])

    def stored(self) -> set[tuple[Any, ...]]:
        return set(self._rows(_ALARMS)) if self._has("engagement_alarm") else set()

    def nights(self) -> list[date]:
        return [day for (day,) in self._rows(_NIGHTS)]

    def notifications(self) -> Counter[tuple[Any, ...]]:
        return Counter(self._rows(_SENT))

    def _has(self, table: str) -> bool:
        row = self._database.execute("SELECT to_regclass(%s) IS NOT NULL", [table]).fetchone()
        return bool(row and row[0])

    def _rows(self, statement: LiteralString) -> list[tuple[Any, ...]]:
        return self._database.execute(statement, [self.product]).fetchall()


def alarms(service: Service, newer: Path) -> Report:
    """Live some days with the old release, of which the last is on the tables of the new one, and
    then some with the new one."""
    lived = LivedAlarms(service, datetime.now(UTC).date())
    old_days, new_days = lived.days[:OLD_DAYS], lived.days[OLD_DAYS:]
    lived.step("begin", lived.days[0])
    for day in old_days[:-1]:
        lived.live(day)
    before, messages_before = lived.stored(), lived.notifications()
    older, service.project = service.project, newer
    service.run("manage.py", "migrate", "--verbosity", "0", timeout=MIGRATED_WITHIN)
    service.project = older
    lived.live(old_days[-1])
    service.project = newer
    # Of the last one twice, as a worker that begins again.
    for day in (*new_days, new_days[-1]):
        lived.live(day)
    after, messages, nights = lived.stored(), lived.notifications(), lived.nights()
    yield Result("alarms before the upgrade", len(before))
    yield Result("alarms that it lost or changed", len(before - after), must_be=0)
    new = {row for row in after if row[3] in new_days}
    yield Result("alarms that began after it", len(new), at_least=1)
    missing = (nights[-1] - nights[0]).days + 1 - len(nights) if nights else 1
    missing += len({*new_days} - {*nights})
    yield Result("nights without a decision", missing, must_be=0)
    yield Result("notifications before the upgrade", messages_before.total())
    yield Result("notifications after it", messages.total() - messages_before.total())
    twice = sum(number > 1 for number in messages.values())
    yield Result("accounts told of twice by one subscription", twice, must_be=0)


# --- The command ------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> Report:
    before = RELEASES.get(options.before, options.before) or before_last_migration()
    with ExitStack() as stack:
        older = stack.enter_context(exported(before))
        newer = stack.enter_context(exported(options.after)) if options.after else PROJECT
        if not options.no_alarms and (older / "notifications" / "watching").exists():
            with temporary_service(project=older) as lived_in:
                yield from alarms(lived_in, newer)
        service = stack.enter_context(
            cluster.service(older) if options.citus else temporary_service(project=older)
        )
        product = service.create_product()
        old, new = Release("old", service, older), Release("new", service, newer)
        progress(f"Starting {before}.")
        old.start()
        upgrade = Upgrade(old, new, product, options.seed)
        phases = []
        with upgrade.under_way():
            for name, begin in PHASES:
                with upgrade.posted.phase(name) as phase:
                    begin(upgrade)
                    time.sleep(options.seconds / len(PHASES))
                phases.append(phase)
        yield Table("phases", phases)
        yield Result("from", before)
        yield Result("to", options.after or "the working tree")
        yield Result("migrations", ", ".join(upgrade.applied) or "none")
        yield from accounting.settle(upgrade.posted, service.connect)
        new.check()
        posts, reads = upgrade.posted.statuses, upgrade.reader.statuses
        others = posts.total() - posts[202] - posts[503] - posts[None]
        yield Result("posts that got something else than 202 or 503", others, must_be=0)
        yield Result("reads", reads[200])
        yield Result("reads that failed", reads.total() - reads[200], must_be=0)
        yield Result("tracebacks", service.tracebacks(UNKNOWN_TASK), must_be=0)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="before",
        metavar="RELEASE",
        help="a release of the changelog or a commit; by default that before the last migration",
    )
    parser.add_argument(
        "--to", dest="after", metavar="COMMIT", help="the new one; by default the working tree"
    )
    parser.add_argument("--citus", action="store_true", help="on a cluster of three servers")
    parser.add_argument("--no-alarms", action="store_true", help="leave out the days with alarms")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long to post and read")
    parser.add_argument("--seed", type=int, default=1, help="draws the messages")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
