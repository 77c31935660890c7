"""Stock clients while the lead moves, all nodes restart in turn, the leader is cut off or frozen.

The same programs and table as test_dead_node.py, all at once. A planned move fails no send; what a
rolling restart and a leader that is cut off or frozen cost stock clients is printed.

    DLEDGER_DEAD_NODE_KILLS=20 scripts/interop -k leader_faults -s
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cluster
from cluster.local import processes
from cluster.local.launcher import LocalCluster

from .harness import rows, toolchains
from .harness.content import create_topics
from .harness.rows import Rows
from .test_dead_node import KILLS, RELAYS, senders
from .test_moves import move

pytestmark = pytest.mark.long

# What comes after a move or a restart is of it for so long.
AFTER_SECONDS = 3.0
TABLE = "dledger_leader_faults"


def move_the_lead(local: LocalCluster) -> None:
    async def moved() -> None:
        async with cluster.connect(local.nameserver) as client:
            await move(client.admin())

    asyncio.run(moved())
    time.sleep(AFTER_SECONDS)


def restart_all_in_turn(local: LocalCluster) -> None:
    for name in local.brokers:
        processes.stop([local.folder(name)])
        local.start(name)
        local.wait_ready()
    time.sleep(AFTER_SECONDS)


def led(local: LocalCluster) -> str:
    leader = local.leader()
    assert leader is not None
    return leader


def freeze(local: LocalCluster) -> None:
    """SIGSTOP for 30 s: its connections stay and nothing is answered."""
    leader = led(local)
    local.pause(leader)
    try:
        time.sleep(rows.FAULT_SECONDS)
    finally:
        local.resume(leader)


@contextlib.contextmanager
def cut_off(local: LocalCluster, node: str) -> Iterator[None]:
    """Drop what it says to the other nodes, and they to it; clients and name servers reach it."""
    hosts = {name: local.profile.member(name).host for name in local.brokers}
    mine = hosts.pop(node)
    others = ", ".join(hosts.values())
    table = f"{TABLE}_{os.getpid()}"
    rules = [
        f"add table inet {table}",
        f"add chain inet {table} input {{ type filter hook input priority 0; }}",
        f"add rule inet {table} input ip saddr {mine} ip daddr {{ {others} }} drop",
        f"add rule inet {table} input ip saddr {{ {others} }} ip daddr {mine} drop",
    ]
    subprocess.run(["nft", "-f", "-"], input="\n".join(rules), text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "inet", table], check=True)


def partition(local: LocalCluster) -> None:
    with cut_off(local, led(local)):
        time.sleep(rows.FAULT_SECONDS)


# With many threads a C++ client refuses its own sends while one of them connects (relays.md).
NO_FAILED_SEND = {
    "moved": ("Java 4.9.8", "Java 5.3.3", "Java 5.5.0", "Go, one loop", "Go", "Node", "own"),
    "restarted": ("Go, one loop", "Node", "own"),
}
FAULTS: dict[str, tuple[Callable[[LocalCluster], None], bool]] = {
    # what happens; begun 8 s behind a look at the routes
    "moved": (move_the_lead, False),
    "restarted": (restart_all_in_turn, False),
    "cut off": (partition, True),
    "frozen": (freeze, True),
}
MOVES_FOR_A_KILL = 3
"""A move takes some seconds, a kill a minute."""


@pytest.mark.timeout(540 + 120 * KILLS)
@pytest.mark.parametrize("kind", FAULTS)
def test_leader_faults(
    kind: str, make_session_cluster: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    happens, look = FAULTS[kind]
    try:
        clients = senders()
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    if kind == "cut off" and (os.geteuid() or shutil.which("nft") is None):
        pytest.skip("needs nft and root")
    local = make_session_cluster(settings=RELAYS)
    create_topics(local.nameserver, [client.topic for client in clients])
    out = Path(os.environ.get("DLEDGER_DEAD_NODE_FILE", tmp_path / "rows.jsonl"))
    found = Rows(local, tmp_path, out, time.sleep)
    with found.all_started(clients):
        for number in range(KILLS * (MOVES_FOR_A_KILL if kind == "moved" else 1)):
            found.fault(kind, number, lambda: happens(local), look=look)
            local.wait_ready()
    stored = found.stored()
    print(f"\n{rows.table(kind, found, stored)}\neach of each program: {out}")
    assert not [name for name, what in stored.items() if what.lost]
    spared = NO_FAILED_SEND.get(kind, ())
    assert not [one for one in found.seen if one.failed and one.program in spared]
