"""How many messages a second are imported from a file, held against the drain in turns; and how
fast a product is exported and read back.
"""

import argparse
import json
from statistics import median
from typing import Any, LiteralString

from harness import report
from harness.command import run_command
from harness.report import progress
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


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with temporary_service() as service:
        bench = Bench(service)
        bench.warm_up()
        rounds = [bench.round(number, options.messages) for number in range(options.rounds)]
        return {"rounds": rounds, "copy": bench.copy(), "totals": bench.totals()}


class Bench:
    """A service that is given the same kind of messages by its inbox and by files, in turns."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._database = service.connect()
        made = service.create_product()
        self._key: str = made["ingestion_key"]
        self._product: int = made["product_id"]
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
        return {
            "drained_per_second": drain_rate,
            "imported_per_second": import_rate,
            "ratio": import_rate / drain_rate,
            "drain_work": _work(drained, messages),
            "import_work": _work(imported, messages),
        }

    def copy(self) -> dict[str, Any]:
        """Export the product and read it back into another one."""
        path = str(self._service.folder / "export.ndjson")
        progress("Exporting the product.")
        exported = self._within("export_lines", path, str(self._product))
        copy = self._service.create_product()["product_id"]
        progress(f"Importing its {exported['lines']:,} lines.")
        imported = self._within("import_lines", path, str(copy))
        return {
            "exported_per_second": _rate(exported, "lines"),
            "export_peak_mb": exported["peak_mb"],
            "imported_per_second": _rate(imported, "lines"),
            "original": self._counted(self._product),
            "copy": self._counted(copy),
            "problems": imported["problems"],
        }

    def totals(self) -> dict[str, int]:
        events, counted, *_ = self._counted(self._product)
        return {"tracks": self._tracks, "events": events, "counted": counted}

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
        return [int(number) for number in row]

    def _within(self, *arguments: str) -> dict[str, Any]:
        said = self._service.run("-m", "benchmarks.within", *arguments, timeout=PATIENCE)
        read: dict[str, Any] = json.loads(said)
        return read


def _rate(said: dict[str, Any], what: str) -> float:
    return float(said[what] / said["seconds"])


def _work(said: dict[str, Any], messages: int) -> float:
    """Microseconds of processor time a message, PostgreSQL's included: other work on the machine
    does not change it much."""
    return float((said["processor_seconds"] + said["database_seconds"]) / messages * 1e6)


def show(figures: dict[str, Any]) -> None:
    rounds, copy = figures["rounds"], figures["copy"]
    ratios = [one["ratio"] for one in rounds]
    by_work = [one["drain_work"] / one["import_work"] for one in rounds]
    rows = [
        [
            f"round {number}",
            f"{one['drained_per_second']:,.0f}",
            f"{one['imported_per_second']:,.0f}",
            f"{one['ratio']:.2f}",
            f"{one['drain_work']:.0f}",
            f"{one['import_work']:.0f}",
        ]
        for number, one in enumerate(rounds, 1)
    ]
    lines = [
        report.table(["", "drained/s", "imported/s", "ratio", "µs, drain", "µs, import"], rows),
        report.verdict("Import, in shares of the drain", median(ratios), at_least=OF_THE_DRAIN),
        f"    lowest, median and highest: {report.spread(ratios)}; by processor time a message, "
        f"PostgreSQL's included: {report.spread(by_work)}",
        f"Export: {copy['exported_per_second']:,.0f} lines/s, at most {copy['export_peak_mb']:.0f} "
        f"MB of memory; read back at {copy['imported_per_second']:,.0f} lines/s.",
    ]
    print("\n".join(lines))


def faults(figures: dict[str, Any]) -> list[str]:
    copy, totals = figures["copy"], figures["totals"]
    found = [
        f"{name} is {totals[name]:,} and must be {totals['tracks']:,}."
        for name in ("events", "counted")
        if totals[name] != totals["tracks"]
    ]
    if copy["original"] != copy["copy"]:
        found.append(f"The copy has {copy['copy']} and the original {copy['original']}.")
    if copy["problems"]:
        found.append(f"{copy['problems']:,} exported lines could not be read back.")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=200_000, help="messages in each round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each with both")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
