"""Which messages get spans, and that a consumer's open spans are bounded."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cluster.client import spans
from cluster.protocol.json_body import MessageQueue
from cluster.tracing.context import Parent, parent_of, property_of
from commitlog.records.properties import encode_properties

QUEUE = MessageQueue("T", "broker-a", 0)


@pytest.fixture
def memory() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def made(memory: InMemorySpanExporter) -> spans.ClientSpans:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return spans.ClientSpans(provider)


def message(offset: int) -> Any:
    block = property_of(Parent(7, 9, True))
    return SimpleNamespace(queue=QUEUE, queue_offset=offset, attempt=1, property_block=block)


def told(memory: InMemorySpanExporter) -> list[tuple[Any, str | None]]:
    """Place and error of each span that has ended."""
    found = []
    for span in memory.get_finished_spans():
        assert span.attributes is not None
        found.append((span.attributes[spans.QUEUE_OFFSET], span.status.description))
    return found


@pytest.mark.parametrize("name", ["my-traceparent", "x.traceparent"])
async def test_a_property_of_a_similar_name_is_no_context(
    made: spans.ClientSpans, name: str
) -> None:
    tail = encode_properties({"KEYS": "k", name: "v"})
    waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    _, sent = made.sending("T", waiter, tail)
    assert parent_of(sent) is not None, "it has a span like any other message"
    own = encode_properties({"traceparent": "of another library", name: "v"})
    assert made.sending("T", waiter, own)[1] == own


def test_messages_that_are_never_acknowledged_do_not_fill_the_memory(
    made: spans.ClientSpans, memory: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "OPEN_MAX", 3)
    consumer = made.of_consumer("G")
    for offset in range(5):
        consumer.given(message(offset))
    assert told(memory) == [(0, "not acknowledged"), (1, "not acknowledged")]
    consumer.all_done()
    assert told(memory)[2:] == [(2, None), (3, None), (4, None)]


def test_a_message_that_comes_again_has_a_span_of_its_own(
    made: spans.ClientSpans, memory: InMemorySpanExporter
) -> None:
    consumer = made.of_consumer("G")
    consumer.given(message(4))
    consumer.given(message(4))  # after a `seek` back
    assert told(memory) == [(4, "handed out again")]
    consumer.done(message(4))
    assert told(memory)[1:] == [(4, None)]
