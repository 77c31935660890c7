"""The blocking twin of Host: groups of each kind in one process, from any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, assert_type

import pytest

from dledger import (
    Entry,
    LogUsageError,
    MachineSettings,
    NodeFailed,
    RaftConfig,
    ReplicatedStateMachine,
    StateMachineFailed,
)
from dledger.blocking import (
    Host,
    LoopThread,
    ReplicatedCounter,
    ReplicatedDict,
    ReplicatedLog,
    ReplicatedNode,
)
from tests.dledger.runtime.group import Group
from tests.virtual_loop import LoopClock
from tests.waiting import limit

PATIENT = MachineSettings(propose_seconds=60)


class Sum(ReplicatedStateMachine[int, int]):
    total = 0

    def apply(self, entry: Entry[int]) -> int:
        self.total += 100 // (13 - entry.command) and entry.command
        return self.total


@pytest.fixture
def hosts(tmp_path: Path, new_address: Callable[[], str]) -> Iterator[list[Host]]:
    """Three hosts that share a thread, so that the loop's clock is that of all."""
    with LoopThread() as thread:
        clock = thread.call(LoopClock)
        configs = Group(tmp_path, new_address).configs.values()
        made = [Host(config, clock=clock, thread=thread) for config in configs]
        for host in made:
            host.start()
        yield made
        for host in made:
            host.close()


@pytest.fixture
def one(tmp_path: Path, new_address: Callable[[], str]) -> RaftConfig:
    return Group(tmp_path, new_address, 1).configs["n0"]


def test_groups_of_each_kind_on_three_hosts(hosts: list[Host]) -> None:
    nodes = [host.open("sums", Sum(), create=True, settings=PATIENT) for host in hosts]
    given: dict[str, Any] = {"create": True, "settings": PATIENT}
    counters = [host.open_object("votes", ReplicatedCounter, **given) for host in hosts]
    logs = [host.open_log("lines", create=True, members=["n0"]) for host in hosts[:1]]
    assert hosts[0].groups == ("sums", "votes", "lines")
    assert hosts[1].groups == ("sums", "votes")
    with ThreadPoolExecutor(6) as pool:
        sums = list(pool.map(lambda n: nodes[n % 3].propose(n % 7), range(21)))
        list(pool.map(lambda n: counters[n % 3].add(), range(21)))
    assert max(sums) == nodes[1].read(lambda: nodes[1].machine.total) == 3 * sum(range(7))  # type: ignore[attr-defined]
    assert [counter.value() for counter in counters] == [21] * 3
    assert logs[0].wait_for_leader(timeout=limit(60)) == "n0"
    logs[0].wait(0)  # its first entry, before which a leader takes no others
    assert logs[0].read(logs[0].append(b"a line")).body == b"a line"


def test_a_group_ends_alone(hosts: list[Host]) -> None:
    host = hosts[0]
    bad = host.open("bad", Sum(), create=True, members=["n0"], settings=PATIENT)
    good = host.open("good", Sum(), create=True, members=["n0"], settings=PATIENT)
    told: list[Exception] = []
    bad.on_error(told.append)
    with pytest.raises(LogUsageError, match="open"):
        host.open("good", Sum())
    with pytest.raises(ValueError, match="not in peers"):
        host.config_of("x", ["n9"])
    with pytest.raises(Exception, match="ZeroDivisionError"):
        bad.propose(13)
    assert good.propose(2) == 2
    bad.close()
    assert host.groups == ("good",)
    assert [type(error) for error in told] == [StateMachineFailed]
    good.close()
    again = host.open("good", Sum(), settings=PATIENT)
    assert again.propose(3) == 5


def test_a_host_has_a_thread_that_ends_with_it(one: RaftConfig) -> None:
    with Host(one) as host:
        stock = host.open_object("stock", ReplicatedDict, create=True, settings=PATIENT)
        assert stock.thread is host.thread
        stock.set("apples", 3)
        config = host.config_of("own")
        mine = ReplicatedNode(
            config, Sum(), create=True, settings=PATIENT, thread=host.thread, extend=host.share
        )
        with mine:
            assert mine.propose(4) == 4
            assert host.groups == ("stock", "own")
    assert host.thread.is_closed
    host.close()
    stock.close()
    for call in lambda: host.groups, lambda: stock.set("pears", 1), lambda: host.open("x", Sum()):
        with pytest.raises(NodeFailed, match="closed"):
            call()
    with Host(one) as host:
        stock = host.open_object("stock", ReplicatedDict, settings=PATIENT)
        stock.set("pears", 1)
        assert stock.get("apples") == 3


def test_a_start_that_fails_ends_the_thread(one: RaftConfig) -> None:
    with Host(one):
        other = Host(one)
        with pytest.raises(OSError, match="in use"):
            other.start()
        assert other.thread.is_closed


def types_of(host: Host) -> ReplicatedNode[int, int]:
    """Never run: the types are the test."""
    assert_type(host.open_log("lines"), ReplicatedLog)
    assert_type(host.open_object("votes", ReplicatedCounter), ReplicatedCounter)
    node = host.open("sums", Sum())
    assert_type(node.propose(1), int)
    return node
