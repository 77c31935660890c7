"""How connections end, and which: reset_peer, timeout, limit_data, slow_close, on both servers."""

from __future__ import annotations

import contextlib
import socket

import pytest

from chaos.toxiproxy.client import PlainTransport, Proxy, Toxiproxy
from tests.waiting import wait_until

from .talk import (
    Target,
    dial,
    has_ended,
    how_it_ends,
    is_silent,
    let_pass,
    receive,
    says,
    through,
)

STREAMS = ("upstream", "downstream")
# Attributes of toxics, in milliseconds; nothing waits for the end of the last one.
SOON, LATER, NEVER = {"timeout": 1}, {"timeout": 400}, {"timeout": 60_000}
NEVER_MS = 60_000


# -- reset_peer


@pytest.mark.parametrize("stream", STREAMS)
def test_reset_peer_resets_who_dials_later_and_talks(
    toxiproxy: Toxiproxy, proxy: Proxy, stream: str
) -> None:
    toxiproxy.add_toxic("echo", "reset_peer", stream, **SOON)
    with dial(proxy) as connection:
        connection.sendall(b"x")
        assert how_it_ends(connection) == "reset"


@pytest.mark.parametrize("stream", STREAMS)
def test_reset_peer_only_ends_a_connection_that_was_there_before(
    toxiproxy: Toxiproxy, proxy: Proxy, stream: str
) -> None:
    with dial(proxy) as connection:
        assert says(connection, b"1")
        toxiproxy.add_toxic("echo", "reset_peer", stream, **SOON)
        assert is_silent(connection, toxiproxy)
        connection.sendall(b"2")
        assert how_it_ends(connection) == "eof"


@pytest.mark.parametrize("stream", STREAMS)
def test_reset_peer_leaves_alone_who_says_nothing(
    toxiproxy: Toxiproxy, proxy: Proxy, stream: str
) -> None:
    toxiproxy.add_toxic("echo", "reset_peer", stream, timeout=0)
    with dial(proxy) as connection:
        assert is_silent(connection, toxiproxy)


def test_reset_peer_resets_the_target_which_hears_nothing(toxiproxy: Toxiproxy) -> None:
    target = Target()
    with through(toxiproxy, target) as proxy:
        toxiproxy.add_toxic("target", "reset_peer", "upstream", timeout=0)
        with dial(proxy) as connection:
            connection.sendall(b"x")
            assert has_ended(connection)
        wait_until(lambda: target.heard and target.heard[0].end == "reset", "the target is reset")
        assert target.heard[0].data == b""


def test_reset_peer_keeps_its_word_after_its_removal(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "reset_peer", "upstream", **LATER)
    with dial(proxy) as doomed, dial(proxy) as spared:
        doomed.sendall(b"x")
        assert is_silent(spared, toxiproxy)
        toxiproxy.remove_toxic("echo", "reset_peer_upstream")
        assert how_it_ends(doomed) == "reset"
        assert says(spared, b"y")
        with dial(proxy) as later:
            assert says(later, b"z")


# -- timeout


@pytest.mark.parametrize("stream", STREAMS)
def test_timeout_ends_who_dials_later(toxiproxy: Toxiproxy, proxy: Proxy, stream: str) -> None:
    toxiproxy.add_toxic("echo", "timeout", stream, **SOON)
    for _ in range(2):
        with dial(proxy) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(b"x")
            assert has_ended(connection)


def test_a_changed_timeout_holds_for_who_is_there(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "timeout", timeout=0)
    with dial(proxy) as connection:
        assert is_silent(connection, toxiproxy)
        toxiproxy.change_toxic("echo", "timeout_downstream", **SOON)
        assert has_ended(connection)


@pytest.mark.parametrize("toxicity", [0.0, 1.0])
def test_the_end_of_timeout_ends_who_was_there(
    toxiproxy: Toxiproxy, proxy: Proxy, toxicity: float
) -> None:
    with dial(proxy) as connection:
        assert says(connection, b"x")
        toxiproxy.add_toxic("echo", "timeout", "upstream", "", toxicity, **NEVER)
        assert is_silent(connection, toxiproxy)
        toxiproxy.remove_toxic("echo", "timeout_upstream")
        assert has_ended(connection)
    with dial(proxy) as connection:
        assert says(connection, b"y")


# -- limit_data


def test_limit_data_counts_each_connection(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "limit_data", bytes=100)
    with dial(proxy) as one, dial(proxy) as other:
        assert says(one, bytes(60))
        assert says(other, bytes(60))
        for connection in (one, other):
            connection.sendall(bytes(60))
            assert receive(connection, 60) == bytes(40)


