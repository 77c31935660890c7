"""Many groups of a host have entries to apply: they share turns, and the host is heard."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import ClassVar

import pytest
import pytest_asyncio

from dledger import Entry, ReplicatedNode, ReplicatedStateMachine
from dledger.errors import DledgerError
from dledger.machine import applying
from dledger.runtime.turns import TURN_SECONDS
from tests.virtual_loop import SteadyLoop
from tests.waiting import eventually, within

from .hosts import Hosts, leader_of

COUNT = 60
Nodes = dict[str, ReplicatedNode[int, int]]


class Slow(ReplicatedStateMachine[int, int]):
    """Notes commands; each takes so long of the loop's time."""

    turn = 0
    #: Seconds of all machines in each turn of the loop.
    held: ClassVar[Counter[int]] = Counter()
    #: The machine of each command that took time, in order.
    order: ClassVar[list[Slow]] = []

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.seen = seconds, list[int]()

    def apply(self, entry: Entry[int]) -> int:
        if self.seconds:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SteadyLoop)
            loop.work(self.seconds)
            Slow.held[Slow.turn] += self.seconds
            Slow.order.append(self)
        self.seen.append(entry.command)
        return len(self.seen)


@pytest_asyncio.fixture
async def hosts(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Hosts]:
    monkeypatch.setattr(applying, "COMMANDS_MAX", 1)  # a command is an entry
    made = Hosts(tmp_path, new_address)
    await made.start()

    async def count_turns() -> None:
        while True:  # until it is cancelled
            Slow.turn += 1
            await asyncio.sleep(0)

    Slow.held.clear()
    Slow.order.clear()
    counting = asyncio.ensure_future(count_turns())
    yield made
    counting.cancel()
    await made.close()


async def filled(hosts: Hosts, count: int, commands: int) -> dict[str, Nodes]:
    """So many groups by name, each with so many commands that all nodes have applied."""
    groups = {f"g{number}": await hosts.open(f"g{number}", Slow) for number in range(count)}
    for nodes in groups.values():
        leader = await leader_of(nodes)
        await within(asyncio.gather(*map(leader.propose, range(commands))), "results")
    return groups


def seen_by(node: ReplicatedNode[int, int]) -> list[int]:
    assert isinstance(node.machine, Slow)
    return node.machine.seen


def taken_side_by_side(machines: int, count: int) -> list[int]:
    """How many commands each has taken while all had begun and none was at its end."""
    counts, whole = Counter[int](), list[Counter[int]]()
    for one in Slow.order:
        counts[id(one)] += 1
        if len(counts) == machines and max(counts.values()) < count:
            whole.append(counts.copy())
    assert whole, "no two commands of all groups side by side: the groups need more of them"
    return [whole[-1][one] - whole[0][one] for one in counts]


async def test_groups_that_replay_their_logs_share_the_turns(hosts: Hosts) -> None:
    """Each group alone is bounded, and all of them one after the other would not be."""
    seconds, count = 0.002, 400  # so many that the groups, opened one after the other, overlap
    groups = await filled(hosts, 6, count)
    await hosts.stop("n0")
    for nodes in groups.values():
        del nodes["n0"]
        await leader_of(nodes)
    await hosts.start("n0")
    terms = {name: nodes["n1"].log.status().node.term for name, nodes in groups.items()}
    opened = await asyncio.gather(*(hosts.open_on("n0", name, Slow(seconds)) for name in groups))
    back = dict(zip(groups, opened, strict=True))
    late = {name: node.propose(count) for name, node in back.items()}

    def all_again() -> bool:
        return min(len(seen_by(node)) for node in back.values()) > count

    await eventually(all_again, "all commands again", 60)
    assert max(Slow.held.values()) <= 2 * (TURN_SECONDS + seconds)
    more = taken_side_by_side(6, count)
    assert max(more) > 20
    assert min(more) >= 0.8 * max(more) - 0.05 / seconds, "all went on side by side"
    for name, node in back.items():
        assert await within(late[name], "a result") == count + 1
        assert seen_by(node) == list(range(count + 1)), "each once, in order"
        assert node.log.status().node.term == terms[name], "no election came of it"
        for other in groups[name].values():
            seen = seen_by(other)
            assert await other.read(lambda seen=seen: len(seen)) == count + 1  # type: ignore[misc]


async def test_a_busy_group_that_leads_leaves_time_to_others(hosts: Hosts) -> None:
    """Results of another group's commands come while it applies eight seconds of its own."""
    for name in ("n1", "n2"):
        await hosts.stop(name)
    host, machines = hosts.hosts["n0"], [Slow(0.001), Slow(0.001)]
    busy, other = [
        await host.open(f"g{number}", machine, create=True, members=["n0"])
        for number, machine in enumerate(machines)
    ]
    for node in (busy, other):
        await within(node.propose(0), "a session")
    waiting = [busy.propose(number) for number in range(1, 8000)]
    await eventually(lambda: busy.status().apply_waiting > 4000, "a backlog", 60)
    beside = 0
    while busy.status().apply_waiting > 20:
        assert await within(other.propose(beside + 1), "a result") == beside + 2
        beside += 1
    ends = {id(machine): at for at, machine in enumerate(Slow.order)}
    first = Slow.order.index(machines[1], Slow.order.index(machines[1]) + 1)  # behind the session
    assert first < ends[id(machines[0])], "amid them; how many more is the disk's affair"
    results = await within(asyncio.gather(*waiting), "results")
    assert results == list(range(2, 8001))
    assert [machine.seen for machine in machines] == [
        list(range(8000)),
        list(range(beside + 1)),
    ]
    assert max(Slow.held.values()) <= 2 * (TURN_SECONDS + 0.01)


class Cancelled(Slow):
    """Asks a cancelled task for its result at one command."""

    def apply(self, entry: Entry[int]) -> int:
        if entry.command == COUNT:
            raise asyncio.CancelledError
        return super().apply(entry)


async def test_a_machine_that_is_cancelled_ends_its_group(hosts: Hosts) -> None:
    """Its commands are not lost, unseen, while the node goes on, and other groups are served."""
    for name in ("n1", "n2"):
        await hosts.stop(name)
    host, machines = hosts.hosts["n0"], [Cancelled(0.005), Slow(0.005)]
    broken, other = [
        await host.open(f"g{number}", machine, create=True, members=["n0"])
        for number, machine in enumerate(machines)
    ]
    for node in (broken, other):
        await within(node.propose(0), "a session")
    calls = [broken.propose(number) for number in range(1, 2 * COUNT)]
    results = [other.propose(number) for number in range(1, 2 * COUNT)]
    ended = await within(asyncio.gather(*calls, return_exceptions=True), "ends")
    assert broken.failure is not None
    assert "CancelledError" in str(broken.failure)
    assert COUNT not in seen_by(broken)
    assert isinstance(ended[-1], DledgerError)
    assert await within(asyncio.gather(*results), "results") == list(range(2, 2 * COUNT + 1))
