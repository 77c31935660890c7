"""Spans of a message over its sender, the leader, the followers and its consumer: one trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

import cluster
from cluster.broker.tracing import BrokerSpans
from cluster.client import ClientConfig, ConsumerConfig, ProducerConfig
from cluster.tracing import telemetry
from tests.waiting import limit

from .conftest import MakeBrokers
from .harness import Brokers, until
from .test_our_client import QUICK, serving

COLLECTOR = "http://127.0.0.1:4318"


@pytest.fixture
def memory() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def closed() -> list[str]:
    """Nodes that have ended their exporter."""
    return []


@pytest.fixture
def provider(
    memory: InMemorySpanExporter, closed: list[str], monkeypatch: pytest.MonkeyPatch
) -> TracerProvider:
    """Of the client, and of each node by its own sampler."""

    def exporting(endpoint: str, ratio: float, service: str, instance: str) -> telemetry.Exporting:
        assert endpoint == COLLECTOR
        made = TracerProvider(sampler=telemetry.sampler(ratio))
        made.add_span_processor(SimpleSpanProcessor(memory))
        return telemetry.Exporting(made, lambda: closed.append(instance))

    monkeypatch.setattr(telemetry, "exporting", exporting)
    found = TracerProvider()
    found.add_span_processor(SimpleSpanProcessor(memory))
    return found


def client_of(brokers: Brokers, provider: Any) -> cluster.Client:
    config = ClientConfig(
        stall_timeout=QUICK.stall_timeout, request_timeout=limit(10), tracing=provider
    )
    (address,) = brokers.nodes[0].config.name_servers
    return cluster.connect(address, config)


def named(spans: Sequence[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


def parents(span: ReadableSpan) -> int:
    assert span.parent is not None, span.name
    return span.parent.span_id


async def test_one_message_is_one_trace_over_all_nodes(
    make_brokers: MakeBrokers,
    new_address: Callable[[], str],
    provider: TracerProvider,
    memory: InMemorySpanExporter,
) -> None:
    async with (
        serving(make_brokers, new_address(), 3, tracing=COLLECTOR) as (brokers, _),
        client_of(brokers, provider) as mq,
        mq.consumer("T", group="G") as consumer,
    ):
        async with mq.producer() as producer:
            receipt = await producer.send("T", b"one", key="k")
        message = await anext(aiter(consumer))
        assert message.body == b"one"
        consumer.ack(message)
        await until(lambda: len(memory.get_finished_spans()) >= 9, "all spans have ended")
        spans, names = memory.get_finished_spans(), {n.config.node_id for n in brokers.nodes}

    assert Counter(span.name for span in spans) == {
        "send T": 1,
        "append T": 1,
        "replicate": 1,
        "apply T": 2,
        "dispatch": 3,
        "deliver T": 1,
    }
    assert len({span.context.trace_id for span in spans}) == 1
    (send,), (append,), (replicate,) = (
        named(spans, n) for n in ("send T", "append T", "replicate")
    )
    (deliver,) = named(spans, "deliver T")
    assert send.parent is None
    assert {parents(span) for span in (append, deliver, *named(spans, "apply T"))} == {
        send.context.span_id
    }
    assert parents(replicate) == append.context.span_id
    nodes = {span.attributes["dledger.node"] for span in (append, *named(spans, "apply T"))}
    assert nodes == names
    assert len(nodes) == 3
    assert {span.attributes["dledger.index"] for span in (append, *named(spans, "apply T"))} == {
        receipt.index
    }
    assert send.kind is SpanKind.PRODUCER
    assert append.kind is SpanKind.SERVER
    assert deliver.kind is SpanKind.CONSUMER
    assert send.start_time <= append.start_time <= replicate.end_time <= append.end_time
    assert deliver.start_time >= replicate.end_time, "nobody sees what no majority has"


async def test_batches_delays_and_retries_go_on_with_their_trace(
    make_brokers: MakeBrokers,
    new_address: Callable[[], str],
    provider: TracerProvider,
    memory: InMemorySpanExporter,
) -> None:
    async with (
        serving(make_brokers, new_address(), tracing=COLLECTOR) as (brokers, _),
        client_of(brokers, provider) as mq,
        mq.consumer("T", group="G", config=ConsumerConfig(manual_ack=True)) as consumer,
    ):
        async with mq.producer(config=ProducerConfig(batching=True)) as producer:
            await producer.open_topic("T")
            both = [producer.send_nowait("T", b"batched", queue_id=0) for _ in range(2)]
            await producer.flush()
            assert all([(await one).index > 0 for one in both])
        for _ in range(2):
            consumer.ack(await anext(aiter(consumer)))
        async with mq.producer() as producer:
            await producer.send_delayed("T", b"later", delay=0.2)
        late = await anext(aiter(consumer))
        assert late.body == b"later"
        await consumer.nack(late, delay_level=1)
        again = await consumer.receive(limit(20))
        assert again is not None
        assert again.attempt == 2
        consumer.ack(again)
    spans = memory.get_finished_spans()
    traces = {span.context.trace_id for span in named(spans, "send T")}
    assert len(traces) == 3
    assert {span.context.trace_id for span in spans} == traces
    of_late = [span for span in spans if span.context.trace_id == spans[-1].context.trace_id]
    assert len([span for span in of_late if span.name.startswith("append ")]) >= 3, "each record"
    assert len([span for span in of_late if span.name.startswith("deliver ")]) == 2
    (given_back,) = [span for span in of_late if span.status.status_code is StatusCode.ERROR]
    assert given_back.name == "deliver T"


async def test_asking_for_the_next_message_ends_the_span_of_the_one_before(
    make_brokers: MakeBrokers,
    new_address: Callable[[], str],
    provider: TracerProvider,
    memory: InMemorySpanExporter,
) -> None:
    """It acknowledges that one, also where no next one comes for hours."""
    async with (
        serving(make_brokers, new_address(), tracing=COLLECTOR) as (brokers, _),
        client_of(brokers, provider) as mq,
        mq.producer() as producer,
        mq.consumer("T", group="G") as consumer,
    ):
        await producer.send("T", b"the last one")
        assert await consumer.receive(limit(20)) is not None
        assert not named(memory.get_finished_spans(), "deliver T")
        assert await consumer.receive(0.01) is None
        assert len(named(memory.get_finished_spans(), "deliver T")) == 1


async def test_an_entry_in_the_place_of_one_that_was_cut_off_is_not_this_nodes(
    make_brokers: MakeBrokers,
    new_address: Callable[[], str],
    provider: TracerProvider,
    memory: InMemorySpanExporter,
) -> None:
    """A node that has led proposed another entry there, which the next leader has cut off."""
    async with (
        serving(make_brokers, new_address(), tracing=COLLECTOR) as (brokers, _),
        client_of(brokers, provider) as mq,
        mq.producer() as producer,
    ):
        await producer.open_topic("T")
        log: Any = brokers.nodes[0].parts.admin_ports.log
        traces, noted = log.traces, log.traces.proposed
        log.traces.proposed = lambda first, count, term, began: noted(first, count, term - 1, 1)
        await producer.send("T", b"one")
        await until(lambda: named(memory.get_finished_spans(), "apply T"), "it is applied")
        assert not named(memory.get_finished_spans(), "append T")
        assert not traces._proposed


async def test_a_send_that_fails_says_so_and_an_own_context_is_kept(
    make_brokers: MakeBrokers,
    new_address: Callable[[], str],
    provider: TracerProvider,
    memory: InMemorySpanExporter,
) -> None:
    own = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}
    async with (
        serving(make_brokers, new_address(), tracing=COLLECTOR) as (brokers, _),
        client_of(brokers, provider) as mq,
        mq.producer(config=ProducerConfig(delivery_timeout=0.5)) as producer,
    ):
        await producer.send("T", b"of another library", properties=own)
        await until(lambda: bool(named(memory.get_finished_spans(), "append T")), "it is appended")
        (append,) = named(memory.get_finished_spans(), "append T")
        assert parents(append) == 0x00F067AA0BA902B7
        assert not named(memory.get_finished_spans(), "send T")
        await brokers.stop_node(0)
        with pytest.raises(cluster.ClusterError):
            await producer.send("T", b"to nobody")
        (send,) = named(memory.get_finished_spans(), "send T")
        assert send.status.status_code is StatusCode.ERROR


async def test_what_is_not_sampled_makes_no_span_on_any_node(
    make_brokers: MakeBrokers,
    new_address: Callable[[], str],
    provider: TracerProvider,
    memory: InMemorySpanExporter,
) -> None:
    unsampled = TracerProvider(sampler=ALWAYS_OFF)
    async with (
        serving(make_brokers, new_address(), tracing=COLLECTOR) as (brokers, plain),
        client_of(brokers, unsampled) as mq,
        mq.producer() as producer,
        plain.producer() as stock,
    ):
        await producer.send("T", b"not sampled")
        await stock.send("T", b"no context")
        async with mq.reader("T") as reader:
            found = await reader.receive_many(2, limit(5))
        assert found[0].properties["traceparent"].endswith("-00")
    assert memory.get_finished_spans() == ()


async def test_a_mistake_of_the_spans_stops_no_replica(
    make_brokers: MakeBrokers,
    new_address: Callable[[], str],
    provider: TracerProvider,
    memory: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mistaken(*_: object) -> None:
        raise AttributeError("a mistake of the spans")

    monkeypatch.setattr(BrokerSpans, "_begin", mistaken)
    async with (
        serving(make_brokers, new_address(), tracing=COLLECTOR) as (brokers, _),
        client_of(brokers, provider) as mq,
        mq.producer() as producer,
    ):
        for number in range(3):
            await producer.send("T", b"%d" % number)
        assert not any(node.status()["failed"] for node in brokers.nodes)
        said = brokers.mistakes.copy()
        brokers.mistakes.clear()
    assert not named(memory.get_finished_spans(), "append T")
    assert len(said) == len(brokers.nodes), "once a node, not once a message"
    assert all("spans; this node makes no more until it starts again" in one for one in said)


async def test_a_broker_that_closes_ends_its_exporter(
    make_brokers: MakeBrokers,
    provider: TracerProvider,
    closed: list[str],
) -> None:
    """Its process may go on, and start it again."""
    async with make_brokers(tracing=COLLECTOR) as brokers:
        assert closed == []
        await brokers.stop_node(0)
        assert closed == ["n0"]
        await brokers.start_node(0)
        await brokers.leader()
        assert closed == ["n0"]
    assert closed == ["n0", "n0"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"tracing": "127.0.0.1:4318"},
        {"tracing": "http://user:secret@127.0.0.1:4318"},
        {"tracing": "http://127.0.0.1:4318/v1/traces"},
        {"tracing_ratio": 0.0},
        {"tracing_ratio": 1.5},
    ],
)
async def test_settings_that_cannot_be_are_refused(
    make_brokers: MakeBrokers, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))) as raised:
        async with make_brokers(1, **wrong):
            pass
    assert "secret@" not in str(raised.value)
