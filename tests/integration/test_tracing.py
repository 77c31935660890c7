"""A cluster of processes exports its spans to a collector that speaks OTLP over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import cluster
from cluster.client import ClientConfig
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from tests.waiting import eventually

MESSAGES = 3


@asynccontextmanager
async def collector(host: str) -> AsyncIterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """Its address, and what it has been sent."""
    got: list[ExportTraceServiceRequest] = []

    async def take(request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        got.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response(body=ExportTraceServiceResponse().SerializeToString())

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, host, 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    try:
        yield f"http://{host}:{port}", got
    finally:
        await runner.cleanup()


async def test_one_trace_from_the_sender_over_all_nodes_to_the_consumer(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with collector(new_address()) as (address, got):
        nodes = LocalCluster.create(
            tmp_path / "c",
            plan.plan(3, plan.scratch_hosts(3)),
            {"broker.tracing": address},
            tied=True,
        )
        provider = TracerProvider(resource=Resource({"service.instance.id": "shop-1"}))
        provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{address}/v1/traces"))
        )
        await asyncio.to_thread(nodes.up)
        try:
            config = ClientConfig(tracing=provider)
            async with cluster.connect(nodes.nameserver, config) as mq:
                await mq.admin().create_topic("T", 1)
                async with mq.producer() as producer:
                    for number in range(MESSAGES):
                        await producer.send("T", b"%d" % number)
                async with mq.consumer("T", group="G") as consumer:
                    for number in range(MESSAGES):
                        assert (await anext(aiter(consumer))).body == b"%d" % number

            def traces() -> dict[bytes, set[tuple[str, str]]]:
                """Trace id → (service instance, name of a span)."""
                found: dict[bytes, set[tuple[str, str]]] = {}
                for request in got:
                    for resource in request.resource_spans:
                        (instance,) = (
                            pair.value.string_value
                            for pair in resource.resource.attributes
                            if pair.key == "service.instance.id"
                        )
                        for scope in resource.scope_spans:
                            for span in scope.spans:
                                found.setdefault(span.trace_id, set()).add((instance, span.name))
                return found

            def whole(spans: set[tuple[str, str]]) -> bool:
                names = {name for _, name in spans}
                return {instance for instance, _ in spans} == {"n0", "n1", "n2", "shop-1"} and (
                    names == {"send T", "append T", "replicate", "dispatch", "apply T", "deliver T"}
                )

            async def all_whole() -> bool:
                await asyncio.to_thread(provider.force_flush)
                return len(traces()) == MESSAGES and all(map(whole, traces().values()))

            await eventually(all_whole, "each message's spans have come from all nodes", pause=0.2)
        finally:
            await asyncio.to_thread(nodes.down)
            await asyncio.to_thread(provider.shutdown)
