"""A `StreamingQueryListener` that tells the lag of every query that reads topics.

    lag = LagListener(servers="ns:9876")
    spark.streams.addListener(lag)
    lag.serve(9405)              # http://localhost:9405/metrics, for Prometheus
    lag.rows()                   # the same as objects

Spark's progress says how many messages are unread; the brokers say when the oldest was stored and
how large they are. Brokers are asked for two messages of a queue at most once in a micro-batch.
Spark calls listeners one after another, outside of queries: a broker that does not answer delays
other listeners and no query.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from cluster.errors import ClusterError
from cluster.protocol.json_body import MessageQueue
from commitlog.errors import StoreDamaged
from pipeline.source.offsets import QueueRange
from pipeline.source.options import SourceOptions, source_options
from pipeline.source.plan import record_bytes
from pipeline.source.reading import read
from pipeline.source.remote import SourceError, remote
from pipeline.watching.lag import QueryLag, exposition, topic_lags, unread

#: Queues that are asked for the age of their oldest unread message, those with most unread first.
QUEUES_ASKED_MAX = 64
_log = logging.getLogger(__name__)


class LagListener(StreamingQueryListener):  # type: ignore[misc]  # pyspark has no types here
    """See the module's text. May be added to several sessions; every method may be called from any
    thread."""

    def __init__(self, *, servers: str = "", options: Mapping[str, str] | None = None) -> None:
        """Makes a listener that asks no broker, or those of one cluster.

        Args:
            servers: name servers, "host:port" joined by ";" or ","; "": lag in messages alone.
            options: further options of the connection, `client.…`.

        Raises OptionError.
        """
        self._options: SourceOptions | None = None
        if servers:
            given = {"servers": servers, "subscribe": "any", "columns": "timestamp"}
            # Lag is measured again soon, so a request that fails is not repeated for a minute.
            patience = {"fetch": "pull", "numRetries": "1", "retryIntervalMs": "100"}
            self._options = source_options({**given, **patience, **(options or {})}, streaming=True)
        self._lock = threading.Lock()
        self._rows: dict[str, QueryLag] = {}
        self._servers: list[ThreadingHTTPServer] = []

    def rows(self) -> list[QueryLag]:
        """The newest state of each running query that reads a topic, by name."""
        with self._lock:
            return sorted(self._rows.values(), key=lambda row: row.query)

    def metrics(self) -> str:
        """The same as Prometheus reads it."""
        return exposition(self.rows())

    def serve(self, port: int, host: str = "127.0.0.1") -> tuple[str, int]:
        """Serves `metrics` at `/metrics` in a thread. Returns the address; port 0 takes a free one.

        Raises OSError if the port is taken.
        """
        server = ThreadingHTTPServer((host, port), _handler(self.metrics))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True, name="dledger-lag").start()
        self._servers.append(server)
        return host, server.server_address[1]

    def close(self) -> None:
        """Ends the servers that `serve` began."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._servers.clear()

    # -- Spark calls these -------------------------------------------------------------------------

    def onQueryStarted(self, event: Any) -> None:
        """Has no effect: a query has no lag before its first micro-batch."""

    def onQueryProgress(self, event: Any) -> None:
        """Keeps the lag of a query that reads a topic."""
        progress = event.progress
        ranges = [
            item
            for source in progress.sources
            for item in unread(source.endOffset, source.latestOffset)
        ]
        if not ranges:
            return
        ages, sizes = self._asked(ranges)
        row = QueryLag(
            progress.name or str(progress.id),
            progress.batchId,
            _number(progress.inputRowsPerSecond),
            _number(progress.processedRowsPerSecond),
            topic_lags(ranges, ages, sizes, int(time.time() * 1000)),
        )
        with self._lock:
            self._rows[str(progress.runId)] = row

    def onQueryIdle(self, event: Any) -> None:
        """Has no effect: the last micro-batch's lag is the newest that is known."""

    def onQueryTerminated(self, event: Any) -> None:
        """Forgets the query."""
        with self._lock:
            self._rows.pop(str(event.runId), None)

    # -- what brokers know -------------------------------------------------------------------------

    def _asked(
        self, ranges: Sequence[QueueRange]
    ) -> tuple[dict[MessageQueue, int], dict[str, int]]:
        """Queue → store time of its oldest unread message, in ms; topic → bytes of a message."""
        options = self._options
        behind = sorted((item for item in ranges if item.size), key=lambda item: -item.size)
        if options is None or not behind:
            return {}, {}
        try:
            ages = {
                item.queue: age
                for item in behind[:QUEUES_ASKED_MAX]
                if (age := _stored_ms(options, item)) is not None
            }
            return ages, record_bytes(remote(options), options, behind)
        except (ClusterError, SourceError, StoreDamaged) as error:
            _log.warning("the age of unread messages is unknown: %s", error)
            return {}, {}


def _stored_ms(options: SourceOptions, item: QueueRange) -> int | None:
    """When the first message of a range was stored, ms; None if the range is empty by now."""
    first = QueueRange(item.queue, item.start, item.start + 1)
    for batch in read(options, (first,)):
        return int(batch.column(0).cast("int64")[0].as_py()) // 1000
    return None


def _number(value: Any) -> float:
    """A rate of Spark's; it has none for the first micro-batch."""
    return 0.0 if value is None or value != value else float(value)


def _handler(text: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.split("?")[0] == "/metrics"
            body = (text() if found else "metrics are at /metrics\n").encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Writes no line for each request."""

    return Handler
