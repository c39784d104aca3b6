"""Memory: clients flood every web and worker process with the largest and most expensive bodies
that the service takes, and with bodies that become far too large when they are decompressed, while
others post and read as usual. No process may take more than EDS_WORKER_MEMORY_MB, however often it
is replaced, and every message is accounted for.
"""

import argparse
import gzip
import json
import random
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import psutil

from harness import accounting
from harness.command import run_command
from harness.http import Client, Reader, basic
from harness.posting import posting
from harness.report import Report, Result, progress
from harness.threads import sampled, working
from harness.whole import Whole, running

# Bytes; the limit of a batch is 4 MiB.
BODY_BYTES = 4 * 1024 * 1024 - 4096
BATCH_MESSAGES, LARGE_MESSAGES = 2_400, 70
MEBIBYTE = 1024**2
# What a body of some hundred kilobytes becomes when it is decompressed.
BOMB_BYTES = 512 * MEBIBYTE


def measure(options: argparse.Namespace) -> Report:
    with running(
        EDS_WORKER_MEMORY_MB=str(options.limit), EDS_READ_REQUESTS_PER_MINUTE="0"
    ) as service:
        path = f"/v2/users?workspace_id={service.credentials['workspace_id']}&expand=traits,metrics"
        reader = Reader(path, service.credentials["api_token"], service.address)
        statuses: Counter[int | None] = Counter()
        bodies = [make() for make in BODIES]
        floods = [
            partial(flood, service, bodies, statuses, seed) for seed in range(options.clients)
        ]
        first = set(sizes(service))
        with (
            posting([[service.address]], service.key, options.seed, pause=0.02) as posted,
            reader.reading(),
            sampled(lambda: sizes(service), 0.2) as samples,
            working(*floods),
        ):
            progress(f"{options.clients} clients flood for {options.seconds:g} s.")
            time.sleep(options.seconds)
        for role in ("web worker", "worker's pool process"):
            largest = max(
                size for sample in samples for (kind, _), size in sample.items() if kind == role
            )
            yield Result(f"largest {role}, MiB", largest)
            is_over = "yes" if largest > options.limit else "no"
            yield Result(f"a {role} took more than it may", is_over, must_be="no")
        processes = {process for sample in samples for process in sample}
        yield Result("processes that were replaced", len(processes - first))
        yield Result("bodies of the flood that got 200", statuses[200])
        yield Result("bodies of the flood that got 413", statuses[413])
        yield Result("bodies of the flood that got 503", statuses[503])
        yield from accounting.settle(posted, service.connect)


def sizes(service: Whole) -> dict[tuple[str, int], float]:
    """The memory of each web and worker process, in MiB, by what it does and its id."""
    memory: dict[tuple[str, int], float] = {}
    for role, processes in service.processes().items():
        for process in processes if "work" in role else ():
            with suppress(psutil.Error):
                memory[role, process.pid] = process.memory_info().rss / MEBIBYTE
    return memory


def flood(
    service: Whole,
    bodies: Sequence[bytes],
    statuses: "Counter[int | None]",
    seed: int,
    over: threading.Event,
) -> None:
    chance = random.Random(seed)
    client = Client(service.address, headers=basic(service.key), timeout=60)
    headers = {"Content-Encoding": "gzip"}
    while not over.is_set():
        response = client.request("POST", "/v2/batch", chance.choice(bodies), headers)
        statuses[response.status if response else None] += 1
        if response is None or response.status == 503:
            over.wait(1)
    client.close()


# --- What is sent: small on the wire, and as large as possible in memory ----------------------


def _batch(trait: str, messages: int = BATCH_MESSAGES) -> bytes:
    """A batch of identifies of one user, whose traits are this text of JSON."""
    size = BODY_BYTES // messages - 80
    traits = ",".join(f'"t{number}":{trait}' for number in range(size // (len(trait) + 9)))
    message = f'{{"type":"identify","userId":"flood","traits":{{{traits}}}}}'
    return gzip.compress(f'{{"batch":[{",".join([message] * messages)}]}}'.encode())


def _empty_lists() -> bytes:
    return _batch("[]")


def _numbers() -> bytes:
    return _batch("0")


def _texts() -> bytes:
    return _batch(json.dumps("\N{GRINNING FACE}" * 20))


def _large_messages() -> bytes:
    return _batch("[]", LARGE_MESSAGES)


def _bomb() -> bytes:
    """A body that is far too large once it is decompressed."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    parts = [packer.compress(bytes(MEBIBYTE)) for _ in range(BOMB_BYTES // MEBIBYTE)]
    return b"".join([*parts, packer.flush()])


BODIES: tuple[Callable[[], bytes], ...] = (_empty_lists, _numbers, _texts, _large_messages, _bomb)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to flood")
    parser.add_argument("--clients", type=int, default=24, help="how many flood")
    parser.add_argument("--limit", type=int, default=300, help="EDS_WORKER_MEMORY_MB")
    parser.add_argument("--seed", type=int, default=1, help="draws the messages")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
