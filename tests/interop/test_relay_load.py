"""What relays cost a stock Java producer while the leader lives: throughput with ÷ without.

One cluster and one Java program with two producers: the name server of one shows relays, that of
the other none. They send in turns, pair by pair, so both meet the same machine. Processor time a
message (nodes and client together) is printed too: it says more where others use the machine.

    DLEDGER_RELAY_PAIRS=9 scripts/interop -k relay_load -s      so many pairs; half a minute each
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from cluster.local import processes
from cluster.local.launcher import LocalCluster

from .harness import toolchains
from .harness.content import create_topics
from .harness.running import Program, started

pytestmark = pytest.mark.long

PAIRS = int(os.environ.get("DLEDGER_RELAY_PAIRS", "1"))
MILLIS, WARM_UP_MILLIS = 6_000, 10_000
VERSION, TOPIC = "5.3.3", "Load"
WITH, WITHOUT = 0, 1


@contextlib.contextmanager
def nameserver(address: str, *options: str) -> Iterator[None]:
    command = [sys.executable, "-m", "cluster.local.nameserver_main", "--listen", address]
    process = subprocess.Popen([*command, *options])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class Seen:
    """Of one run: messages a second, microseconds of processors a message, share of relays."""

    rate: float
    cpu_us: float
    share: float


def ran(program: Program, local: LocalCluster, which: int, in_flight: int) -> Seen:
    busy = [process for name in local.brokers if (process := processes.running(local.folder(name)))]
    busy.append(psutil.Process(program.process.pid))
    before = sum(sum(process.cpu_times()[:2]) for process in busy)
    facts = program.ask(f"run {which} {in_flight} {MILLIS}")
    spent = sum(sum(process.cpu_times()[:2]) for process in busy) - before
    acked = facts["acked"]
    assert facts["failed"] == 0 < acked, facts
    assert bool(facts["through_relays"]) == (which == WITH), "relays are where they are asked for"
    return Seen(acked / facts["seconds"], spent * 1e6 / acked, facts["through_relays"] / acked)


def pairs(program: Program, local: LocalCluster, in_flight: int) -> None:
    """Run them and print one line each, then the median of their ratios."""
    ratios, costs = [], []
    for number in range(PAIRS):
        seen = {
            which: ran(program, local, which, in_flight)
            for which in ((WITH, WITHOUT) if number % 2 else (WITHOUT, WITH))
        }
        relays, plain = seen[WITH], seen[WITHOUT]
        ratios.append(relays.rate / plain.rate)
        costs.append(plain.cpu_us / relays.cpu_us)
        print(
            f"{VERSION}, {in_flight} in flight, {relays.share:.0%} through relays: "
            f"{relays.rate:,.0f}/s ÷ {plain.rate:,.0f}/s = {ratios[-1]:.3f}; "
            f"processors {relays.cpu_us:.0f} and {plain.cpu_us:.0f} µs a message"
        )
    print(
        f"{VERSION}, {in_flight} in flight: median of {PAIRS} pairs "
        f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}); "
        f"by processor time {statistics.median(costs):.3f}"
    )


@pytest.mark.timeout(180 + 60 * PAIRS)
def test_relay_load(
    make_session_cluster: Callable[..., LocalCluster],
    new_address: Callable[[], str],
    tmp_path: Path,
) -> None:
    try:
        command = toolchains.java(VERSION)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    shows, hides = f"{new_address()}:9876", f"{new_address()}:9876"
    with nameserver(shows), nameserver(hides, "--no-relays"):
        local = make_session_cluster(
            settings={"broker.relay_port": "10915", "broker.name_servers": f"{shows},{hides}"}
        )
        create_topics(shows, [TOPIC])
        # A long run: the second compiler gives what it costs.
        options = ["-XX:TieredStopAtLevel=4", f"-Duser.home={tmp_path}"]
        arguments = [TOPIC, shows, hides]
        with started([*command, *options, "interop.SendLoad", *arguments], tmp_path) as program:
            for in_flight in (1024, 64):
                for which in (WITH, WITHOUT):
                    program.ask(f"run {which} {in_flight} {WARM_UP_MILLIS}")
                pairs(program, local, in_flight)
