"""The alerts of docs/alerts.md, the rules of Prometheus, their tests, and the dashboard agree."""

import json
import re
import runpy
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.test import Client, override_settings

DEPLOY = settings.BASE_DIR / "deploy"
DOCUMENT = (settings.BASE_DIR / "docs" / "alerts.md").read_text()
RULES = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
METRIC = re.compile(r"\beds_[a-z_]+")
# Metrics whose samples need something to be there first.
WITHOUT_SAMPLES = re.compile(r"_(bucket|sum|count|total)$")
promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="needs promtool (Debian's prometheus)"
)


def dashboard() -> dict[str, Any]:
    file = DEPLOY / "grafana" / "engagement-data-service.json"
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def queries() -> list[str]:
    targets = (target for panel in dashboard()["panels"] for target in panel.get("targets", []))
    return [target["expr"] for target in targets]


def test_the_rules_are_those_of_the_table() -> None:
    rules = runpy.run_path(str(DEPLOY / "write_alerts.py"))["rules"]
    rules_text = (DEPLOY / "alerts.yml").read_text()
    assert rules_text == rules(), "Run `python deploy/write_alerts.py`."
    assert len(RULES) == DOCUMENT.count("\n| [Eds")


def test_each_alert_has_a_section_that_says_what_to_do() -> None:
    sections = re.findall(r"^## (Eds\w+)$(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in sections] == [rule["alert"] for rule in RULES]
    for rule, (name, text) in zip(RULES, sections, strict=True):
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{name.lower()}"
        assert re.search(r"^1\. ", text, re.MULTILINE), name


@pytest.mark.django_db
@override_settings(METRICS_TOKEN="scrape")
def test_alerts_and_dashboard_use_metrics_that_exist(client: Client) -> None:
    response = client.get("/metrics", headers={"Authorization": "Bearer scrape"}).content.decode()
    served = {WITHOUT_SAMPLES.sub("", name) for name in METRIC.findall(response)}
    expressions = [*queries(), *(rule["expr"] for rule in RULES)]
    metrics_in_use = {
        WITHOUT_SAMPLES.sub("", name) for each in expressions for name in METRIC.findall(each)
    }
    assert metrics_in_use - served == set()


def test_the_dashboard_is_laid_out_without_gaps_and_overlaps() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    rows: dict[int, list[dict[str, int]]] = {}
    for panel in panels:
        rows.setdefault(panel["gridPos"]["y"], []).append(panel["gridPos"])
    y = 0
    for start, places in sorted(rows.items()):
        assert start == y
        assert len({place["h"] for place in places}) == 1
        ends = [place["x"] + place["w"] for place in places]
        assert [place["x"] for place in places] == [0, *ends[:-1]]
        assert ends[-1] == 24
        y += places[0]["h"]
    assert [panel["title"] for panel in panels if not panel.get("description")] == [
        panel["title"] for panel in panels if panel["type"] == "row"
    ]


def test_each_alert_is_tested_firing_and_not_firing() -> None:
    cases = yaml.safe_load((DEPLOY / "alerts_test.yml").read_text())["tests"]
    assert [case["name"] for case in cases] == [
        f"{rule['alert']} {what}" for rule in RULES for what in ("fires", "does not fire")
    ]


@pytest.mark.slow
@promtool
def test_promtool_accepts_the_rules_and_their_tests() -> None:
    for arguments in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        run = subprocess.run(["promtool", *arguments], cwd=DEPLOY, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
