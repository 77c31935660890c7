"""Clients that behave as none should: they never read, they are very many, two say one name."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from cluster.broker.kernel.net.connection import WRITE_BUFFER_MAX
from cluster.nameserver.server import NameServer
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame, encode_frame
from tests.waiting import limit, within

from ..broker.harness import Brokers, RawClient, until

IDLE = 10_000
DESCRIPTORS = IDLE + 2_500
READ_SIZE = 256 * 1024  # of one read of an event loop: what may be answered before it pauses


@pytest.fixture
async def brokers(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Any]:
    """`await brokers(setting=value)`: one broker."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(**settings: Any) -> Brokers:
            made = Brokers(tmp_path, [new_address()], settings)
            stack.push_async_callback(made.close)
            await made.start()
            return made

        yield make


def _lazy(address: str) -> socket.socket:
    """A connection that takes little and that nobody reads from."""
    host, _, port = address.rpartition(":")
    lazy = socket.create_connection((host, int(port)))
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    lazy.setblocking(False)
    return lazy


# ---- who never reads -----------------------------------------------------------------------------


async def test_a_broker_closes_who_never_reads(brokers: Any) -> None:
    made = await brokers(idle_seconds_max=0.3)
    leader = await made.leader()
    server = leader.parts.server
    client = await made.client(leader)
    for _ in range(4):
        assert (await client.send(body=bytes(200_000))).code == 0
    lazy = _lazy(leader.address)
    try:
        pull = {
            "consumerGroup": "CG", "topic": "T", "queueId": "0", "queueOffset": "0",
            "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
            "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*",
        }  # fmt: skip
        data = encode_frame(Frame(RequestCode.PULL_MESSAGE, 1, pull)) * 400
        await asyncio.get_running_loop().sock_sendall(lazy, data)
        slow = await until(lambda: next((c for c in server.connections if c.is_paused), None))
        assert slow.unsent_size < 2 * WRITE_BUFFER_MAX

        async def is_closed() -> bool:
            assert (await client.send()).code == 0, "others are served"
            assert slow.unsent_size < 2 * WRITE_BUFFER_MAX
            server.close_idle()
            return slow not in server.connections

        await until(is_closed, "the end of its connection, read or not")
        assert slow.unsent_size == 0
    finally:
        lazy.close()


async def test_a_name_server_closes_who_never_reads(new_address: Callable[[], str]) -> None:
    """Short questions with long answers: what is not read is not even made."""
    question, size = {"namespace": "N", "key": "k"}, 400_000
    server = NameServer(new_address(), 9876, warm_up_seconds=0, idle_seconds_max=limit(2.0))
    async with server:
        asker = await RawClient.connect(server.address)
        put = await asker.ask(RequestCode.PUT_KV_CONFIG, {**question, "value": "v" * size})
        assert put.code == 0
        gc.collect()
        before = psutil.Process().memory_full_info().uss
        lazy = _lazy(server.address)
        try:
            frame = encode_frame(Frame(RequestCode.GET_KV_CONFIG, 1, question))
            with contextlib.suppress(TimeoutError):  # it takes no more, soon
                async with asyncio.timeout(limit(0.5)):
                    while True:  # until then
                        await asyncio.get_running_loop().sock_sendall(lazy, frame * 2000)
            # 2,000 questions came in one read: answered all at once they would be 800 MB.
            assert psutil.Process().memory_full_info().uss - before < 64 << 20
            other = await RawClient.connect(server.address)
            listed = await within(
                other.ask(RequestCode.GET_KV_CONFIG, question), "an answer for another"
            )
            assert len(listed.ext["value"]) == size, "others are served"
            other.close()
            # Now nobody says anything; who does not read goes like the others.
            await until(lambda: not server.connections)
        finally:
            lazy.close()
            asker.close()


# ---- very many -----------------------------------------------------------------------------------

# A line is an order: so many connections more.
_OPEN = """
import resource, socket, sys
host, port, kept = sys.argv[1], int(sys.argv[2]), []
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
for order in sys.stdin:
    kept += [socket.create_connection((host, port)) for _ in range(int(order))]
"""
AT_ONCE = 500  # no more than wait to be accepted (descriptors.backlog)


async def test_ten_thousand_idle_connections(brokers: Any) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        pytest.skip(f"not here: {DESCRIPTORS} descriptors are wanted and {hard} is the hard limit")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS), hard))
    made = await brokers(connections_max=IDLE + 10)
    leader = await made.leader()
    witness = await made.client(leader)
    assert (await witness.send()).code == 0
    gc.collect()
    before = psutil.Process().memory_full_info().uss
    host, _, port = leader.address.rpartition(":")
    crowd = await asyncio.create_subprocess_exec(sys.executable, "-c", _OPEN, host, port, stdin=-1)
    try:
        assert crowd.stdin is not None
        for count in range(AT_ONCE, IDLE + 1, AT_ONCE):
            crowd.stdin.write(b"%d\n" % AT_ONCE)
            await until(lambda count=count: len(leader.parts.server.connections) == count + 1)
        each = (psutil.Process().memory_full_info().uss - before) / IDLE
        assert each < 16_384, f"{each:.0f} bytes of memory a connection"
        for number in range(20):
            assert (await witness.send(body=b"%d" % number)).code == 0, "who talks is served"
        leader.parts.server.close_idle()
        assert len(leader.parts.server.connections) == IDLE + 1, "their time is not over"
        crowd.stdin.close()
        await until(lambda: len(leader.parts.server.connections) == 1)
        assert (await witness.send()).code == 0
    finally:
        if crowd.returncode is None:
            crowd.kill()
        await crowd.wait()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- groups --------------------------------------------------------------------------------------


async def test_members_that_disagree_are_warned_about(
    brokers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = await brokers()
    leader = await made.leader()
    first, second = await made.client(leader), await made.client(leader)
    first.client_id, second.client_id = "10.0.0.1@one", "10.0.0.2@two"
    caplog.set_level(logging.WARNING, "cluster.broker")
    assert (await first.heartbeat(expression="a")).code == 0
    assert leader.status()["groups_disagreeing"] == []
    assert (await second.heartbeat(expression="b")).code == 0, "both stay members"
    assert leader.status()["groups_disagreeing"] == ["CG"]
    (warning,) = [r.getMessage() for r in caplog.records if "disagree" in r.getMessage()]
    for said in ("CG", "10.0.0.1@one", "10.0.0.2@two", "'a'", "'b'", "same subscriptions"):
        assert said in warning
    second.close()
    await until(lambda: leader.status()["groups_disagreeing"] == [])


async def test_two_clients_with_one_id_are_warned_about(
    brokers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = await brokers()
    leader = await made.leader()
    first, second = await made.client(leader), await made.client(leader)
    caplog.set_level(logging.WARNING, "cluster.broker")
    for client in (first, second, first):
        assert (await client.heartbeat()).code == 0
    assert leader.status()["client_ids_shared"] == [], "the second may be the first, reconnected"
    assert (await second.heartbeat()).code == 0
    assert leader.status()["client_ids_shared"] == ["client@1"]
    (warning,) = [r.getMessage() for r in caplog.records if "several clients" in r.getMessage()]
    assert "client@1" in warning
    second.close()
    await until(lambda: leader.status()["client_ids_shared"] == [])
    answer = await first.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "CG"})
    assert b"client@1" in answer.body, "the other one is still a member"
