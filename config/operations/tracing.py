"""OpenTelemetry: sends the spans of requests and of traced messages to a collector.

Optional: it needs OTEL_EXPORTER_OTLP_ENDPOINT and the packages of requirements-otel.txt.
"""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from config.server import observing
from core import trace_context
from core.version import VERSION
from engagement import traces

SERVICE_NAME = "engagement-data-service"
_propagator = TraceContextTextMapPropagator()


def set_up() -> TracerProvider:
    """Send spans to the collector that the environment names."""
    resource = Resource.create({"service.name": SERVICE_NAME, "service.version": VERSION})
    provider = TracerProvider(resource=resource.merge(OTELResourceDetector().detect()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    use(provider)
    return provider


def use(provider: TracerProvider) -> None:
    """Record spans with this provider."""
    tracer = provider.get_tracer(SERVICE_NAME, VERSION)
    traces.tracer = StepTracer(tracer)
    observing.request_tracer = RequestTracer(tracer)


class StepTracer:
    """Records the steps of a traced message as spans."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def record(
        self, name: str, parent: str, started: datetime, ended: datetime, attributes: dict[str, Any]
    ) -> str:
        span = self._tracer.start_span(
            name,
            _propagator.extract({trace_context.HEADER: parent}),
            SpanKind.CONSUMER,
            {f"eds.{key}": value for key, value in attributes.items()},
            start_time=_nanoseconds(started),
        )
        span.end(_nanoseconds(ended))
        return _traceparent(span) or parent


class RequestTracer:
    """Records requests as spans."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def begin(self, request: HttpRequest) -> Span:
        """Begin the request's span. Its messages then belong to the span's trace."""
        parent = trace_context.from_environ(request.META)
        context = _propagator.extract({trace_context.HEADER: parent} if parent else {})
        span = self._tracer.start_span(str(request.method), context, SpanKind.SERVER)
        if span.is_recording() and (traceparent := _traceparent(span)):
            request.META[trace_context.ENVIRON_KEY] = traceparent
        return span

    def end(
        self, span: Span, request: HttpRequest, response: HttpResponseBase, endpoint: str
    ) -> None:
        status = response.status_code
        span.update_name(f"{request.method} {endpoint}")
        span.set_attribute("http.request.method", str(request.method))
        span.set_attribute("http.route", endpoint)
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_status(StatusCode.ERROR)
        span.end()


def _traceparent(span: Span) -> str | None:
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, trace.set_span_in_context(span))
    return carrier.get(trace_context.HEADER)


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
