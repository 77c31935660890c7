"""What our server has and the original lacks (chaos.md 4.2), through the same client."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chaos.toxiproxy import official, own
from chaos.toxiproxy.client import Proxy, Toxiproxy
from chaos.toxiproxy.metrics import Passed, parse, render
from chaos.toxiproxy.toxics import STREAMS

from .talk import ANSWER_SECONDS, Echo, Server, dial, receive, until

WAIT_SECONDS = 3.0


@pytest.fixture(scope="module")
def toxiproxy() -> Iterator[Toxiproxy]:
    with own.running(seed=1) as url:
        yield Toxiproxy(url)


class Sink(Server):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got = b""
        super().__init__()

    def heard(self, connection: socket.socket, data: bytes) -> None:
        self.got += data

    def has(self, size: int) -> bool:
        """Whether so many bytes come in time."""
        end = time.monotonic() + WAIT_SECONDS
        while len(self.got) < size and time.monotonic() < end:
            time.sleep(0.01)
        return len(self.got) >= size


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


@pytest.fixture
def proxy(toxiproxy: Toxiproxy, sink: Sink) -> Iterator[Proxy]:
    yield toxiproxy.create("sink", sink.address)
    toxiproxy.delete("sink")


def test_a_black_hole_answers_no_dial_and_open_connections_live(
    toxiproxy: Toxiproxy, proxy: Proxy, sink: Sink
) -> None:
    with socket.create_connection(proxy.address, timeout=WAIT_SECONDS) as connection:
        connection.sendall(b"1")
        assert sink.has(1)
        with toxiproxy.toxic("sink", "blackhole_syn", "upstream"):
            with pytest.raises(TimeoutError):
                socket.create_connection(proxy.address, timeout=0.4)
            connection.sendall(b"2")
            assert sink.has(2)
    socket.create_connection(proxy.address, timeout=WAIT_SECONDS).close()


def test_what_comes_after_so_many_bytes_vanishes(
    toxiproxy: Toxiproxy, proxy: Proxy, sink: Sink
) -> None:
    with toxiproxy.toxic("sink", "drop_after", "upstream", bytes=100):
        for _ in range(2):  # each connection has its own count
            with socket.create_connection(proxy.address, timeout=WAIT_SECONDS) as connection:
                for _ in range(3):
                    connection.sendall(bytes(60))
                    time.sleep(0.05)
                connection.settimeout(0.1)
                with pytest.raises(TimeoutError):  # and it stays open
                    connection.recv(1)
        assert sink.has(200)
        assert len(sink.got) == 200


@pytest.mark.parametrize(
    ("kind", "values"),
    [("corrupt", {"chance": 1}), ("duplicate", {"chance": 1}), ("reorder", {"chance": 1})],
)
def test_damage_reaches_the_target(
    toxiproxy: Toxiproxy, proxy: Proxy, sink: Sink, kind: str, values: dict[str, float]
) -> None:
    data = bytes(range(200))
    with (
        toxiproxy.toxic("sink", kind, "upstream", **values),
        socket.create_connection(proxy.address, timeout=WAIT_SECONDS) as connection,
    ):
        connection.sendall(data)
        assert sink.has(200)
    assert sink.got != data


def test_freeze_holds_and_delivers(toxiproxy: Toxiproxy, proxy: Proxy, sink: Sink) -> None:
    with socket.create_connection(proxy.address, timeout=WAIT_SECONDS) as connection:
        with toxiproxy.toxic("sink", "freeze", "upstream"):
            connection.sendall(b"held")
            time.sleep(0.2)
            assert sink.got == b""
        assert sink.has(4)
        assert sink.got == b"held"


def test_metrics_are_read_as_they_were_written() -> None:
    ends = ("upstream", "peer-n0-n1", "127.0.0.1:1", "127.0.0.1:2")
    assert parse(render({ends: Passed(7, 3)})) == {ends: Passed(7, 3)}
    assert parse('go_goroutines 9\nother_total{proxy="a"} 4\n') == {}


def test_a_server_that_runs_already_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(official.VARIABLE, "http://127.0.0.1:8474/")
    assert official.find() == "http://127.0.0.1:8474/"
    with official.running(official.find() or "") as url:
        assert url == "http://127.0.0.1:8474"


def test_bytes_that_wait_are_not_counted_yet(
    toxiproxy: Toxiproxy, proxy: Proxy, sink: Sink
) -> None:
    ends = ("upstream", proxy.name, proxy.listen, proxy.upstream)
    before = toxiproxy.passed()[ends]
    with socket.create_connection(proxy.address, timeout=WAIT_SECONDS) as connection:
        with (
            toxiproxy.toxic("sink", "latency", "upstream", latency=60_000),
            toxiproxy.toxic("sink", "freeze", "upstream"),
        ):
            for _ in range(20):
                connection.sendall(bytes(10))
                assert toxiproxy.passed()[ends] == before
        assert sink.has(200)
    after = Passed(before.received + 200, before.sent + 200)
    assert until(lambda: toxiproxy.passed()[ends] == after)


def test_no_byte_is_lost_while_toxics_come_and_go(toxiproxy: Toxiproxy) -> None:
    """The original's removal of a toxic may wait for seconds here, and then throws bytes away."""
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("latency", {"latency": 20, "jitter": 20}),
        ("bandwidth", {"rate": 500}),
        ("slicer", {"average_size": 500, "size_variation": 100, "delay": 100}),
        ("slow_close", {"delay": 1}),
        ("limit_data", {"bytes": 10**9}),
    ]
    chance = random.Random(7)
    data = chance.randbytes(3_000_000)
    echo = Echo()
    proxy = toxiproxy.create("echo", echo.address)
    with dial(proxy) as connection, ThreadPoolExecutor() as pool:
        connection.settimeout(10 * ANSWER_SECONDS)
        sending = pool.submit(connection.sendall, data)
        receiving = pool.submit(receive, connection, len(data))
        for _ in range(100):
            kind, values = chance.choice(kinds)
            name, stream = f"{kind}_{chance.randrange(2)}", chance.choice(STREAMS)
            there = {toxic["name"] for toxic in toxiproxy.toxics("echo")}
            if name not in there:
                toxiproxy.add_toxic("echo", kind, stream, name, **values)
            elif chance.random() < 0.3:
                toxiproxy.change_toxic("echo", name, **values)
            else:
                toxiproxy.remove_toxic("echo", name)
        toxiproxy.reset()
        assert receiving.result() == data
        sending.result()
    toxiproxy.delete("echo")
    echo.close()
