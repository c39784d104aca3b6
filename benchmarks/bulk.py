"""How many messages a second are imported from a file, compared with the drain in turn; and how
fast a product is exported and read back.
"""

import argparse
from statistics import median
from typing import Any, LiteralString

from harness.command import run_command
from harness.report import Report, Result, Table, progress
from harness.service import Service, temporary_service

# "At drain speed".
OF_THE_DRAIN = 0.9
WARM_UP = 30_000
PATIENCE = 600.0

# What must be the same of a product and of its copy.
_COUNTED: LiteralString = """
    SELECT (SELECT count(*) FROM engagement_event WHERE product_id = p.id),
           (SELECT COALESCE(sum(count), 0) FROM engagement_dailycount WHERE product_id = p.id),
           (SELECT count(*) FROM engagement_user WHERE product_id = p.id AND is_identified),
           (SELECT count(*) FROM engagement_account WHERE product_id = p.id),
           (SELECT count(*) FROM engagement_membership WHERE product_id = p.id)
    FROM engagement_product p WHERE p.id = %(product)s
"""


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        bench = Bench(service)
        bench.warm_up()
        rounds = [bench.round(place, options.messages) for place in range(options.rounds)]
        yield Table("rounds", rounds)
        ratios = [figures["ratio"] for figures in rounds]
        ratio = median(ratios)
        yield Result("import / drain", ratio, at_least=OF_THE_DRAIN, rounds=ratios)
        yield from bench.copy()
        yield from bench.totals()


class Bench:
    """A service that is given the same kind of messages by its inbox and by files, in turn."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._database = service.connect()
        product = service.create_product()
        self._key: str = product["ingestion_key"]
        self._product: int = product["product_id"]
        self._tracks = 0

    def warm_up(self) -> None:
        progress("Warming up both: users, accounts and plans.")
        self._drain(WARM_UP)
        self._import("warm up", WARM_UP, seed=1)

    def round(self, number: int, messages: int) -> dict[str, float]:
        drained = self._drain(messages)
        imported = self._import(f"round {number + 1}", messages, seed=number + 2)
        drain_rate, import_rate = _rate(drained, "messages"), _rate(imported, "lines")
        progress(f"Drained {drain_rate:,.0f}/s, imported {import_rate:,.0f}/s.")
        drain_work, import_work = _work(drained, messages), _work(imported, messages)
        return {
            "round": number + 1,
            "drained/s": drain_rate,
            "imported/s": import_rate,
            "ratio": import_rate / drain_rate,
            "µs, drain": drain_work,
            "µs, import": import_work,
            "ratio of µs": drain_work / import_work,
        }

    def copy(self) -> Report:
        """Export the product and read it back into another one."""
        path = str(self._service.folder / "export.ndjson")
        progress("Exporting the product.")
        exported = self._within("export_lines", path, str(self._product))
        copy = self._service.create_product()["product_id"]
        progress(f"Importing its {exported['lines']:,} lines.")
        imported = self._within("import_lines", path, str(copy))
        yield Result("exported lines/s", _rate(exported, "lines"))
        yield Result("memory of the export, MB", exported["peak_mb"])
        yield Result("lines/s read back", _rate(imported, "lines"))
        yield Result("lines that could not be read back", imported["problems"], must_be=0)
        copy_counts, original = self._counted(copy), self._counted(self._product)
        yield Result("rows of the copy", str(copy_counts), must_be=str(original))

    def totals(self) -> Report:
        events, event_total, *_ = self._counted(self._product)
        yield Result("events stored", events, must_be=self._tracks)
        yield Result("events counted", event_total, must_be=self._tracks)

    def _drain(self, messages: int) -> dict[str, Any]:
        self._tracks += self._within("fill", str(messages), self._key)["tracks"]
        return self._within("drain")

    def _import(self, name: str, messages: int, seed: int) -> dict[str, Any]:
        path = str(self._service.folder / f"{name}.ndjson")
        self._tracks += self._within("write_lines", path, str(messages), str(seed))["tracks"]
        return self._within("import_lines", path, str(self._product))

    def _counted(self, product: int) -> list[int]:
        row = self._database.execute(_COUNTED, {"product": product}).fetchone()
        assert row is not None
        return list(map(int, row))

    def _within(self, *arguments: str) -> dict[str, Any]:
        return self._service.run_json("-m", "benchmarks.within", *arguments, timeout=PATIENCE)


def _rate(run: dict[str, Any], counted: str) -> float:
    return float(run[counted] / run["seconds"])


def _work(run: dict[str, Any], messages: int) -> float:
    """Microseconds of processor time a message, PostgreSQL's included: other work on the machine
    does not change it much."""
    return float((run["processor_seconds"] + run["database_seconds"]) / messages * 1e6)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=200_000, help="messages in each round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each with both")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
