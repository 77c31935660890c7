"""The end of a process with spans that are not sent yet: the collector answers, is down, hangs."""

from __future__ import annotations

import http.server
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from cluster.tracing import telemetry
from cluster.tracing.context import Parent
from cluster.tracing.telemetry import EXIT_SECONDS_MAX
from tests.waiting import limit

PROGRAM = """
import sys, time
from cluster.tracing import telemetry
from cluster.tracing.context import Parent
provider, _ = telemetry.exporting(sys.argv[1], 1.0, "s", "n0")
context = telemetry.below(Parent(1, 2, True))
telemetry.tracer_of(provider).start_span("x", context=context).end()
print(time.time(), flush=True)
"""


def seconds_to_end(address: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, address], capture_output=True, text=True, timeout=limit(60)
    )
    assert done.returncode == 0, done.stderr
    return time.time() - float(done.stdout)


@pytest.fixture
def hanging() -> Iterator[str]:
    """A collector that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_collector_that_does_not_answer_holds_up_no_end(hanging: str, free_address: str) -> None:
    for address in (hanging, f"http://{free_address}:4318"):
        assert seconds_to_end(address) < limit(EXIT_SECONDS_MAX + 3)


@pytest.fixture
def collector() -> Iterator[tuple[str, list[str]]]:
    """One that answers, and the paths that it was asked for."""
    got: list[str] = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Tests print nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()


def test_the_last_spans_are_sent(collector: tuple[str, list[str]]) -> None:
    address, got = collector
    seconds_to_end(address)
    assert got == ["/v1/traces"]


def one_span(address: str) -> tuple[telemetry.Exporting, set[threading.Thread]]:
    """An exporter with one span that is not sent, and its threads."""
    before = set(threading.enumerate())
    made = telemetry.exporting(address, 1.0, "s", "n0")
    context = telemetry.below(Parent(1, 2, True))
    telemetry.tracer_of(made.provider).start_span("x", context=context).end()
    return made, set(threading.enumerate()) - before


def test_a_program_that_goes_on_closes_it(
    collector: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last spans are sent, and no thread is left, nor a function for the end of the process."""
    forgotten: list[object] = []
    monkeypatch.setattr(telemetry.atexit, "unregister", forgotten.append)
    address, got = collector
    made, threads = one_span(address)
    assert len(threads) >= 2
    made.close()
    assert got == ["/v1/traces"]
    assert forgotten == [made.close]
    for thread in threads:
        thread.join(limit(5))
        assert not thread.is_alive(), thread
    made.close()
    assert got == ["/v1/traces"]


def test_a_close_waits_for_no_collector_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It returns while the exporter still asks, which asks no second time."""
    monkeypatch.setattr(telemetry, "EXIT_SECONDS_MAX", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        made, threads = one_span(f"http://127.0.0.1:{server.getsockname()[1]}")
        made.close()
        assert [each.name for each in threads if each.is_alive() and each.name != "spans-end"]
    for thread in threads:
        thread.join(limit(5))
        assert not thread.is_alive(), f"{thread.name} tries a collector again that is gone"
