"""``python manage.py doctor``: what is wrong with this installation, and what to do."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand
from django.utils import timezone

from core.version import VERSION


class Command(BaseCommand):
    help = (
        "Examine settings, versions, disk, mail, database, clock, queue, keys, and other roles. "
        "Changes nothing. Ends with status 1 if there is a problem."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, json: bool, **options: Any) -> None:
        findings = _examine()
        self.stdout.write(_as_json(findings) if json else _as_text(findings))
        if any(finding["status"] == "problem" for finding in findings):
            sys.exit(1)


def _examine() -> list[dict[str, str]]:
    try:
        django.setup()
    except ImproperlyConfigured as error:
        # Nothing else can be examined without settings.
        remedy = "Correct the variable (docs/settings.md)."
        sentence = str(error)
        return [{"check": "settings", "status": "problem", "sentence": sentence, "remedy": remedy}]
    # It can be imported only now.
    from config.operations import doctor

    return [asdict(finding) for finding in doctor.examine(timezone.now)]


def _as_json(findings: Sequence[dict[str, str]]) -> str:
    is_healthy = all(finding["status"] != "problem" for finding in findings)
    return json.dumps({"version": VERSION, "healthy": is_healthy, "checks": findings}, indent=2)


def _as_text(findings: Sequence[dict[str, str]]) -> str:
    lines = (
        f"{finding['status']:<8} {finding['check']:<13} {finding['sentence']} {finding['remedy']}"
        for finding in findings
    )
    return "\n".join(line.rstrip() for line in lines)
