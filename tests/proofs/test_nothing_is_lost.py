"""The proofs that nothing is lost run, in a short form, and account for every message.

``PROOFS=all`` adds the upgrade from an older release.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from harness.accounting import MUST_BE_NONE
from harness.processes import Failed
from proofs import upgrade
from tests.database import CITUS, own_server
from tests.start.folders import environment_of_benchmarks

# Seconds: on a busy machine most of them pass until all roles have started.
PATIENCE = 400
# Many messages a second would cost processor time and show nothing else.
SLOWLY = ("--pause", "0.05")
WHERE = ("--citus",) if CITUS else ()
PROOFS = {
    "durability": ("--minutes", "0.03", "--kills", "3", *SLOWLY, *WHERE),
    "machines": ("--seconds", "4", "--broker", "postgresql", *SLOWLY, *WHERE),
    "pooled": ("--seconds", "2", *SLOWLY),
}
Results = Callable[[str], dict[str, Any]]


def installed(*programs: str) -> bool:
    return all(shutil.which(name, path="/usr/sbin:/usr/bin") for name in programs)


def start(command: str, *options: str, file: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", f"proofs.{command}", *options, "--json", str(file)],
        cwd=settings.BASE_DIR,
        env=environment_of_benchmarks(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def results_of(process: "subprocess.Popen[str]", file: Path) -> dict[str, Any]:
    """What the proof wrote, without the names of runs; it must find nothing wrong."""
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    content: dict[str, dict[str, Any]] = json.loads(file.read_text())
    results = {name.rpartition(": ")[2]: value for name, value in content["results"].items()}
    return results | content["tables"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """Start all proofs at once, because each of them mostly waits; the results by name."""
    folder = tmp_path_factory.mktemp("proofs")
    can_pool = not CITUS and installed("pgbouncer", "redis-server")
    processes = {
        name: start(name, *options, file=folder / name)
        for name, options in PROOFS.items()
        if name != "pooled" or can_pool
    }

    def wait(name: str) -> dict[str, Any]:
        if name not in processes:
            pytest.skip("PgBouncer or Redis is not installed")
        return results_of(processes[name], folder / name)

    yield wait
    for process in processes.values():
        if process.poll() is None:
            process.terminate()
            process.wait(PATIENCE)


def assert_each_is_accounted_for(run: dict[str, Any]) -> None:
    assert {name: run[name] for name in MUST_BE_NONE} == dict.fromkeys(MUST_BE_NONE, 0)
    assert 0 < run["recorded"] <= run["posted"]
    # One that was refused is sent again, and may then be lost on its way or acknowledged.
    assert run["acknowledged"] + run["refused"] + run["unanswered"] >= run["posted"]
    assert run["quarantined"] == 0


def test_killed_processes_cost_nothing(results: Results) -> None:
    run = results("durability")
    assert_each_is_accounted_for(run)
    assert sum(count for name, count in run.items() if name.endswith(" killed")) >= 3


def test_machines_that_fail_cost_nothing(results: Results) -> None:
    run = results("machines")
    assert_each_is_accounted_for(run)
    assert len(run["phases"]) > 1


@own_server
def test_pooled_connections_cost_nothing(results: Results) -> None:
    run = results("pooled")
    assert_each_is_accounted_for(run)
    assert run["reads"] > 0
    assert (run["reads that failed"], run["tracebacks"]) == (0, 0)


def test_the_older_release_is_exported_whole(older_release: str) -> None:
    with upgrade.exported(older_release) as folder:
        assert (folder / "manage.py").is_file()
        assert (folder / "config" / "settings.py").is_file()
    assert not folder.exists()


upgrades = pytest.mark.skipif(
    os.environ.get("PROOFS") != "all",
    reason="takes a minute for each release; PROOFS=all runs it, too",
)


def assert_an_upgrade_costs_nothing(release: str, file: Path) -> None:
    run = results_of(start("upgrade", "--from", release, "--seconds", "2", *WHERE, file=file), file)
    assert_each_is_accounted_for(run)
    assert (run["reads that failed"], run["tracebacks"]) == (0, 0)


@upgrades
def test_an_upgrade_costs_nothing(tmp_path: Path, older_release: str) -> None:
    assert_an_upgrade_costs_nothing(older_release, tmp_path / "upgrade")


@upgrades
@pytest.mark.parametrize("release", upgrade.RELEASES)
def test_an_upgrade_from_each_release_costs_nothing(release: str, tmp_path: Path) -> None:
    try:
        upgrade.git("rev-parse", "--verify", f"{upgrade.RELEASES[release]}^{{tree}}")
    except Failed:
        pytest.skip("git does not know that release here: this is no full clone")
    assert_an_upgrade_costs_nothing(release, tmp_path / "upgrade")


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
