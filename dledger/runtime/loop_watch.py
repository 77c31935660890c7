"""Says in the log when the event loop stands still (L5).

Writes are made on the loop, so one that hangs silences the node: it votes, acknowledges and leads
no more, and the others elect when they do not hear it. Nothing of it could say why but this thread.
A process that was stopped and goes on looks the same for a moment, and the sentence says so.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)


class LoopWatch:
    """`came_round` is called by the loop, every `period` seconds or so; a thread looks for it."""

    def __init__(
        self, node_id: str, stall_seconds: float, period: float, now: Callable[[], float]
    ) -> None:
        self._node_id, self._stall_seconds, self._period = node_id, stall_seconds, period
        self._now = now
        self._seen_at = now()
        self._said = False
        self._ended = threading.Event()
        name = f"dledger-{node_id}-watch"
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread that watches the loop."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()

    def came_round(self, now: float) -> None:
        """Called by the loop: it ran at `now`."""
        self._seen_at = now

    def _serve(self) -> None:
        while not self._ended.wait(self._period):
            self.look(self._now())

    def look(self, now: float) -> None:
        """Say it once per standstill, and when it is over."""
        still = now - self._seen_at
        if still >= self._stall_seconds:
            if not self._said:
                _log.error(
                    "%s: its event loop has stood still for %.1f s: a write that does not come "
                    "back, or the process was stopped",
                    self._node_id,
                    still,
                )
            self._said = True
        elif self._said:
            self._said = False
            _log.error("%s: its event loop goes on", self._node_id)
