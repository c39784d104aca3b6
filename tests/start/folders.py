"""Data folders for services that tests start, with a migrated database in them.

Creating a cluster and migrating it takes about eight seconds of processor time. One test process
does it once; each folder gets a copy.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.database import SHARED_FOLDER
from tests.start.running import manage


@contextmanager
def data_folder(prefix: str, *, is_new: bool = False) -> Iterator[Path]:
    """A folder for ``EDS_DATA_DIR``, which is removed afterwards. If *is_new*, it is empty."""
    # Not tmp_path: PostgreSQL's own user must be able to reach it, and its path stays short.
    folder = Path(tempfile.mkdtemp(prefix=f"eds-{prefix}-"))
    folder.chmod(0o711)
    try:
        if not is_new:
            subprocess.run(["cp", "-a", migrated_cluster(), folder / "postgres"], check=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def migrated_cluster() -> Path:
    """The files of a PostgreSQL that does not run, with the service's empty tables."""
    folder = SHARED_FOLDER / "migrated"
    cluster = folder / "postgres"
    with (SHARED_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "is-ready").exists():
            folder.mkdir(mode=0o711)
            migrated = manage(folder, "migrate", "--verbosity", "0")
            assert migrated.returncode == 0, migrated.stderr
            (folder / "is-ready").touch()
    return cluster


def environment_of_benchmarks() -> dict[str, str]:
    """The environment in which a benchmark starts from a copy of the migrated cluster."""
    return {**os.environ, "BENCHMARK_CLUSTER": str(migrated_cluster()), "PYTHONWARNINGS": "ignore"}
