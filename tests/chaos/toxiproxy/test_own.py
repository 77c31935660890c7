"""What our server has and the original lacks (docs/spec/chaos.md 4.2), through the same client."""

from __future__ import annotations

import errno
import random
import select
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from chaos.toxiproxy import official, own
from chaos.toxiproxy.client import Proxy, Toxiproxy
from chaos.toxiproxy.metrics import Passed, parse, render
from chaos.toxiproxy.toxics import STREAMS
from tests.waiting import limit, wait_until

from .talk import Echo, Server, dial, is_silent, let_pass, receive


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

    def until(self, size: int) -> None:
        """Wait until so many bytes have come."""
        wait_until(lambda: len(self.got) >= size, f"{size} bytes reach the target")


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
    with dial(proxy) as connection:
        connection.sendall(b"1")
        sink.until(1)
        with toxiproxy.toxic("sink", "blackhole_syn", "upstream"), socket.socket() as swallowed:
            swallowed.setblocking(False)
            assert swallowed.connect_ex(proxy.address) == errno.EINPROGRESS
            connection.sendall(b"2")
            sink.until(2)
            # A dial of loopback is answered within the call that dials.
            answers = select.poll()  # `select.select` takes no descriptor above 1,023
            answers.register(swallowed, select.POLLOUT | select.POLLERR)
            assert answers.poll(0) == []
    with dial(proxy):
        pass


def test_what_comes_after_so_many_bytes_vanishes(
    toxiproxy: Toxiproxy, proxy: Proxy, sink: Sink
) -> None:
    with toxiproxy.toxic("sink", "drop_after", "upstream", bytes=100):
        for _ in range(2):  # each connection has its own count
            with dial(proxy) as connection:
                for _ in range(3):
                    connection.sendall(bytes(60))
                    let_pass(toxiproxy)
                assert is_silent(connection, toxiproxy), "it stays open"
        sink.until(200)
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
        dial(proxy) as connection,
    ):
        connection.sendall(data)
        sink.until(200)
    assert sink.got != data


def test_freeze_holds_and_delivers(toxiproxy: Toxiproxy, proxy: Proxy, sink: Sink) -> None:
    with dial(proxy) as connection:
        with toxiproxy.toxic("sink", "freeze", "upstream"):
            connection.sendall(b"held")
            let_pass(toxiproxy)
            assert sink.got == b""
        sink.until(4)
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


def test_build_that_takes_too_long_is_told_as_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An OSError, which the set-up of clients tells and goes on behind."""
    slow = tmp_path / "go"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(official, "FOLDER", tmp_path / "made")
    monkeypatch.setattr(official, "go", lambda: str(slow))
    monkeypatch.setattr(official, "BUILD_SECONDS_MAX", 0.05)
    with pytest.raises(OSError, match=r"did not end in 0\.05 s"):
        official.build()


def test_a_server_that_another_one_built_meanwhile_is_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(official, "FOLDER", tmp_path)
    monkeypatch.setattr(official, "go", lambda: "false")
    with pytest.raises(OSError, match="go install"):
        official.build()
    (tmp_path / "server").touch(0o755)
    assert official.build() == str(tmp_path / "server")


def test_bytes_that_wait_are_not_counted_yet(
    toxiproxy: Toxiproxy, proxy: Proxy, sink: Sink
) -> None:
    ends = ("upstream", proxy.name, proxy.listen, proxy.upstream)
    before = toxiproxy.passed()[ends]
    with dial(proxy) as connection:
        with (
            toxiproxy.toxic("sink", "latency", "upstream", latency=60_000),
            toxiproxy.toxic("sink", "freeze", "upstream"),
        ):
            for _ in range(20):
                connection.sendall(bytes(10))
                assert toxiproxy.passed()[ends] == before
        sink.until(200)
    after = Passed(before.received + 200, before.sent + 200)
    wait_until(lambda: toxiproxy.passed()[ends] == after, "all are counted")


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
    data = chance.randbytes(1_000_000)
    echo = Echo()
    proxy = toxiproxy.create("echo", echo.address)
    with dial(proxy) as connection, ThreadPoolExecutor() as pool:
        connection.settimeout(limit(60))
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
