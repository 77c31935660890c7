"""`scripts/bench failover [KEY=VALUE ...]`: one table of what a dead leader costs, beside RocketMQ.

    subject           one group of three nodes, settings as delivered
    ours              dledger up
    DLedger mode      RocketMQ 5.3.3 whose commit log DLedger replicates
    controller mode   RocketMQ 5.3.3, master and slaves, the master appointed by a controller

One harness and one fault: RocketMQ's own Java client sends synchronously from 16 threads, 50 ms
apart each. The leader is killed (SIGKILL) 8 s after the client's look at the routes, so that its
next one is 22 s away, and stays dead for 30 s. Subjects take turns, so that other load on the
machine meets all of them. "Lost" is acknowledged and not in the topic afterwards.

    kills            of each subject (default 3); a minute and a half each
    versions         of the client (default 5.3.3)
    subjects         some of them, "all" (default)
    folder           where to work
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from cluster.bench.interpreter import description
from cluster.bench.scratch import scratch_cluster
from cluster.commands.bench import options_of
from cluster.commands.errors import CommandError
from tests.interop.harness import toolchains
from tests.interop.harness.content import create_topics
from tests.interop.harness.rows import FAULT_SECONDS, Client, Rows, Seen, Stored
from tests.peers.rocketmq_cluster import CONTROLLER, DLEDGER, running_rocketmq

OURS = "ours"
THREADS, PAUSE_MS = 16, 50


@dataclass(frozen=True, slots=True)
class Options:
    """What the module's text says of each; "" for none."""

    kills: int = 3
    versions: str | tuple[str, ...] = ("5.3.3",)
    subjects: str | tuple[str, ...] = "all"
    folder: str = ""


class Group(Protocol):
    """What is measured."""

    @property
    def nameserver(self) -> str: ...
    def leader(self) -> str | None: ...
    def kill(self, name: str) -> None: ...
    def start(self, name: str) -> None: ...
    def wait_ready(self) -> float: ...


@dataclass(slots=True)
class Found:
    """Of one subject and client, over all rounds."""

    seen: list[Seen]
    acked: int = 0
    lost: int = 0
    doubled: int = 0

    def add(self, seen: Sequence[Seen], stored: Stored) -> None:
        """One more round."""
        self.seen += seen
        self.acked += stored.acked
        self.lost += stored.lost
        self.doubled += stored.doubled


SUBJECTS: dict[str, Callable[[Path], AbstractContextManager[Group]]] = {
    OURS: lambda folder: scratch_cluster(str(folder)),
    DLEDGER: lambda folder: running_rocketmq(folder, DLEDGER),
    CONTROLLER: lambda folder: running_rocketmq(folder, CONTROLLER),
}


def clients(versions: Sequence[str]) -> list[Client]:
    """The stock clients. Raises toolchains.Missing."""
    words = ("{nameserver}", "{topic}", "{start_ms}", "{file}", "sync", str(THREADS), str(PAUSE_MS))
    return [
        Client(
            f"Java {version}",
            [*toolchains.java(version), "-Duser.home={home}", "interop.DeadNode", *words],
        )
        for version in versions
    ]


def run(options: Options, say: Callable[[str], None]) -> dict[tuple[str, str], Found]:
    """Subject and client → what was found. Raises toolchains.Missing."""
    versions = (options.versions,) if isinstance(options.versions, str) else options.versions
    wanted = [name for name in SUBJECTS if options.subjects == "all" or name in options.subjects]
    found: dict[tuple[str, str], Found] = {}
    for number in range(options.kills):
        for subject in wanted:
            with (
                tempfile.TemporaryDirectory(prefix="peers-", dir=options.folder or None) as name,
                SUBJECTS[subject](Path(name)) as group,
            ):
                home = Path(name) / "clients"
                home.mkdir()
                for client, seen, stored in _killed(group, clients(versions), home):
                    found.setdefault((subject, client), Found([])).add(seen, stored)
                    say(
                        f"{number + 1}: {subject}, {client}: {seen[-1].failed} failed, longest gap "
                        f"{seen[-1].gap_ms / 1e3:.2f} s; {stored}"
                    )
    return found


def _killed(
    group: Group, programs: Sequence[Client], folder: Path
) -> Iterator[tuple[str, list[Seen], Stored]]:
    """One kill of the leader under the clients, and what each saw of it."""
    create_topics(group.nameserver, [client.topic for client in programs])
    rows = Rows(group, folder, folder / "rows.jsonl", time.sleep)
    with rows.all_started(programs):
        rows.fault("leader killed", 0, lambda: _kill_for_long(group, time.sleep), look=True)
        group.wait_ready()
    for name, stored in rows.stored().items():
        yield name, rows.of(name), stored


def _kill_for_long(group: Group, sleep: Callable[[float], None]) -> None:
    leader = group.leader()
    assert leader is not None, "no node leads"
    group.kill(leader)
    sleep(FAULT_SECONDS)
    group.start(leader)


def table(found: dict[tuple[str, str], Found]) -> str:
    """For people and for a page."""
    lines = [
        "| leader killed, dead for 30 s | client | kills | failed sends, median | worst "
        "| longest gap, median | worst | acknowledged | lost | doubled |",
        "|" + "---|" * 10,
    ]
    for (subject, client), one in found.items():
        failed = [seen.failed for seen in one.seen]
        gaps = [seen.gap_ms / 1e3 for seen in one.seen]
        lines.append(
            f"| {subject} | {client} | {len(one.seen)} | {statistics.median(failed):g} "
            f"| {max(failed)} | {statistics.median(gaps):.2f} s | {max(gaps):.2f} s "
            f"| {one.acked} | {one.lost} | {one.doubled} |"
        )
    loads = [seen.load for one in found.values() for seen in one.seen]
    return "\n".join([*lines, f"load of the machine: {min(loads)} to {max(loads)}"])


def main(arguments: Sequence[str]) -> int:
    """Run it and print the table; 1 when a part is missing or an acknowledged message is lost."""
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    try:
        options = options_of(Options, "scripts/bench failover", arguments)
        found = run(options, partial(print, flush=True))
    except CommandError as error:
        print(error.message)
        return error.exit_code
    except toolchains.Missing as missing:
        print(missing)
        return 1
    print(table(found))
    print(f"Python: {description()}")
    return int(any(one.lost for (subject, _), one in found.items() if subject == OURS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