@pytest.mark.parametrize("stream", STREAMS)
def test_limit_data_ends_with_the_last_byte_that_passes(
    toxiproxy: Toxiproxy, proxy: Proxy, stream: str
) -> None:
    toxiproxy.add_toxic("echo", "limit_data", stream, bytes=100)
    with dial(proxy) as connection:
        connection.sendall(bytes(99))
        if stream == "downstream":
            assert receive(connection, 99) == bytes(99)
        connection.sendall(b"x")
        with contextlib.suppress(ConnectionError):  # raises TimeoutError when it does not end
            assert len(receive(connection, 101)) < 101


def test_limit_data_lets_the_target_hear_so_much(toxiproxy: Toxiproxy) -> None:
    target = Target()
    with through(toxiproxy, target) as proxy:
        toxiproxy.add_toxic("target", "limit_data", "upstream", bytes=100)
        with dial(proxy) as connection:
            connection.sendall(bytes(300))
            assert has_ended(connection)
        wait_until(lambda: target.heard and target.heard[0].end, "the target learns of the end")
        assert target.heard[0].data == bytes(100)


def test_limit_data_counts_from_its_beginning(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with dial(proxy) as connection:
        assert says(connection, bytes(60))
        toxiproxy.add_toxic("echo", "limit_data", bytes=100)
        assert says(connection, bytes(60))
        connection.sendall(bytes(60))
        assert receive(connection, 60) == bytes(40)


def test_a_changed_limit_counts_what_has_passed(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "limit_data", bytes=1000)
    with dial(proxy) as connection:
        assert says(connection, bytes(60))
        toxiproxy.change_toxic("echo", "limit_data_downstream", bytes=100)
        connection.sendall(bytes(60))
        assert receive(connection, 60) == bytes(40)


def test_a_limit_of_nothing_ends_with_the_first_byte(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "limit_data", bytes=0)
    with dial(proxy) as connection:
        assert is_silent(connection, toxiproxy)
        connection.sendall(b"x")
        assert has_ended(connection)


# -- slow_close


def test_slow_close_of_one_stream_leaves_the_other_end_alone(toxiproxy: Toxiproxy) -> None:
    with through(toxiproxy, Target(b"bye", leaves=True)) as proxy:
        toxiproxy.add_toxic("target", "slow_close", "upstream", delay=NEVER_MS)
        with dial(proxy) as connection:
            assert receive(connection, 4) == b"bye"
        toxiproxy.remove_toxic("target", "slow_close_upstream")


def test_slow_close_lets_the_target_learn_of_the_end(toxiproxy: Toxiproxy) -> None:
    target = Target()
    with through(toxiproxy, target) as proxy:
        toxiproxy.add_toxic("target", "slow_close", "upstream", delay=1)
        with dial(proxy) as connection:
            connection.sendall(b"x")
            wait_until(lambda: target.heard and target.heard[0].data, "the target hears it")
        wait_until(lambda: target.heard and target.heard[0].end, "the target learns of the end")


def test_the_end_of_slow_close_ends_who_waits(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "slow_close", delay=NEVER_MS)
    with dial(proxy) as connection:
        assert says(connection, b"x")
        connection.shutdown(socket.SHUT_WR)
        assert is_silent(connection, toxiproxy)
        toxiproxy.remove_toxic("echo", "slow_close_downstream")
        assert has_ended(connection)


# -- without a toxic


def test_an_update_that_changes_nothing_ends_nothing(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with dial(proxy) as connection:
        assert says(connection, b"1")
        assert toxiproxy.enable("echo") == proxy
        assert says(connection, b"2")


def test_another_target_ends_the_old_and_keeps_toxics(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    target = Target(b"hello")
    toxiproxy.add_toxic("echo", "limit_data", bytes=2)
    with dial(proxy) as connection:
        assert says(connection, b"1")
        body = {"upstream": target.address}
        assert PlainTransport(toxiproxy.url).request("PATCH", "/proxies/echo", body)[0] == 200
        assert has_ended(connection)
    found = toxiproxy.get("echo")
    assert (found.listen, found.upstream) == (proxy.listen, target.address)
    with dial(proxy) as connection:
        assert receive(connection, 5) == b"he"
    target.close()


def test_all_that_was_said_before_the_end_arrives(toxiproxy: Toxiproxy) -> None:
    data = bytes(range(256)) * 8192
    with (
        through(toxiproxy, Target(data, leaves=True)) as proxy,
        dial(proxy) as connection,
    ):
        let_pass(toxiproxy)  # everything waits for the reader, also in the proxy
        assert receive(connection, len(data) + 1) == data


def test_who_ends_the_stream_hears_no_more(toxiproxy: Toxiproxy) -> None:
    target = Target(late=b"too late")
    with through(toxiproxy, target) as proxy, dial(proxy) as connection:
        connection.sendall(b"x")
        wait_until(lambda: target.heard and target.heard[0].data, "the target hears it")
        connection.shutdown(socket.SHUT_WR)
        assert has_ended(connection)


def test_a_target_that_is_away_ends_what_is_dialled(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        away = toxiproxy.create("away", "{}:{}".format(*free.getsockname()))
        with dial(away) as connection:
            assert has_ended(connection)
