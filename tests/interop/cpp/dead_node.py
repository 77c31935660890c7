"""Sends, while somebody kills a leader for long; orders, lines and the file are DeadNode.java's.

    dead_node.py cpp NAMESERVER TOPIC START_MS FILE THREADS PAUSE_MS    the official C++ client
    dead_node.py own NAMESERVER TOPIC START_MS FILE THREADS PAUSE_MS    our own, in threads

Runs in a process of its own. The C++ client does not say which broker took a message.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ERRORS_MAX = 5
LAST_SENDS_SECONDS_MAX = 20.0


class Sends:
    """What became of messages since the mark before."""

    def __init__(self, file: Path, send: Callable[[str], None], pause_seconds: float) -> None:
        self._send, self._pause_seconds = send, pause_seconds
        self._file = file.open("w")
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._number = self._acked = self._failed = 0
        self._gap = 0.0
        self._last = time.monotonic()
        self._errors: list[str] = []

    def loop(self) -> None:
        while not self._over.is_set():
            with self._lock:
                self._number += 1
                number = self._number
            try:
                self._send(str(number))
            except Exception as error:
                with self._lock:
                    self._failed += 1
                    self._errors = [*self._errors, repr(error)][:ERRORS_MAX]
            else:
                self._went(number)
            self._over.wait(self._pause_seconds)

    def _went(self, number: int) -> None:
        with self._lock:
            now = time.monotonic()
            self._gap = max(self._gap, now - self._last)
            self._last = now
            self._acked += 1
            self._file.write(f"{number}\n")

    def mark(self) -> None:
        with self._lock:
            gap = max(self._gap, time.monotonic() - self._last)
            facts = {"acked": self._acked, "failed": self._failed, "errors": self._errors}
            line = json.dumps({**facts, "relayed": None, "gap_ms": round(gap * 1e3)})
            self._acked = self._failed = 0
            self._gap = 0.0
            self._errors = []
            self._file.flush()
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def serve(self, count: int) -> None:
        threads = [threading.Thread(target=self.loop, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for order in sys.stdin:
            if order.strip() == "stop":
                break
            self.mark()
        self._over.set()
        for thread in threads:
            thread.join(LAST_SENDS_SECONDS_MAX)
        self.mark()


def cpp(nameserver: str, topic: str) -> Callable[[str], None]:
    from rocketmq.client import Message, Producer

    producer: Any = Producer(f"G_{topic}_P")
    producer.set_namesrv_addr(nameserver)
    producer.start()

    def send(body: str) -> None:
        message = Message(topic)
        message.set_body(body)
        producer.send_sync(message)

    return send


def own(nameserver: str, topic: str) -> Callable[[str], None]:
    from cluster.client import blocking

    client = blocking.connect(nameserver)
    producer = client.producer()

    def send(body: str) -> None:
        producer.send(topic, body.encode())

    return send


def main() -> None:
    which, nameserver, topic, start_ms, file, threads, pause_ms = sys.argv[1:]
    threading.Event().wait(int(start_ms) / 1e3 - time.time())  # the moment at which all begin
    send = {"cpp": cpp, "own": own}[which](nameserver, topic)
    Sends(Path(file), send, int(pause_ms) / 1e3).serve(int(threads))
    os._exit(0)  # the library's threads may outlive its shutdown


if __name__ == "__main__":
    main()
