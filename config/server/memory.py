"""How much memory a web process takes, so that it is replaced before it takes too much."""

import os
from pathlib import Path

# The share of EDS_WORKER_MEMORY_MB at which a process is replaced. The rest is for what it has
# accepted and still answers.
REPLACED_AT = 0.8
MEBIBYTE = 1024**2
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return the memory that this process takes now; 0 where the system does not say."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def is_too_large(taken: int, limit_mb: int) -> bool:
    """Return whether a process that takes that many bytes should be replaced.

    The limit is EDS_WORKER_MEMORY_MB.
    """
    return taken > REPLACED_AT * limit_mb * MEBIBYTE
