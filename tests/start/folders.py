"""Data folders for services that tests start, with a migrated database in them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.database import CITUS, copy_migrated_cluster, migrated_cluster


@contextmanager
def data_folder(prefix: str, *, is_new: bool = False) -> Iterator[Path]:
    """A folder for ``EDS_DATA_DIR``, which is removed afterwards. If *is_new*, it is empty."""
    # Not tmp_path: PostgreSQL's own user must be able to reach it, and its path stays short.
    folder = Path(tempfile.mkdtemp(prefix=f"eds-{prefix}-"))
    folder.chmod(0o711)
    try:
        if not is_new:
            copy_migrated_cluster(folder / "postgres")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def environment_of_benchmarks() -> dict[str, str]:
    """The environment in which a benchmark starts from a copy of the migrated cluster."""
    # With Citus, it starts servers that it migrates itself.
    copied = {} if CITUS else {"BENCHMARK_CLUSTER": str(migrated_cluster())}
    return {**os.environ, **copied, "PYTHONWARNINGS": "ignore"}
