"""How fast bytes pass, and what becomes of those that wait, on both servers.

Lower bounds hold on any machine; upper bounds are far from what a wrong server does, and one of
some tries is enough.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from chaos.toxiproxy.client import PlainTransport, Proxy, Toxiproxy

from .talk import ANSWER_SECONDS, dial, is_silent, once_in, receive

NEVER_MS = 60_000
TRIES = 4
STREAMS = ("upstream", "downstream")


def seconds_of_an_echo(proxy: Proxy) -> float:
    with dial(proxy) as connection:
        began = time.monotonic()
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"
        return time.monotonic() - began


# -- latency


def test_latency_is_of_each_byte_and_not_of_a_queue(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "latency", latency=600)

    def trial() -> bool:
        with dial(proxy) as connection:
            connection.sendall(b"1")
            time.sleep(0.1)
            began = time.monotonic()
            connection.sendall(b"2")
            assert receive(connection, 2) == b"12"
            took = time.monotonic() - began
            assert took >= 0.55
            return took < 0.9  # one after the other: 1.1

    assert once_in(TRIES, trial)


def test_jitter_goes_both_ways(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "latency", latency=80, jitter=80)
    # None of them early: once in 2 ** 24 times.
    assert once_in(40, lambda: seconds_of_an_echo(proxy) < 0.06)
    assert once_in(40, lambda: seconds_of_an_echo(proxy) > 0.1)


def test_two_of_a_kind_add_up(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    for name in ("one", "other"):
        toxiproxy.add_toxic("echo", "latency", name=name, latency=200)
    assert seconds_of_an_echo(proxy) >= 0.38


def test_a_latency_below_nothing_is_none(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "latency", latency=-NEVER_MS)
    assert seconds_of_an_echo(proxy) < ANSWER_SECONDS


# -- what waits, when a toxic goes or changes

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
            time.sleep(0.03)
        before = b"1" if kind == "slicer" else b""
        assert receive(connection, len(before)) == before
        assert is_silent(connection)
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
        assert is_silent(connection)
        toxiproxy.change_toxic("echo", "latency_downstream", latency=1)
        assert receive(connection, 1) == b"1"


def test_a_changed_bandwidth_sets_free_what_waits(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "bandwidth", rate=0)
    with dial(proxy) as connection:
        connection.sendall(b"1")
        assert is_silent(connection)
        connection.sendall(b"2")
        toxiproxy.change_toxic("echo", "bandwidth_downstream", rate=1000)
        assert receive(connection, 2) == b"12"


def test_a_toxic_holds_for_who_is_there(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with dial(proxy) as connection:
        for stream in ("upstream", "downstream"):
            toxiproxy.add_toxic("echo", "latency", stream, latency=100)
        began = time.monotonic()
        connection.sendall(b"1")
        assert receive(connection, 1) == b"1"
        assert time.monotonic() - began >= 0.19


def test_a_changed_toxicity_is_drawn_anew(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "bandwidth", toxicity=0.0, rate=0)
    with dial(proxy) as connection:
        connection.sendall(b"1")
        assert receive(connection, 1) == b"1"
        everyone = {"toxicity": 1.0}
        path = "/proxies/echo/toxics/bandwidth_downstream"
        assert PlainTransport(toxiproxy.url).request("PATCH", path, everyone)[0] == 200
        connection.sendall(b"2")
        assert is_silent(connection)


# -- bandwidth


def test_bandwidth_passes_a_little_at_a_time(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "bandwidth", rate=20)

    def trial() -> bool:
        with dial(proxy) as connection:
            began = time.monotonic()
            connection.sendall(bytes(32_000))
            first = connection.recv(1)
            took = time.monotonic() - began
            assert first + receive(connection, 31_999) == bytes(32_000)
            assert time.monotonic() - began >= 1.4
            return took < 0.8

    assert once_in(TRIES, trial)


# -- slicer


def test_slicer_slices_all_of_it(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    values = {"average_size": 4, "size_variation": 0, "delay": 1000}
    toxiproxy.add_toxic("echo", "slicer", **values)
    data = bytes(range(200)) * 10
    with dial(proxy) as connection:
        began = time.monotonic()
        connection.sendall(data)
        first = connection.recv(len(data))
        assert len(first) < len(data)
        assert first + receive(connection, len(data) - len(first)) == data
        assert time.monotonic() - began >= 0.48  # at least 500 pieces, a millisecond each
