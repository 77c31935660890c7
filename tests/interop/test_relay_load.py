"""What relays cost a stock Java producer while the leader lives, and what a dead follower costs it.

One cluster and one Java program. For relays it has two producers: the name server of one shows
relays, that of the other none. They send in turns, pair by pair, so both meet the same machine. For
a dead follower one producer sends while all live, and while one of the two followers is dead.
Processor time a message (nodes and client together) is printed too: it says more where others use
the machine.

    DLEDGER_RELAY_PAIRS=9 scripts/interop -k relay_load -s      so many pairs; half a minute each
    DLEDGER_RELAY_PAIRS=9 scripts/interop -k follower_load -s   a minute each
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
IN_FLIGHT = (1024, 64)
#: Asynchronous sends in flight at a death: no server can cure those (docs/relays.md).
FAILED_MAX = 2


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
    """One run, in which no send failed, through relays where they are shown."""
    seen, failed = sent(program, local, which, in_flight)
    assert failed == 0, "a send failed while all nodes lived"
    assert bool(seen.share) == (which == WITH), "relays are where they are asked for"
    return seen


def sent(program: Program, local: LocalCluster, which: int, in_flight: int) -> tuple[Seen, int]:
    """One run, and how many sends of it failed."""
    busy = [process for name in local.brokers if (process := processes.running(local.folder(name)))]
    busy.append(psutil.Process(program.process.pid))
    before = sum(sum(process.cpu_times()[:2]) for process in busy)
    facts = program.ask(f"run {which} {in_flight} {MILLIS}")
    spent = sum(sum(process.cpu_times()[:2]) for process in busy) - before
    acked = facts["acked"]
    assert acked, facts
    seen = Seen(acked / facts["seconds"], spent * 1e6 / acked, facts["through_relays"] / acked)
    return seen, int(facts["failed"])


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


def dead_pairs(program: Program, local: LocalCluster, in_flight: int) -> None:
    """Run all alive and one follower dead by turns; print one line each, then the median ratio."""
    ratios, costs, lost = [], [], 0
    for number in range(PAIRS):
        calm = ran(program, local, WITH, in_flight)
        followers = sorted(set(local.brokers) - {local.leader()})
        dead = followers[number % len(followers)]
        local.kill(dead)
        seen, failed = sent(program, local, WITH, in_flight)
        local.start(dead)
        local.wait_ready()
        lost += failed
        ratios.append(seen.rate / calm.rate)
        costs.append(calm.cpu_us / seen.cpu_us)
        print(
            f"{VERSION}, {in_flight} in flight, {dead} dead: {seen.rate:,.0f}/s ÷ "
            f"{calm.rate:,.0f}/s = {ratios[-1]:.3f}, {failed} failed; through relays "
            f"{seen.share:.0%} and {calm.share:.0%}; processors {seen.cpu_us:.0f} and "
            f"{calm.cpu_us:.0f} µs a message"
        )
    print(
        f"{VERSION}, {in_flight} in flight, a follower dead: median of {PAIRS} pairs "
        f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}); "
        f"by processor time {statistics.median(costs):.3f}; {lost} failed"
    )
    assert lost <= FAILED_MAX * PAIRS, "more sends failed than were in flight through the dead node"


@contextlib.contextmanager
def load(
    tmp_path: Path, nameservers: list[str], warm_ups: list[tuple[int, int]]
) -> Iterator[Program]:
    """The Java program, warm: a long run, so that the second compiler gives what sends cost."""
    try:
        command = toolchains.java(VERSION)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    create_topics(nameservers[0], [TOPIC])
    options = ["-XX:TieredStopAtLevel=4", f"-Duser.home={tmp_path}"]
    arguments = [TOPIC, *nameservers]
    with started([*command, *options, "interop.SendLoad", *arguments], tmp_path) as program:
        for which, in_flight in warm_ups:
            program.ask(f"run {which} {in_flight} {WARM_UP_MILLIS}")
        yield program


@pytest.mark.timeout(180 + 60 * PAIRS)
def test_relay_load(
    make_session_cluster: Callable[..., LocalCluster],
    new_address: Callable[[], str],
    tmp_path: Path,
) -> None:
    shows, hides = f"{new_address()}:9876", f"{new_address()}:9876"
    with nameserver(shows), nameserver(hides, "--no-relays"):
        local = make_session_cluster(
            settings={"broker.relay_port": "10915", "broker.name_servers": f"{shows},{hides}"}
        )
        warm_ups = [(which, in_flight) for in_flight in IN_FLIGHT for which in (WITH, WITHOUT)]
        with load(tmp_path, [shows, hides], warm_ups) as program:
            for in_flight in IN_FLIGHT:
                pairs(program, local, in_flight)


@pytest.mark.timeout(180 + 120 * PAIRS)
def test_follower_load(make_session_cluster: Callable[..., LocalCluster], tmp_path: Path) -> None:
    local = make_session_cluster()
    warm_ups = [(WITH, in_flight) for in_flight in IN_FLIGHT]
    with load(tmp_path, [local.nameserver], warm_ups) as program:
        for in_flight in IN_FLIGHT:
            dead_pairs(program, local, in_flight)
