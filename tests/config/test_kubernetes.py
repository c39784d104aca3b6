"""deploy/kubernetes starts what exists, with settings, paths, and metrics that exist."""

from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.core.management import get_commands
from django.urls import resolve

from config.server import handover
from core.version import VERSION
from ingestion import prometheus
from tests.config.test_deploy import assert_every_queue_is_read

FOLDER = settings.BASE_DIR / "deploy" / "kubernetes"
# Patches look like resources.
PATCHES = {"pod.yaml", "wait.yaml"}


def load(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


KUSTOMIZATION = load("kustomization.yaml")[0]
RESOURCES = [resource for name in KUSTOMIZATION["resources"] for resource in load(name)]
POD = load("pod.yaml")[0]["spec"]["template"]["spec"]


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {
        resource["metadata"]["name"]: resource for resource in RESOURCES if resource["kind"] == kind
    }


def container(name: str) -> dict[str, Any]:
    (only,) = of_kind("Deployment")[name]["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_every_file_is_used() -> None:
    files_in_use = {
        *KUSTOMIZATION["resources"],
        *(patch["path"] for patch in KUSTOMIZATION["patches"]),
    }
    assert files_in_use == {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}


def test_every_role_runs_a_command_that_exists() -> None:
    commands = [container(name)["args"] for name in of_kind("Deployment")]
    for words in commands:
        if words[0] == "python":
            assert words[1] == "manage.py" and words[2] in get_commands()
        else:
            assert words[:3] == ["celery", "-A", "config"] and words[3] in ("worker", "beat")
    assert_every_queue_is_read(commands)
    (job,) = of_kind("Job").values()
    assert job["metadata"]["name"].endswith(VERSION.replace(".", "-"))
    assert KUSTOMIZATION["images"][0]["newTag"] == VERSION


def test_pods_have_no_privileges_and_secrets_come_by_reference() -> None:
    assert POD["securityContext"]["runAsNonRoot"] and not POD["automountServiceAccountToken"]
    waiting = load("wait.yaml")[0]["spec"]["template"]["spec"]["initContainers"]
    for part in POD["containers"] + waiting:
        context = part["securityContext"]
        assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"secretRef": {"name": "eds-secrets"}} in part["envFrom"]
    targets = {patch["target"]["kind"] for patch in KUSTOMIZATION["patches"]}
    assert targets == {"Deployment", "Job"}
    assert not of_kind("Secret")
    assert all("limits" in container(name)["resources"] for name in of_kind("Deployment"))


def test_its_settings_exist() -> None:
    described = (settings.BASE_DIR / "docs" / "settings.md").read_text()
    for name in of_kind("ConfigMap")["eds-settings"]["data"]:
        assert f"| `{name}` |" in described


def test_probes_ask_for_paths_of_the_port() -> None:
    for name in ("eds-ingestion", "eds-pages"):
        web = container(name)
        port = web["args"][web["args"].index("--port") + 1]
        assert [str(item["containerPort"]) for item in web["ports"]] == [port]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            resolve(web[probe]["httpGet"]["path"])


def test_workers_scale_by_a_metric_that_exists() -> None:
    (metric,) = of_kind("HorizontalPodAutoscaler")["eds-worker"]["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] in Path(prometheus.__file__).read_text()
    for kind in ("HorizontalPodAutoscaler", "PodDisruptionBudget"):
        assert set(of_kind(kind)) == {"eds-ingestion", "eds-pages", "eds-worker"}


def test_paths_lead_to_the_role_that_answers_them() -> None:
    (rule,) = of_kind("Ingress")["eds"]["spec"]["rules"]
    backends = {path["path"]: path["backend"]["service"]["name"] for path in rule["http"]["paths"]}
    data = ("/v2/track", "/v1/events", "/segment/v1/track", "/analytics.js/v1/key/analytics.min.js")
    pages = ("/v2/accounts", "/v1/accounts", "/admin/", "/docs", "/v2/validate")
    for path in data + pages:
        prefix = max((prefix for prefix in backends if covers(prefix, path)), key=len)
        is_page = handover.process_kind(path.encode()) == handover.PAGES
        assert (backends[prefix] == "eds-pages") == is_page == (path in pages), path


def covers(prefix: str, path: str) -> bool:
    """Whether an Ingress sends the path to the prefix, which covers whole parts of paths."""
    return path == prefix or path.startswith(f"{prefix.rstrip('/')}/")
