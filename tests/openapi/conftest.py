"""The description as clients get it."""

from typing import Any

import jsonschema_rs
import msgspec
import pytest

from config.openapi import assembly
from tests.openapi.walking import closed


@pytest.fixture(scope="session")
def described() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(assembly.render_schema())
    return found


class Shapes:
    """Tells whether a body is exactly what a schema says: a key more is a fault too."""

    def __init__(self, described: dict[str, Any]) -> None:
        self.components = closed(described["components"])

    def faults(self, schema: dict[str, Any], body: object) -> list[str]:
        whole = {**closed(schema), "components": self.components}
        validator = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(body)]


@pytest.fixture(scope="session")
def shapes(described: dict[str, Any]) -> Shapes:
    return Shapes(described)
