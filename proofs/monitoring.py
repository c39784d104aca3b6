"""Prometheus scrapes a running service: the dashboard's and the alerts' queries get answers.

Clients post, read, and make mistakes meanwhile, so that most queries have data.
"""

import argparse
import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from harness.command import run_command
from harness.http import Address, status_of
from harness.ports import free_port
from harness.posting import Posted, posting
from harness.processes import HOST, PROJECT, Failed, program, until
from harness.report import Report, Result, progress
from harness.service import Service, any_address, temporary_service

TOKEN = "only-for-this-run"
RULES = PROJECT / "deploy" / "alerts.yml"
DASHBOARD = PROJECT / "deploy" / "grafana" / "engagement-data-service.json"
# Long enough for two scrapes that see different counts, which are saved every ten seconds.
RATE_INTERVAL = "1m"
CONFIGURATION = """
global: {{scrape_interval: 2s, evaluation_interval: 2s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: eds
    authorization: {{credentials: "{token}"}}
    static_configs: [{{targets: ["{host}:{port}"]}}]
"""


METRIC = re.compile(r"\beds_\w+")
# What queries add to the name of a metric.
_SUFFIX = re.compile(r"_(total|sum|count|bucket)$")


class Query(NamedTuple):
    """A query of a panel or of an alert, and where it is from."""

    place: str
    expression: str


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        service.environment |= {"EDS_METRICS_TOKEN": TOKEN, "EDS_WEB_WORKERS": "1"}
        product = service.create_product()
        web = any_address()
        service.serve("web", web)
        service.start_worker()
        service.start_beat()
        service.wait_until_ready(web)
        prometheus = start_prometheus(service, web)
        progress(f"Posting and reading for {options.seconds:.0f} s.")
        posted = Posted()
        with posting([[web]], product["ingestion_key"], 1, posted, 0.05):
            ends = time.monotonic() + options.seconds
            while time.monotonic() < ends:
                make_mistakes(web)
                time.sleep(0.5)
            yield from ask(prometheus)


def start_prometheus(service: Service, web: Address) -> Address:
    address = Address(HOST, free_port())
    configuration = service.folder / "prometheus.yml"
    configuration.write_text(
        CONFIGURATION.format(rules=RULES, token=TOKEN, host=web.host, port=web.port)
    )
    check = subprocess.run(
        [program("promtool"), "check", "config", str(configuration)], capture_output=True, text=True
    )
    if check.returncode:
        raise Failed(f"promtool refuses the configuration:\n{check.stdout}{check.stderr}")
    data = service.folder / "prometheus"
    command = [program("prometheus"), f"--config.file={configuration}"]
    command += [f"--storage.tsdb.path={data}", f"--web.listen-address={HOST}:{address.port}"]
    service.start("prometheus", command)
    until(lambda: status_of(address, "/-/ready") == 200, "Prometheus to be ready")
    return address


def make_mistakes(web: Address) -> None:
    """Ask for what is refused and for what does not exist."""
    for path in ("/v2/accounts", "/v2/nothing", "/nothing", "/admin/login/"):
        status_of(web, path)


def ask(prometheus: Address) -> Iterator[Result]:
    """Ask each query once. Those without an answer are named."""
    queries = [*panels(), *alerts()]
    errors, empty = [], []
    for query in queries:
        answer = fetch(prometheus, "query", query=query.expression)
        if answer.get("status") != "success":
            errors.append(f"{query.place}: {answer.get('error')}")
        elif query.place.startswith("panel") and not answer["data"]["result"]:
            empty.append(query.place)
    for place in errors:
        progress(f"Failed: {place}")
    progress("Without data: " + ("; ".join(empty) or "none"))
    families = {_SUFFIX.sub("", name) for name in fetch(prometheus, "metadata")["data"]}
    names = {name for query in queries for name in METRIC.findall(query.expression)}
    missing = sorted(name for name in names if _SUFFIX.sub("", name) not in families)
    yield Result("metrics without a service", ", ".join(missing) or "none", must_be="none")
    targets = fetch(prometheus, "targets")["data"]["activeTargets"]
    rules = fetch(prometheus, "rules")["data"]["groups"][0]["rules"]
    yield Result("queries asked", len(queries))
    yield Result("queries that failed", len(errors), must_be=0)
    yield Result("targets that are down", sum(t["health"] != "up" for t in targets), must_be=0)
    yield Result("rules that failed", sum(r["health"] != "ok" for r in rules), must_be=0)
    yield Result("queries of panels without data", len(empty))


def panels() -> Iterator[Query]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$__rate_interval", RATE_INTERVAL)
            yield Query(f"panel {panel['title']!r} {target['refId']}", expression)


def alerts() -> Iterator[Query]:
    for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]:
        yield Query(f"alert {rule['alert']}", rule["expr"])


def fetch(prometheus: Address, what: str, **parameters: str) -> dict[str, Any]:
    query = urllib.parse.urlencode(parameters)
    url = f"http://{prometheus.host}:{prometheus.port}/api/v1/{what}?{query}"
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            content: dict[str, Any] = json.load(response)
    except urllib.error.HTTPError as error:
        content = json.load(error)
    return content


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=40.0, help="how long to post and read")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
