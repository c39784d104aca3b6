"""Asks web servers, and keeps what they answered."""

import http.client
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType

from harness.posting import ANSWER_TIMEOUT, Address

READ_INTERVAL = 0.2


class Reader:
    """Reads the ranked accounts from each of *addresses* in turn; who answered what."""

    def __init__(self, token: str, workspace: int) -> None:
        self.addresses: list[Address] = []
        self.statuses: Counter[int | None] = Counter()
        self._path = f"/v2/accounts?workspace_id={workspace}"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._over = threading.Event()
        # Whoever takes an address away must know that it is not being asked any more.
        self.lock = threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[None]:
        thread = threading.Thread(target=self._read, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _read(self) -> None:
        while not self._over.wait(READ_INTERVAL):
            with self.lock:
                for address in self.addresses:
                    self.statuses[status_of(address, self._path, self._headers)] += 1


def status_of(
    address: Address, path: str, headers: Mapping[str, str] = MappingProxyType({})
) -> int | None:
    """The status of the answer; None where there was none."""
    connection = http.client.HTTPConnection(*address, timeout=ANSWER_TIMEOUT)
    with suppress(OSError, http.client.HTTPException):
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        answer.read()
        return answer.status
    return None
