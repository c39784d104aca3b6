"""The server SDKs, each in a process that reads calls and makes them."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from tests.clients.browsing import HERE

Call: TypeAlias = dict[str, Any]

PYTHON = [sys.executable, str(HERE / "programs" / "python_sdk.py")]
NODE = ["node", str(HERE / "programs" / "node_sdk.mjs")]
REACT_NATIVE = "@segment/analytics-react-native"
PROGRAMS: dict[str, list[str]] = {
    "segment-analytics-python": [*PYTHON, "segment"],
    "rudder-sdk-python": [*PYTHON, "rudder"],
    "@segment/analytics-node": [*NODE, "segment"],
    "@rudderstack/rudder-sdk-node": [*NODE, "rudder"],
    "analytics-node": [*NODE, "legacy"],
    REACT_NATIVE: ["node", str(HERE / "programs" / "react_native_sdk.cjs")],
}
SERVER_SDKS = [sdk for sdk in PROGRAMS if sdk != REACT_NATIVE]
# Those that try again for long enough to survive an outage.
PERSISTENT_SDKS = [sdk for sdk in SERVER_SDKS if sdk != "analytics-node"]
# Seconds, longer than the longest pause between two attempts.
PATIENCE = 150.0


class Sending:
    """A running SDK, which must not give up on any message."""

    def __init__(self, sdk: str, process: "subprocess.Popen[str]") -> None:
        self._sdk = sdk
        self._process = process

    def failure(self) -> str:
        """Return what went wrong, or an empty text, when it has sent everything."""
        output, _ = self._process.communicate(timeout=PATIENCE)
        return f"{self._sdk}: {output}" if self._process.returncode else ""

    def wait(self) -> None:
        """Return when it has sent everything. Raises AssertionError if it gave up a message."""
        failure = self.failure()
        assert not failure, failure


@contextmanager
def sending(
    sdk: str, address: str, key: str, calls: Sequence[Call], pause: float = 0.0
) -> Iterator[Sending]:
    """Have the SDK make the calls, with *pause* seconds between them."""
    process = subprocess.Popen(
        [*PROGRAMS[sdk], address, key, str(pause)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdin is not None
        process.stdin.writelines(json.dumps(call) + "\n" for call in calls)
        # The calls fit into the pipe's buffer.
        process.stdin.close()
        process.stdin = None
        yield Sending(sdk, process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
