"""The parts of OpenTelemetry that are used: remote parents, and a provider that exports by OTLP.

The only module that imports it; without the extra it raises MissingExtra, which names it.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from cluster.extras import missing_extra
from cluster.tracing.context import Parent

try:
    from opentelemetry import context, trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
except ModuleNotFoundError as error:
    raise missing_extra(error) from None

SCOPE = "dledger"
TRACES_PATH = "/v1/traces"
EXIT_SECONDS_MAX = 2.0
"""A process that ends waits so long for its last spans; a collector may be down, or hang."""
# Names of OpenTelemetry's conventions for messaging systems.
SYSTEM = "messaging.system"
TOPIC = "messaging.destination.name"
MESSAGE_ID = "messaging.message.id"
QUEUE_OFFSET = "messaging.rocketmq.queue_offset"
_SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)
_NOT_SAMPLED = trace.TraceFlags(trace.TraceFlags.DEFAULT)


def tracer_of(provider: Any) -> trace.Tracer:
    """The tracer of a provider; of the program's global one for True."""
    return trace.get_tracer(SCOPE, tracer_provider=None if provider is True else provider)


def below(parent: Parent) -> context.Context:
    """The context in which a new span is a child of `parent`, which another process began."""
    flags = _SAMPLED if parent.is_sampled else _NOT_SAMPLED
    span = trace.SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(span), context.Context())


def parent_from(span: trace.Span) -> Parent:
    """The same as a message carries it."""
    its = span.get_span_context()
    return Parent(its.trace_id, its.span_id, its.trace_flags.sampled)


def sampler(ratio: float) -> ParentBased:
    """Keeps `ratio` of the traces that their beginner sampled, and begins none."""
    return ParentBased(ALWAYS_OFF, remote_parent_sampled=TraceIdRatioBased(ratio))


class Exporting(NamedTuple):
    """A provider that exports. `close` sends its last spans and ends its threads; it waits for that
    `EXIT_SECONDS_MAX` seconds at most, after which no try is made again, and may be called again.
    """

    provider: TracerProvider
    close: Callable[[], None]


def exporting(endpoint: str, ratio: float, service: str, instance: str) -> Exporting:
    """Send spans to the collector at `endpoint`, in a thread of its own.

    Of traces that their beginner sampled, `ratio` is kept: the same ones on every node. It closes
    by itself when the process ends.
    """
    provider = TracerProvider(
        sampler=sampler(ratio),
        resource=Resource.create({"service.name": service, "service.instance.id": instance}),
        shutdown_on_exit=False,  # it waits for as long as the exporter tries, some 20 s
    )
    exporter = _Exporter(endpoint=endpoint.rstrip("/") + TRACES_PATH)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Exporting(provider, _closing(provider, exporter))


class _Exporter(OTLPSpanExporter):
    """An exporter that may be ended twice, silently: by a close that waits no longer, and by its
    provider."""

    _is_ended = False

    def shutdown(self) -> None:
        """Stop trying to send."""
        if not self._is_ended:
            self._is_ended = True
            super().shutdown()  # type: ignore[no-untyped-call]


def _closing(provider: TracerProvider, exporter: _Exporter) -> Callable[[], None]:
    """The function that ends the provider, also called when the process ends.

    The thread is there from the beginning: none can be started when the interpreter ends.
    """
    ends, ended = threading.Event(), threading.Event()

    def wait() -> None:
        ends.wait()
        provider.shutdown()
        ended.set()

    def close() -> None:
        atexit.unregister(close)
        ends.set()
        if not ended.wait(EXIT_SECONDS_MAX):
            exporter.shutdown()

    threading.Thread(target=wait, name="spans-end", daemon=True).start()
    atexit.register(close)
    return close
