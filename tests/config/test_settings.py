"""docs/settings.md names every environment variable that the settings read, and no other."""

import ast
import re
from pathlib import Path

from django.conf import settings

from tests.house.test_imports import APPS

READERS = {"http_url", "broker_url", "text", "required_text", "integer", "flag", "choice"}
READERS |= {"comma_separated", "report_url", "marketplace_url", "file_path", "networks", "email"}


def read_by_the_settings() -> set[str]:
    tree = ast.parse((settings.BASE_DIR / "config" / "settings.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        str(call.args[0].value)
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "environment"
        and call.func.attr in READERS
        and isinstance(call.args[0], ast.Constant)
    }


def described_in_the_docs() -> set[str]:
    text = (settings.BASE_DIR / "docs" / "settings.md").read_text()
    return set(re.findall(r"^\|\s*`([A-Z][A-Z0-9_]+)`\s*\|", text, re.MULTILINE))


def test_the_docs_describe_each_variable_and_no_other() -> None:
    assert described_in_the_docs() == read_by_the_settings()


def test_only_the_settings_read_the_environment() -> None:
    reading = re.compile(r"os\.(environ\b(?!\.setdefault)|getenv)")
    # The format of lines must be known before the settings are read.
    allowed = {Path("config/environment.py"), Path("config/logging/json_streams.py")}
    service = [
        path.relative_to(settings.BASE_DIR)
        for folder in ("config", *APPS)
        for path in sorted((settings.BASE_DIR / folder).rglob("*.py"))
    ]
    readers = {path for path in service if reading.search((settings.BASE_DIR / path).read_text())}
    assert readers == allowed
