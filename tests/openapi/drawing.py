"""Requests to each operation of the API description, drawn by Schemathesis and checked against it.

A module of its own: importing Schemathesis takes half a second, which every process that collects
tests would spend.
"""

from collections.abc import Callable
from typing import Any

import schemathesis
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.cases import scaled

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# The same requests in every run, and only a few.
FIXED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=scaled(10),
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def try_each(method: str, use: Callable[[Case[Any]], None]) -> None:
    """Call *use* with requests to each operation that has this method."""
    api = schemathesis.openapi.from_wsgi("/openapi.json", get_wsgi_application())
    drawn: Any = api.include(method=method).get_all_operations()
    operations = [operation.ok() for operation in drawn]
    assert len(operations) > 10
    for operation in operations:
        FIXED(given(case=operation.as_strategy())(use))()
