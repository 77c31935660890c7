"""`dledger bench embed`: ReplicatedLog in three processes, the proposer inside the leader.

    parent ── spawns ──► node process × 3        one JSON line per command and answer
           ── "status" ─► who leads?
           ── "load"   ─► the leader keeps `window` entries of random bytes in flight
           ── "cpu"    ─► every process: CPU seconds so far

Reported for each window: durable entries per second, p50 and p99 of one entry from `append` to its
index, CPU microseconds per entry of the leader and of a follower; and, measured just before on the
same disk, what the disk can do (disk.py).

    windows          entries in flight (default 1,64,1024)
    seconds          of load for each window (default 5)
    warm_up_seconds  of load before it that does not count (default 1)
    body_size        bytes per entry (default 1024)
    prewrite         log files are written with zeros ahead (default false)
    data_file_size   bytes of a log file (default 1073741824)
    folder           where to work
    profile          PREFIX: cProfile files of the nodes in PREFIX.<node>

Bars: at 1,024 in flight at least 50,000 entries/s, or 70 % of the disk's limit for three copies; at
1 in flight a p50 of at most 3 appends + fdatasync of 4 KiB, or 0.6 ms.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cluster.bench.disk import DiskLimits, measure

NODES = 3
PORT = 20911
#: Entry header of the log beside the body: what a copy of an entry costs on disk.
HEADER_SIZE = 48
ENTRIES_PER_SECOND_BAR = 50_000
DISK_SHARE_BAR = 0.7
BAR_WINDOW = 1024
WINDOW_1_P50_MS_BAR = 0.6
_READY_SECONDS_MAX = 20
#: So often a busy machine may put an election into a measurement.
TRIES = 5


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """Options of the bench (see the module's text); "" means none. Defaults: the published size."""

    folder: str = ""
    windows: tuple[int, ...] = (1, 64, 1024)
    seconds: float = 5.0
    warm_up_seconds: float = 1.0
    body_size: int = 1024
    prewrite: bool = False
    data_file_size: int = 1 << 30
    profile: str = ""

    @classmethod
    def smoke(cls, folder: Path) -> EmbedOptions:
        """Small enough for the test suite."""
        return cls(str(folder), (1, 256), 0.3, 0.1, data_file_size=64 << 20)


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Measure; one JSON object. Raises RuntimeError when the group does not come up."""
    given = EmbedOptions(**options)
    if isinstance(given.windows, int):  # one value on the command line
        given = replace(given, windows=(given.windows,))
    with tempfile.TemporaryDirectory(prefix="embed-bench-", dir=given.folder or None) as name:
        limits = measure(Path(name))
        with group(Path(name), own_node(given)) as nodes:
            windows = [load_leader(nodes, window, given) for window in given.windows]
    return _judge(given, limits, windows)


def _judge(
    options: EmbedOptions, limits: DiskLimits, windows: list[dict[str, Any]]
) -> dict[str, Any]:
    """The result with its bars, next to the figures that they are computed from."""
    disk_max = limits.messages_per_second(options.body_size + HEADER_SIZE)
    result: dict[str, Any] = {
        "bench": "embed",
        "options": asdict(options),
        "disk": asdict(limits),
        "windows": windows,
    }
    result["bars"] = bars = {"disk_entries_per_second_max": disk_max}
    for row in windows:
        if row["window"] == 1:
            bars["window_1_p50_ms_max"] = max(3 * limits.append_p50_ms, WINDOW_1_P50_MS_BAR)
            bars["window_1_p50_met"] = row["p50_ms"] <= bars["window_1_p50_ms_max"]
        if row["window"] == BAR_WINDOW:
            bars["disk_share"] = row["entries_per_second"] / disk_max
            bars["entries_per_second_min"] = min(ENTRIES_PER_SECOND_BAR, DISK_SHARE_BAR * disk_max)
            bars["entries_per_second_met"] = (
                row["entries_per_second"] >= bars["entries_per_second_min"]
            )
    return result


class Node:
    """One child process: a command line in, an answer line out. `command`: how it is started."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, **command: Any) -> None:
        """Send a line without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """The next answer. Raises RuntimeError when the process ended or could not do it."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended early; its reason stands on stderr")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answer

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a line, await its answer. Raises RuntimeError."""
        self.tell(**command)
        return self.hear()

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask it to end, and insist after a while."""
        with contextlib.suppress(OSError):
            self.tell(do="stop")
        try:
            self._process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


