"""One suite for toxiproxy's contract, run against the official server and against ours, through
toxiproxy-python and through the standard library.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from chaos.toxiproxy.client import (
    AlreadyThere,
    Invalid,
    NotThere,
    PackageTransport,
    PlainTransport,
    Proxy,
    Toxiproxy,
    ToxiproxyError,
    has_package,
)
from chaos.toxiproxy.metrics import Passed
from tests.waiting import limit, wait_until

from .talk import Echo, dial, has_ended, has_taken, is_silent, receive, says


@pytest.fixture(params=["plain", "package"])
def toxiproxy(request: pytest.FixtureRequest, url: str) -> Iterator[Toxiproxy]:
    if request.param == "package" and not has_package():
        pytest.skip("not here: toxiproxy-python is not installed (dependency group chaos)")
    transport = PlainTransport(url) if request.param == "plain" else PackageTransport(url)
    found = Toxiproxy(url, transport)
    yield found
    for name in found.proxies():
        found.delete(name)


# -- proxies


def test_a_proxy_is_made_listed_and_deleted(toxiproxy: Toxiproxy, echo: Echo) -> None:
    made = toxiproxy.create("one", echo.address)
    assert made.enabled
    assert made.address[1] > 0
    assert toxiproxy.proxies() == {"one": made}
    assert toxiproxy.get("one") == made
    with pytest.raises(AlreadyThere):
        toxiproxy.create("one", echo.address)
    toxiproxy.delete("one")
    assert toxiproxy.proxies() == {}
    with pytest.raises(NotThere):
        toxiproxy.get("one")
    with pytest.raises(NotThere):
        toxiproxy.delete("one")


def test_a_taken_port_is_an_error_with_a_status(toxiproxy: Toxiproxy, echo: Echo) -> None:
    with pytest.raises(ToxiproxyError) as failed:
        toxiproxy.create("taken", echo.address, listen=echo.address)
    assert failed.value.status == 500


def test_impossible_proxies_are_refused(toxiproxy: Toxiproxy) -> None:
    with pytest.raises(Invalid):
        toxiproxy.create("nowhere", "")
    with pytest.raises(ValueError, match="cannot name a proxy"):
        toxiproxy.create("a/b", "127.0.0.1:1")


def test_populate_gives_all_of_them_back(toxiproxy: Toxiproxy, echo: Echo) -> None:
    wanted = [
        {"name": name, "upstream": echo.address, "listen": "127.0.0.1:0"} for name in ("a", "b")
    ]
    assert [one.name for one in toxiproxy.populate(wanted)] == ["a", "b"]
    assert set(toxiproxy.proxies()) == {"a", "b"}


def test_the_version_is_said(toxiproxy: Toxiproxy) -> None:
    said = toxiproxy.version()
    assert said.startswith("2.") or said == "git"  # one that `go install` built does not know


def test_bytes_pass(proxy: Proxy) -> None:
    data = bytes(range(256)) * 300
    with dial(proxy) as connection:
        connection.sendall(data)
        assert receive(connection, len(data)) == data


def test_down_ends_the_old_and_refuses_the_new(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with dial(proxy) as connection:
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"
        with toxiproxy.down("echo"):
            assert not toxiproxy.get("echo").enabled
            assert has_ended(connection)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(proxy.address, timeout=limit(10))
    test_bytes_pass(toxiproxy.get("echo"))


def test_reset_removes_toxics_and_enables(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "latency", latency=1)
    toxiproxy.enable("echo", enabled=False)
    toxiproxy.reset()
    assert toxiproxy.get("echo").enabled
    assert toxiproxy.toxics("echo") == []
    test_bytes_pass(proxy)


# -- toxics


def test_toxics_are_named_listed_changed_and_removed(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    made = toxiproxy.add_toxic("echo", "latency", latency=100, jitter=5)
    assert made["name"] == "latency_downstream"
    assert made["attributes"] == {"latency": 100, "jitter": 5}
    with pytest.raises(AlreadyThere):
        toxiproxy.add_toxic("echo", "latency")
    changed = toxiproxy.change_toxic("echo", made["name"], latency=7)
    assert changed["attributes"] == {"latency": 7, "jitter": 5}
    assert [one["name"] for one in toxiproxy.toxics("echo")] == [made["name"]]
    toxiproxy.remove_toxic("echo", made["name"])
    assert toxiproxy.toxics("echo") == []
    with pytest.raises(NotThere):
        toxiproxy.remove_toxic("echo", made["name"])


def test_wrong_toxics_are_refused(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with pytest.raises(Invalid):
        toxiproxy.add_toxic("echo", "tea")
    with pytest.raises(Invalid):
        toxiproxy.add_toxic("echo", "latency", "sideways")
    with pytest.raises(NotThere):
        toxiproxy.add_toxic("nobody", "latency")


@pytest.mark.parametrize(
    ("kind", "values"), [("latency", {"latency": 1, "jitter": 1}), ("bandwidth", {"rate": 1000})]
)
@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_what_is_late_comes_whole(
    toxiproxy: Toxiproxy, proxy: Proxy, stream: str, kind: str, values: dict[str, Any]
) -> None:
    """That it is late is measured in test_conformance_times.py."""
    data = bytes(range(250)) * 200
    with dial(proxy) as old, toxiproxy.toxic("echo", kind, stream, **values), dial(proxy) as new:
        for connection in (old, new):
            assert says(connection, data)
        assert [one["attributes"] for one in toxiproxy.toxics("echo")] == [values]


def test_timeout_swallows_and_its_end_closes(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with toxiproxy.toxic("echo", "timeout", timeout=0), dial(proxy) as connection:
        connection.sendall(b"lost")
        # Until then a busy server may not have accepted it, and it would begin without the toxic.
        wait_until(lambda: has_taken(connection), "the proxy has read it")
        assert is_silent(connection, toxiproxy)
        toxiproxy.remove_toxic("echo", "timeout_downstream")
        assert has_ended(connection)
        toxiproxy.add_toxic("echo", "timeout", timeout=0)


def test_no_bandwidth_freezes_and_delivers_later(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with dial(proxy) as connection:
        connection.sendall(b"0")
        assert receive(connection, 1) == b"0"
        with toxiproxy.toxic("echo", "bandwidth", rate=0):
            connection.sendall(b"1")
            connection.sendall(b"2")
            assert is_silent(connection, toxiproxy)
        assert receive(connection, 2) == b"12"


def test_limit_data_ends_after_so_many_bytes(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with toxiproxy.toxic("echo", "limit_data", bytes=100), dial(proxy) as connection:
        connection.sendall(bytes(300))
        assert receive(connection, 300) == bytes(100)


def test_slicer_keeps_every_byte(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    data = bytes(range(250))
    with (
        toxiproxy.toxic("echo", "slicer", average_size=10, size_variation=1, delay=10),
        dial(proxy) as connection,
    ):
        connection.sendall(data)
        assert receive(connection, len(data)) == data


def test_reset_peer_resets_the_new(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with (
        toxiproxy.toxic("echo", "reset_peer", timeout=0),
        contextlib.suppress(ConnectionError),
        dial(proxy) as connection,
    ):
        connection.sendall(b"x")
        assert has_ended(connection)


def test_slow_close_lets_the_end_through(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    # The client's own end of the stream reaches the server, whose answer is the end, too.
    with toxiproxy.toxic("echo", "slow_close", delay=1), dial(proxy) as connection:
        assert says(connection, b"x")
        connection.shutdown(socket.SHUT_WR)
        assert has_ended(connection)


def test_a_toxicity_of_none_hits_nobody(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "timeout", toxicity=0.0, timeout=0)
    for _ in range(5):
        test_bytes_pass(proxy)


def test_toxicity_hits_some_connections(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    toxiproxy.add_toxic("echo", "limit_data", toxicity=0.5, bytes=1)
    found = []
    for _ in range(24):  # all alike once in 2 ** 23 times
        with dial(proxy) as connection:
            connection.sendall(b"xy")
            found.append(receive(connection, 2))
    assert set(found) == {b"x", b"xy"}


def test_bytes_are_counted_in_and_out(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with dial(proxy) as connection:
        connection.sendall(bytes(1000))
        assert receive(connection, 1000) == bytes(1000)
    wait_for_counts(
        toxiproxy, proxy, {"upstream": Passed(1000, 1000), "downstream": Passed(1000, 1000)}
    )


def test_swallowed_bytes_came_and_did_not_go_on(toxiproxy: Toxiproxy, proxy: Proxy) -> None:
    with (
        toxiproxy.toxic("echo", "timeout", "upstream", timeout=0),
        dial(proxy) as connection,
    ):
        connection.sendall(bytes(300))
        # Or they come to a proxy whose toxic is gone, and go on.
        wait_until(lambda: has_taken(connection), "the proxy has read them")
        assert is_silent(connection, toxiproxy)
    wait_for_counts(toxiproxy, proxy, {"upstream": Passed(300, 0)})


def wait_for_counts(toxiproxy: Toxiproxy, proxy: Proxy, wanted: dict[str, Passed]) -> None:
    """The official server counts a connection a moment after its end."""

    def is_counted() -> bool:
        passed = toxiproxy.passed()
        found = {
            stream: passed.get((stream, proxy.name, proxy.listen, proxy.upstream), Passed())
            for stream in wanted
        }
        return found == wanted

    wait_until(is_counted, f"{wanted} are counted")


# -- the client


def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ToxiproxyError) as failed:
        Toxiproxy(url, PlainTransport(url)).version()
    assert failed.value.status == 0


def test_browsers_are_refused(url: str) -> None:
    import http.client
    import urllib.parse

    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=limit(10))
    connection.request("GET", "/proxies", headers={"User-Agent": "Mozilla/5.0"})
    assert connection.getresponse().status == 403
    connection.close()
