"""Toxics whose subject is time: how late, how fast, when they end a connection, on both servers.

Lower bounds hold on any machine; upper bounds are far from what a wrong server does, and one of
some tries is enough. Without a clock the same toxics are tested in the files beside this one, and
our pipes on a clock of their own in `test_pipes.py`.
"""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from chaos.toxiproxy.client import Proxy, Toxiproxy
from tests.waiting import wait_until

from .talk import (
    Target,
    dial,
    has_ended,
    how_it_ends,
    is_silent,
    once_in,
    receive,
    says,
    through,
)
from .test_conformance_ends import STREAMS

pytestmark = [pytest.mark.long, pytest.mark.alone]

TRIES = 4
LATER_MS, LATER_SECONDS = 400, 0.35  # timers are coarse


@pytest.mark.parametrize("stream", STREAMS)
def test_latency_delays(toxiproxy: Toxiproxy, proxy: Proxy, stream: str) -> None:
    with toxiproxy.toxic("echo", "latency", stream, latency=200), dial(proxy) as connection:
        began = time.monotonic()
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"
        assert time.monotonic() - began >= 0.19


def test_bandwidth_caps(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    data = bytes(50_000)
    with toxiproxy.toxic("echo", "bandwidth", rate=100), dial(proxy) as connection:
        began = time.monotonic()
        connection.sendall(data)
        assert receive(connection, len(data)) == data
        assert time.monotonic() - began >= 0.3


def test_slow_close_delays_the_end(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    # The client's own end of the stream reaches the server, whose answer is the end, too.
    with toxiproxy.toxic("echo", "slow_close", delay=300), dial(proxy) as connection:
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"
        began = time.monotonic()
        connection.shutdown(socket.SHUT_WR)
        assert has_ended(connection)
        assert time.monotonic() - began >= 0.25


def seconds_of_an_echo(proxy: Proxy) -> float:
    with dial(proxy) as connection:
        began = time.monotonic()
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"
        return time.monotonic() - began


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


def test_a_toxic_holds_for_who_is_there(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with dial(proxy) as connection:
        for stream in STREAMS:
            toxiproxy.add_toxic("echo", "latency", stream, latency=100)
        began = time.monotonic()
        connection.sendall(b"1")
        assert receive(connection, 1) == b"1"
        assert time.monotonic() - began >= 0.19


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


@pytest.mark.parametrize("stream", STREAMS)
def test_reset_peer_resets_who_dials_later_and_talks(
    toxiproxy: Toxiproxy, proxy: Proxy, stream: str
) -> None:
    toxiproxy.add_toxic("echo", "reset_peer", stream, timeout=LATER_MS)
    with dial(proxy) as connection:
        began = time.monotonic()
        connection.sendall(b"x")
        assert how_it_ends(connection) == "reset"
        assert time.monotonic() - began >= LATER_SECONDS


@pytest.mark.parametrize("stream", STREAMS)
def test_reset_peer_only_ends_a_connection_that_was_there_before(
    toxiproxy: Toxiproxy, proxy: Proxy, stream: str
) -> None:
    with dial(proxy) as connection:
        assert says(connection, b"1")
        toxiproxy.add_toxic("echo", "reset_peer", stream, timeout=LATER_MS)
        assert is_silent(connection, toxiproxy)
        began = time.monotonic()
        connection.sendall(b"2")
        assert how_it_ends(connection) == "eof"
        assert time.monotonic() - began >= LATER_SECONDS


@pytest.mark.parametrize("stream", STREAMS)
def test_timeout_ends_who_dials_later(toxiproxy: Toxiproxy, proxy: Proxy, stream: str) -> None:
    toxiproxy.add_toxic("echo", "timeout", stream, timeout=LATER_MS)
    for _ in range(2):
        began = time.monotonic()
        with dial(proxy) as connection:
            connection.sendall(b"x")
            assert has_ended(connection)
            assert time.monotonic() - began >= LATER_SECONDS


def test_the_timer_of_timeout_ends_with_it(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "timeout", timeout=LATER_MS)
    toxiproxy.remove_toxic("echo", "timeout_downstream")
    with dial(proxy) as connection:
        assert says(connection, b"1")
        time.sleep(2 * LATER_SECONDS)
        assert says(connection, b"2")


def test_timeout_waits_for_as_long_as_bytes_come(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "timeout", "upstream", timeout=2 * LATER_MS)

    def trial() -> bool:
        with dial(proxy) as connection, contextlib.suppress(ConnectionError):
            for _ in range(40):  # twice the time
                connection.sendall(b"x")
                time.sleep(0.04)
            connection.settimeout(0.01)
            try:
                connection.recv(1)
            except TimeoutError:
                return True
        return False

    assert once_in(5, trial)


def test_slow_close_delays_what_the_target_learns(toxiproxy: Toxiproxy) -> None:
    target = Target()
    with through(toxiproxy, target) as proxy:
        toxiproxy.add_toxic("target", "slow_close", "upstream", delay=LATER_MS)
        with dial(proxy) as connection:
            connection.sendall(b"x")
            wait_until(lambda: target.heard and target.heard[0].data, "the target hears it")
            began = time.monotonic()
        wait_until(lambda: target.heard and target.heard[0].end, "the target learns of the end")
        assert target.heard[0].ended - began >= LATER_SECONDS