Command = Callable[[dict[str, Any]], Sequence[str]]
"""How a node with this configuration (node_id, peers, data_dir, cluster_id) is started."""


def own_node(options: EmbedOptions, kind: str = "log") -> Command:
    """The command of a node of ours. `kind`: "log", "machine" or "dict", see embed_node.py."""

    def command(config: dict[str, Any]) -> Sequence[str]:
        files = {
            "data_file_size": options.data_file_size,
            "prewrite_zeros": options.prewrite,
        }
        given = {"config": config | files, "profile": options.profile, "kind": kind}
        return [sys.executable, "-m", "cluster.bench.embed_node", json.dumps(given)]

    return command


@contextlib.contextmanager
def group(folder: Path, command: Command) -> Iterator[list[Node]]:
    """Three processes on loopback addresses of their own (by our process id).

    Raises RuntimeError when one does not start.
    """
    number = os.getpid()
    host = f"127.{100 + number % 100}.{number // 100 % 250}"
    peers = {f"n{n}": (f"{host}.{n + 1}", PORT) for n in range(NODES)}
    cluster_id = secrets.token_hex(8)
    nodes: list[Node] = []
    try:
        for name in peers:
            config = {
                "node_id": name,
                "peers": peers,
                "data_dir": str(folder / name),
                "cluster_id": cluster_id,
            }
            nodes.append(Node(name, command(config)))
        for node in nodes:
            node.hear()  # it has started
        yield nodes
    finally:
        for node in nodes:
            node.stop()


def wait_for_leader(nodes: list[Node]) -> Node:
    """The leader, when all nodes name the same one. Raises RuntimeError."""
    for _ in range(TRIES):
        for node in nodes:
            node.tell(do="leader", seconds=_READY_SECONDS_MAX)
        names = {node.hear()["leader"] for node in nodes}
        if len(names) == 1:
            return next(node for node in nodes if node.name in names)
    raise RuntimeError(f"the nodes name several leaders: {sorted(names)}; is the machine busy?")


def load_leader(nodes: list[Node], window: int, options: EmbedOptions) -> dict[str, Any]:
    """`load` at the leader; again with the next one where an election came in between.

    Raises RuntimeError when that goes on.
    """
    for _ in range(TRIES - 1):
        try:
            return load(nodes, wait_for_leader(nodes), window, options)
        except RuntimeError as error:
            if ": NotLeader:" not in str(error):
                raise
    return load(nodes, wait_for_leader(nodes), window, options)


def load(nodes: list[Node], at: Node, window: int, options: EmbedOptions) -> dict[str, Any]:
    """One window: node `at` warms up, then measures; CPU of all nodes over the measured span."""
    common = {"window": window, "body_size": options.body_size}
    at.ask(do="load", seconds=options.warm_up_seconds, **common)
    before = {node.name: node.ask(do="cpu")["cpu_seconds"] for node in nodes}
    answer = at.ask(do="load", seconds=options.seconds, **common)
    after = {node.name: node.ask(do="cpu")["cpu_seconds"] for node in nodes}
    used = {name: (after[name] - before[name]) * 1e6 / answer["entries"] for name in after}
    followers = [used[node.name] for node in nodes if node is not at]
    return {
        "window": window,
        **answer,
        "leader_cpu_us": used[at.name],
        "follower_cpu_us": sum(followers) / len(followers),
    }
