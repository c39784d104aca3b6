"""Whether proofs find bugs: plants each patch of proofs/planted into a copy of the project, and
runs the short form of its proof there, which must fail.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from config.server.parent_death import exit_with_parent
from harness.command import run_command
from harness.processes import PROJECT, Failed
from harness.report import Report, Result, Table, progress
from harness.service import own_environment, temporary_folder

PATCHES = PROJECT / "proofs" / "planted"
# What each proof runs, and the bugs that it must find.
SHORT = {
    "alarms": ("--only", "simple", "--seeds", "1", "--short", "--processes", "1"),
    "attack": ("--every", "150"),
    "backups": ("--seconds", "9"),
    "citus": ("--seconds", "3", "--dead", "20", "--kills", "3", "--pause", "0.02"),
    "cluster_backups": ("--seconds", "9"),
    "durability": ("--minutes", "0.2", "--kills", "10", "--pause", "0.02"),
    "forecasts": ("--only", "three of each", "--worlds", "800"),
    "foresight": ("--only", "200 evaluations, nothing", "--processes", "1"),
    "habits": ("--worlds", "1"),
    "hostile": ("--minutes", "0.3"),
    "machines": ("--seconds", "24"),
    "memory": ("--seconds", "40", "--clients", "60"),
    "monitoring": ("--seconds", "10"),
    "notifications": ("--minutes", "0.2", "--patience", "60"),
    "pooled": ("--seconds", "8", "--pause", "0.02"),
    "pressure": ("--only", "inbox full|silent", "--seconds", "14", "--clients", "100"),
    # Without what takes long: --database and --first-starts are left.
    "power": (
        *("--cuts", "0", "--first-starts", "4", "--database", "4", "--backups", "0"),
        *("--migrations", "0", "--replica", "0", "--controls", "0", "--pause", "0.02"),
    ),
    "reads": ("--seconds", "20", "--pause", "0.02"),
    "schedules": ("--seeds", "200", "--processes", "1", "--until-broken"),
    "scores": ("--only", "360|drift", "--worlds", "1", "--processes", "1"),
    "upgrade": ("--seconds", "8", "--no-alarms"),
}
BUGS = {
    "alarms": (
        "alarms_end_after_a_quarter_alone",
        "alarms_that_came_to_nothing_do_not_count",
    ),
    "attack": ("flood_fills_the_log", "refusals_lack_the_headers"),
    "backups": ("last_segment_of_the_archive_is_left_out", "moment_loses_its_seconds"),
    "citus": ("messages_wait_for_the_dead_node_of_others", "taken_in_another_transaction"),
    "cluster_backups": ("counts_without_a_log", "inbox_without_a_log"),
    "durability": ("202_before_the_commit", "failed_commit_gets_202"),
    "forecasts": ("interval_ends_at_80_percent", "terms_of_an_account_renew_each_by_itself"),
    "foresight": ("a_part_learns_until_its_own_end", "chances_learn_before_outcomes_are_known"),
    "habits": ("chance_of_one_user_more", "one_chance_for_all_events_of_an_account"),
    "hostile": ("cursors_that_are_no_base64_are_not_caught", "deep_bodies_are_not_caught"),
    "machines": ("202_before_the_commit", "batch_of_a_dead_worker_stays_claimed"),
    "memory": (
        "bodies_are_decoded_at_once_in_processes_that_stay",
        "bodies_are_decompressed_without_a_limit",
    ),
    "monitoring": ("metric_has_another_name", "page_of_metrics_is_not_text"),
    "notifications": ("each_attempt_has_its_own_id", "refusal_counts_as_delivered"),
    "pooled": ("lock_of_a_session_and_not_of_a_transaction", "statements_are_prepared"),
    "pressure": ("503_without_a_time", "senders_wait_for_a_minute"),
    "power": ("commits_that_do_not_wait_for_the_disk", "secrets_that_are_not_synced"),
    "reads": ("change_that_readers_never_hear_of", "pages_kept_for_seconds"),
    "schedules": (
        "202_before_the_commit",
        "lease_that_never_ends",
        "scored_in_another_transaction",
        "sweep_that_waits_forgets_why",
        "taken_in_another_transaction",
    ),
    "scores": ("outcomes_of_an_account_are_independent", "weights_learn_before_outcomes_are_known"),
    "upgrade": (
        "credentials_have_another_digest",
        "fields_of_what_the_inbox_keeps_change_places",
    ),
}
# Nothing is planted, and nothing may be found.
NONE = "none"
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "data")
# The copy has no history, and a cluster needs the programs of a PostgreSQL that has Citus.
ENVIRONMENT = {
    "GIT_DIR": str(PROJECT / ".git"),
    **{name: os.environ[name] for name in ("EDS_TEST_CITUS_BIN",) if name in os.environ},
}
# Seconds.
PATIENCE = 1200.0
# Characters of what a proof says that are shown.
SHOWN = 100


def measure(options: argparse.Namespace) -> Report:
    rows = []
    for proof, bugs in BUGS.items():
        for bug in (NONE, *bugs) if options.bug == NONE else bugs:
            if options.proof in ("all", proof) and options.bug in ("", bug):
                progress(f"{proof}: {words(bug)}.")
                rows.append(_plant(proof, bug))
    yield Table("Planted bugs", rows)
    outcomes = [row["found"] for row in rows if row["bug"] != NONE]
    yield Result("planted", len(outcomes))
    yield Result("not found", outcomes.count(False), must_be=0)
    yield Result(
        "found without a bug", sum(row["found"] for row in rows if row["bug"] == NONE), must_be=0
    )


def words(bug: str) -> str:
    return bug.replace("_", " ")


def patch_of(bug: str) -> Path:
    return PATCHES / f"{bug}.patch"


def _plant(proof: str, bug: str) -> dict[str, Any]:
    with copy_with_bug(patch_of(bug)) as project, temporary_folder() as folder:
        began = time.monotonic()
        run = subprocess.run(
            [sys.executable, "-m", f"proofs.{proof}", *SHORT[proof]],
            cwd=project,
            env=own_environment(folder) | ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            preexec_fn=exit_with_parent(signal.SIGTERM),
        )
    complaints = [line for line in run.stderr.splitlines() if "It must be" in line]
    if run.returncode and not complaints:
        # The proof itself failed.
        progress(run.stderr[-2000:])
    return {
        "bug": words(bug),
        "proof": proof,
        # Without a bug, a proof that fails in any way shows nothing.
        "found": bool(run.returncode if bug == NONE else complaints),
        "after, s": time.monotonic() - began,
        "by": complaints[0].removeprefix("error: ")[:SHOWN] if complaints else "",
    }


@contextmanager
def copy_with_bug(patch: Path) -> Iterator[Path]:
    """A copy of the project with the bug."""
    with temporary_folder() as folder:
        project = folder / "project"
        shutil.copytree(PROJECT, project, ignore=NOT_COPIED, symlinks=True)
        if patch.stem == NONE:
            yield project
            return
        patching = subprocess.run(
            ["git", "apply", str(patch)], cwd=project, capture_output=True, text=True
        )
        if patching.returncode:
            raise Failed(f"{patch.name} does not apply: {patching.stderr.strip()}")
        yield project


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--proof", choices=["all", *SHORT], default="all")
    parser.add_argument("--bug", default="", help=f"only this one, named as its patch, or {NONE}")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
