"""What becomes of bytes that wait, when a toxic goes or changes, on both servers."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.toxiproxy.client import PlainTransport, Proxy, Toxiproxy

from .talk import dial, is_silent, let_pass, receive, says

NEVER_MS = 60_000
STREAMS = ("upstream", "downstream")


def test_a_latency_below_nothing_is_none(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "latency", latency=-NEVER_MS)
    with dial(proxy) as connection:
        assert says(connection, b"x")


HOLDING = [
    ("latency", {"latency": NEVER_MS}),
    ("bandwidth", {"rate": 0}),
    ("slicer", {"average_size": 1, "size_variation": 0, "delay": NEVER_MS * 1000}),
]


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("kind", "values"), HOLDING, ids=lambda one: str(one)[:9])
@pytest.mark.parametrize("way", ["remove", "reset"])
def test_what_waits_arrives_in_order(
    toxiproxy: Toxiproxy, proxy: Proxy, way: str, kind: str, values: dict[str, Any], stream: str
) -> None:
    made = toxiproxy.add_toxic("echo", kind, stream, **values)
    with dial(proxy) as connection:
        for piece in (b"12", b"34", b"56"):
            connection.sendall(piece)
            let_pass(toxiproxy)
        before = b"1" if kind == "slicer" else b""
        assert receive(connection, len(before)) == before
        assert is_silent(connection, toxiproxy)
        if way == "remove":
            toxiproxy.remove_toxic("echo", made["name"])
        else:
            toxiproxy.reset()
        assert before + receive(connection, 6 - len(before)) == b"123456"
        connection.sendall(b"7")
        assert receive(connection, 1) == b"7"


def test_a_changed_latency_sets_free_what_is_on_its_way(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "latency", latency=NEVER_MS)
    with dial(proxy) as connection:
        connection.sendall(b"1")
        assert is_silent(connection, toxiproxy)
        toxiproxy.change_toxic("echo", "latency_downstream", latency=1)
        assert receive(connection, 1) == b"1"


def test_a_changed_bandwidth_sets_free_what_waits(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "bandwidth", rate=0)
    with dial(proxy) as connection:
        connection.sendall(b"1")
        assert is_silent(connection, toxiproxy)
        connection.sendall(b"2")
        toxiproxy.change_toxic("echo", "bandwidth_downstream", rate=1000)
        assert receive(connection, 2) == b"12"


def test_a_changed_toxicity_is_drawn_anew(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "bandwidth", toxicity=0.0, rate=0)
    with dial(proxy) as connection:
        connection.sendall(b"1")
        assert receive(connection, 1) == b"1"
        everyone = {"toxicity": 1.0}
        path = "/proxies/echo/toxics/bandwidth_downstream"
        assert PlainTransport(toxiproxy.url).request("PATCH", path, everyone)[0] == 200
        connection.sendall(b"2")
        assert is_silent(connection, toxiproxy)
