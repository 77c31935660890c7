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

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.seen = seconds, list[int]()

    def apply(self, entry: Entry[int]) -> int:
        if self.seconds:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SteadyLoop)
            loop.work(self.seconds)
            Slow.held[Slow.turn] += self.seconds
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
    counting = asyncio.ensure_future(count_turns())
    yield made
    counting.cancel()
    await made.close()


async def filled(hosts: Hosts, count: int) -> dict[str, Nodes]:
    """So many groups by name, each with commands that all nodes have applied."""
    groups = {f"g{number}": await hosts.open(f"g{number}", Slow) for number in range(count)}
    for nodes in groups.values():
        leader = await leader_of(nodes)
        await within(asyncio.gather(*map(leader.propose, range(COUNT))), "results")
    return groups


def seen_by(node: ReplicatedNode[int, int]) -> list[int]:
    assert isinstance(node.machine, Slow)
    return node.machine.seen


async def test_groups_that_replay_their_logs_share_the_turns(hosts: Hosts) -> None:
    """Each group alone is bounded, and all of them one after the other would not be."""
    groups = await filled(hosts, 6)
    await hosts.stop("n0")
    for nodes in groups.values():
        del nodes["n0"]
        await leader_of(nodes)
    await hosts.start("n0")
    terms = {name: nodes["n1"].log.status().node.term for name, nodes in groups.items()}
    opened = await asyncio.gather(*(hosts.open_on("n0", name, Slow(0.01)) for name in groups))
    back = dict(zip(groups, opened, strict=True))
    late = {name: node.propose(COUNT) for name, node in back.items()}
    pictures = list[list[int]]()

    def all_again() -> bool:
        counts = [len(seen_by(node)) for node in back.values()]
        if min(counts) > 5 and max(counts) < COUNT:
            pictures.append(counts)
        return min(counts) > COUNT

    await eventually(all_again, "all commands again", 60)
    assert max(Slow.held.values()) <= 2 * (TURN_SECONDS + 0.01)
    more = [end - begin for begin, end in zip(pictures[0], pictures[-1], strict=True)]
    assert max(more) > 20
    assert min(more) >= 0.8 * max(more) - 3, "all went on side by side"
    for name, node in back.items():
        assert await within(late[name], "a result") == COUNT + 1
        assert seen_by(node) == list(range(COUNT + 1)), "each once, in order"
        assert node.log.status().node.term == terms[name], "no election came of it"
        for other in groups[name].values():
            seen = seen_by(other)
            assert await other.read(lambda seen=seen: len(seen)) == COUNT + 1  # type: ignore[misc]


async def test_a_busy_group_that_leads_leaves_time_to_others(hosts: Hosts) -> None:
    """Results of another group's commands come while it applies five seconds of its own."""
    for name in ("n1", "n2"):
        await hosts.stop(name)
    host, machines = hosts.hosts["n0"], [Slow(0.005), Slow(0.005)]
    busy, other = [
        await host.open(f"g{number}", machine, create=True, members=["n0"])
        for number, machine in enumerate(machines)
    ]
    for node in (busy, other):
        await within(node.propose(0), "a session")
    waiting = [busy.propose(number) for number in range(1, 1000)]
    await eventually(lambda: busy._applying.waiting > 500, "a backlog", 60)
    beside = 0
    while busy._applying.waiting > 20:
        assert await within(other.propose(beside + 1), "a result") == beside + 2
        beside += 1
    assert beside >= 3, "a few of them; how many is the disk's affair"
    results = await within(asyncio.gather(*waiting), "results")
    assert results == list(range(2, 1001))
    assert [machine.seen for machine in machines] == [
        list(range(1000)),
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
