"""The commands that show that nothing is lost run, in a short form, and account for everything."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from harness.accounting import MUST_BE_NONE
from harness.service import Failed
from proofs import upgrade
from tests.start.folders import environment_of_benchmarks

pytestmark = pytest.mark.slow

# Seconds: on a busy machine most of them pass until all roles have started.
PATIENCE = 400


def figures_of(tmp_path: Path, command: str, *options: str) -> dict[str, Any]:
    """What the command wrote; it must find nothing wrong."""
    file = tmp_path / "figures.json"
    ended = subprocess.run(
        [sys.executable, "-m", f"proofs.{command}", *options, "--json", str(file)],
        cwd=settings.BASE_DIR,
        env=environment_of_benchmarks(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    written: dict[str, Any] = json.loads(file.read_text())
    return written


def assert_each_is_accounted_for(run: dict[str, Any]) -> None:
    assert {name: run[name] for name in MUST_BE_NONE} == dict.fromkeys(MUST_BE_NONE, 0)
    assert 0 < run["recorded"] <= run["posted"]
    # One that was refused is sent again, and may then be lost on its way or acknowledged.
    assert run["acknowledged"] + run["refused"] + run["unanswered"] >= run["posted"]
    assert run["quarantined"] == 0


def installed(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if not shutil.which(name, path="/usr/sbin:/usr/bin")]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def test_killed_processes_cost_nothing(tmp_path: Path) -> None:
    (run,) = figures_of(tmp_path, "durability", "--minutes", "0.06")["runs"]
    assert_each_is_accounted_for(run)
    assert sum(run["kills"].values()) > 0


def test_machines_that_fail_cost_nothing(tmp_path: Path) -> None:
    figures = figures_of(tmp_path, "machines", "--seconds", "4", "--broker", "postgresql")
    assert_each_is_accounted_for(figures["run"])
    assert len(figures["phases"]) > 1


@installed("pgbouncer", "redis-server")
def test_pooled_connections_cost_nothing(tmp_path: Path) -> None:
    run = figures_of(tmp_path, "pooled", "--seconds", "2")["run"]
    assert_each_is_accounted_for(run)
    assert run["reads"] > 0
    assert (run["reads_without_200"], run["tracebacks"]) == (0, 0)


def test_the_older_release_is_exported_whole(older_release: str) -> None:
    with upgrade.exported(older_release) as folder:
        assert (folder / "manage.py").is_file()
        assert (folder / "config" / "settings.py").is_file()
    assert not folder.exists()


@pytest.mark.skipif(
    os.environ.get("PROOFS") != "all", reason="takes a minute; PROOFS=all runs it, too"
)
def test_an_upgrade_costs_nothing(tmp_path: Path, older_release: str) -> None:
    figures = figures_of(tmp_path, "upgrade", "--from", older_release, "--seconds", "2")
    assert_each_is_accounted_for(figures["run"])
    assert set(figures["reads"]) == {"200"}
    assert figures["tracebacks"] == 0


@pytest.fixture
def older_release() -> str:
    """The commit before the last migration or, in a clone without it, the present one."""
    for commit in (upgrade.before_last_migration, lambda: "HEAD"):
        try:
            upgrade.git("rev-parse", "--verify", f"{(name := commit())}^{{tree}}")
        except Failed:
            continue
        return name
    pytest.skip("git knows no release here: this is not a clone")
