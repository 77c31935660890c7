"""A measured span: what the servers, the client and everybody else took of the processors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import psutil

from cluster.bench.scratch import cpu_seconds


class Span:
    """Begins when it is made.

    Attributes, after `end`:
        seconds: its length.
        server_seconds, client_seconds: processor time.
        others_share: of all processors, what programs took that are neither; 0 to 1.
    """

    def __init__(
        self, servers: Sequence[psutil.Process], client: psutil.Process | None = None
    ) -> None:
        self._servers, self._client = servers, client
        self._harness = psutil.Process()
        self._before = self._look()
        self.seconds = self.server_seconds = self.client_seconds = self.others_share = 0.0

    def end(self) -> None:
        """Look again."""
        before, after = self._before, self._look()
        self.seconds = after[0] - before[0]
        self.server_seconds = after[2] - before[2]
        self.client_seconds = after[3] - before[3]
        harness = after[4] - before[4]
        busy, total = (b - a for a, b in zip(before[1], after[1], strict=True))
        own = self.server_seconds + self.client_seconds + harness
        self.others_share = max(0.0, (busy - own) / max(total, 1e-9))

    def figures(self, messages: int, others_max: float) -> dict[str, Any]:
        """For a row."""
        count = max(messages, 1)
        return {
            "server_cpu_us": self.server_seconds * 1e6 / count,
            "client_cpu_us": self.client_seconds * 1e6 / count,
            **self.sign(others_max),
        }

    def sign(self, others_max: float) -> dict[str, Any]:
        """Whether others disturbed it, for a row."""
        return {
            "others_share": self.others_share,
            "disturbed": self.others_share > others_max,
        }

    def _look(self) -> tuple[float, tuple[float, float], float, float, float]:
        """Now; busy and all processor time of the machine; servers, client, this process."""
        machine = psutil.cpu_times()
        total = float(sum(machine[:8]))  # what guests took is in `user` already
        busy = total - machine.idle - getattr(machine, "iowait", 0.0)
        servers = sum(cpu_seconds(one) for one in self._servers)
        client = cpu_seconds(self._client) if self._client else 0.0
        harness = cpu_seconds(self._harness)
        return time.perf_counter(), (busy, total), servers, client, harness
