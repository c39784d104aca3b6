"""The OpenAPI description as clients get it."""

from typing import Any

import jsonschema_rs
import msgspec
import pytest

from config.openapi import assembly
from tests.openapi.walking import forbid_extra_keys


@pytest.fixture(scope="session")
def described() -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(assembly.render_schema())
    return document


class Shapes:
    """Validates bodies against schemas. An extra key is an error too."""

    def __init__(self, described: dict[str, Any]) -> None:
        self.components = forbid_extra_keys(described["components"])

    def faults(self, schema: dict[str, Any], body: object) -> list[str]:
        document = {**forbid_extra_keys(schema), "components": self.components}
        validator = jsonschema_rs.Draft202012Validator(document, validate_formats=True)
        return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(body)]


@pytest.fixture(scope="session")
def shapes(described: dict[str, Any]) -> Shapes:
    return Shapes(described)
