"""A traced request stays one trace through the inbox, the drain, scoring, and deliveries."""

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pytest_django import Settings

from config import apps
from config.operations import tracing
from config.server import observing
from core import retention, trace_context
from engagement import traces
from engagement.models import Product, SubjectTrace, User
from engagement.rescoring.rescore import rescore
from ingestion import tasks
from ingestion.inbox import group_commit
from ingestion.models import InboxMessage
from notifications.delivery.deliver import deliver
from tests.config.test_request_metrics import collector, send
from tests.notifications.receiver import Receiver
from tests.notifications.rows import Clock, a_destination
from tests.notifications.test_delivery import a_message

__all__ = ["collector", "send"]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED, UNSAMPLED = f"00-{TRACE}-00f067aa0ba902b7-01", f"00-{TRACE}-00f067aa0ba902b7-00"
Post = Callable[[str | None], None]


@pytest.mark.parametrize(
    ("header", "trace"),
    [
        (SAMPLED, SAMPLED),
        (SAMPLED.upper(), None),
        (SAMPLED + "-more", None),
        ("01" + SAMPLED[2:] + "-more", "01" + SAMPLED[2:]),
        ("01" + SAMPLED[2:] + "more", None),
        ("ff" + SAMPLED[2:], None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        ("", None),
        ("00-x'; DROP TABLE", None),
    ],
)
def test_only_valid_trace_contexts_are_kept(header: str, trace: str | None) -> None:
    assert trace_context.from_environ({"HTTP_TRACEPARENT": header}) == trace


@pytest.fixture
def post(send: Callable[..., int], acme_key: str) -> Post:
    def post(traceparent: str | None) -> None:
        body = {"userId": "ann", "groupId": "initech", "traits": {"age": 7}}
        headers = {"HTTP_AUTHORIZATION": f"Basic {acme_key}"}
        headers |= {"HTTP_TRACEPARENT": traceparent} if traceparent else {}
        assert send("POST", "/v2/identify", json.dumps(body).encode(), **headers) == 202
        group_commit.stop()

    return post


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    monkeypatch.setattr(traces, "tracer", None)
    monkeypatch.setattr(observing, "request_tracer", None)
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(provider)
    return exporter


@pytest.mark.django_db(transaction=True)
def test_spans_and_lines_of_a_request_are_one_trace_to_its_delivery(
    acme: Product,
    post: Post,
    exporter: InMemorySpanExporter,
    receiver: Receiver,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.ACCESS_LOG = True
    caplog.set_level(logging.INFO)
    # It begins a trace of its own. The latest trace of a user counts.
    post(None)
    post(SAMPLED)
    tasks.drain()
    rescore(timezone.now())
    ann = User.objects.get(external_id="ann")
    clock = Clock(timezone.now())
    a_message(a_destination(acme, receiver.url), clock, scope="user", subject_id=ann.pk)
    deliver(clock)

    spans: dict[Any, Any] = {
        (span.name, span.attributes.get("eds.scope", "")): span
        for span in exporter.get_finished_spans()
        if span.attributes is not None and f"{span.context.trace_id:032x}" == TRACE
    }
    request, record = spans["POST v2_identify", ""], spans["record", ""]
    score, delivery = spans["score", "user"], spans["deliver", ""]
    assert ("score", "account") in spans
    assert f"{request.parent.span_id:016x}" == "00f067aa0ba902b7"
    chain = [(record, request), (score, record), (delivery, score)]
    assert [child.parent.span_id for child, _ in chain] == [
        parent.context.span_id for _, parent in chain
    ]
    assert request.attributes["http.response.status_code"] == 202
    assert delivery.attributes["eds.outcome"] == "delivered"

    (received,) = receiver.received
    assert received.headers["traceparent"] == f"00-{TRACE}-{score.context.span_id:016x}-01"
    lines = [getattr(line, "fields", {}) for line in caplog.records]
    steps = [line["step"] for line in lines if line.get("trace_id") == TRACE]
    assert steps == ["record", "score", "score", "deliver"]


@pytest.mark.django_db(transaction=True)
def test_without_a_collector_a_trace_is_passed_on_and_expires(
    acme: Product, post: Post, receiver: Receiver
) -> None:
    for traceparent in (None, UNSAMPLED, SAMPLED):
        post(traceparent)
        assert InboxMessage.objects.get().traceparent == traceparent
        tasks.drain()
        assert SubjectTrace.objects.count() == (2 if traceparent == SAMPLED else 0)
    rescore(timezone.now())
    assert not SubjectTrace.objects.filter(is_scored=False).exists()
    ann = User.objects.get(external_id="ann")
    assert traces.of_subject(acme.pk, "user", ann.pk) == SAMPLED
    retention.delete_expired("engagement", timezone.now() + timedelta(minutes=59))
    assert SubjectTrace.objects.count() == 2
    retention.delete_expired("engagement", timezone.now() + timedelta(minutes=61))
    assert SubjectTrace.objects.count() == 0


def test_spans_reach_a_collector(
    exporter: InMemorySpanExporter, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = receiver.url.removesuffix("/hook")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    provider = tracing.set_up()
    now = timezone.now()
    followed = traces.report("record", SAMPLED, now, now, message=1)
    assert followed != SAMPLED and trace_context.trace_id(followed) == TRACE
    provider.shutdown()
    (received,) = receiver.received
    assert received.path == "/v1/traces" and b"engagement-data-service" in received.body


def test_missing_packages_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(apps, "import_module", fail)
    with pytest.raises(ImproperlyConfigured, match=r"pip install -r requirements-otel\.txt"):
        apps._set_up_tracing()


@pytest.mark.django_db
def test_the_access_log_tells_no_ids_and_no_parameters(
    send: Callable[..., int], settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ACCESS_LOG = True
    caplog.set_level(logging.INFO, logger="config.access")
    query = {"QUERY_STRING": "search=ann@example.com", "HTTP_TRACEPARENT": SAMPLED}
    assert send("GET", "/v2/accounts/7123", **query) == 401
    assert send("GET", "/segment/v1/projects/edk_secret_key_of_acme/settings") == 200
    assert send("GET", "/v2/ann@example.com") == 404
    assert send("GET", "/ann@example.com") == 404
    lines = [record.fields for record in caplog.records]  # type: ignore[attr-defined]
    assert [(line["endpoint"], line["path"], line["status"]) for line in lines] == [
        ("v2_account", "/v2/accounts/<int:account_id>", 401),
        ("segment_settings", None, 200),
        ("unknown_path", None, 404),
        ("unmatched", None, 404),
    ]
    assert lines[0]["bytes"] > 0 and 0 < lines[0]["seconds"] < 60
    formatter = logging.getLogger().handlers[0].formatter
    for text in (caplog.text, *(map(formatter.format, caplog.records) if formatter else ())):
        assert "7123" not in text and "example.com" not in text and "secret" not in text
