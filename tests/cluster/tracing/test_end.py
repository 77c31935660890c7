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

from cluster.tracing.telemetry import EXIT_SECONDS_MAX
from tests.waiting import limit

PROGRAM = """
import sys, time
from cluster.tracing import telemetry
from cluster.tracing.context import Parent
provider = telemetry.exporting(sys.argv[1], 1.0, "s", "n0")
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


def test_the_last_spans_are_sent() -> None:
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
        seconds_to_end(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert got == ["/v1/traces"]
