"""A state is given to the machine in a thread: heartbeats and the log go on, the machine waits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from commitlog.errors import StoreLocked
from dledger import (
    Consistency,
    Entry,
    MachineSettings,
    ReplicatedLog,
    ReplicatedNode,
    StateMachineFailed,
)
from dledger.errors import NotDone
from tests.virtual_loop import LoopClock
from tests.waiting import eventually, limit, within

from .group import MachineGroup, states
from .hosts import Hosts
from .test_host import Adder
from .test_saving import FILE, Lines, anchor, fill_until, lines, write

Group = MachineGroup[str, int]


class Held(Lines):
    """Its `restore` waits in the middle until `go_on` is set, where it is told to."""

    holds = False
    raises: Exception | None = None
    begun, go_on = threading.Event(), threading.Event()
    threads: list[threading.Thread]

    def __init__(self) -> None:
        super().__init__()
        self.is_half = False

    def apply(self, entry: Entry[str]) -> int:
        assert not self.is_half, "half a state is here"
        return super().apply(entry)

    def snapshot(self) -> bytes | Callable[[], bytes]:
        assert not self.is_half, "half a state is here"
        return super().snapshot()

    def restore(self, state: bytes) -> None:
        Held.threads.append(threading.current_thread())
        self.is_half, self.count = True, -1
        if Held.holds:
            Held.begun.set()
            assert threading.current_thread() is not threading.main_thread()
            assert Held.go_on.wait(limit(60))
        if Held.raises is not None:
            raise Held.raises
        super().restore(state)
        self.is_half = False


@pytest_asyncio.fixture
async def group(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Group]:
    monkeypatch.setattr(Held, "begun", threading.Event())
    monkeypatch.setattr(Held, "go_on", threading.Event())
    monkeypatch.setattr(Held, "threads", [], raising=False)
    made: Group = MachineGroup(tmp_path, new_address, Held)
    # Files that stay: a node that is given a state lacks no entry when the leader has the next one.
    made.settings = MachineSettings(propose_seconds=60, resend_seconds=0.5, margin_files=4)
    small = {"data_file_size": FILE, "entry_size_max": FILE // 4}
    made.configs = {name: replace(c, **small) for name, c in made.configs.items()}  # type: ignore[arg-type]
    yield made
    Held.go_on.set()
    await made.close()


async def restoring(group: Group, monkeypatch: pytest.MonkeyPatch) -> ReplicatedNode[str, int]:
    """A node whose machine is in the middle of a state that its leader has sent."""
    await group.start()
    node = await group.follower()
    name = node.config.node_id
    await within(node.propose("first"), "a result")
    await group.stop(name)
    leader = await group.leader()
    await fill_until(leader, lambda: anchor(leader) > 60, "a shorter log")
    monkeypatch.setattr(Held, "holds", True)
    await group.start(name)
    await eventually(Held.begun.is_set, "a state that is given to the machine", 60)
    return group.nodes[name]


def machine(node: ReplicatedNode[str, int]) -> Held:
    assert isinstance(node.machine, Held)
    return node.machine


async def not_yet(*waiting: asyncio.Future[int]) -> None:
    """The loop turns, and none of them is done."""
    done, _ = await asyncio.wait(waiting, timeout=limit(0.1))
    assert not done


async def test_the_log_goes_on_and_the_machine_waits(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await restoring(group, monkeypatch)
    assert threading.main_thread() not in Held.threads
    leader = await group.leader()
    term, applied = leader.log.status().node.term, node.applied

    def has_all() -> bool:
        return node.log.store.last.index >= leader.log.store.last.index

    await eventually(has_all, "the leader's log", 60)
    end = node.log.store.last.index
    total = await write(leader, 20)
    await eventually(has_all, "entries of the log", 60)
    assert node.log.store.last.index > end
    local = asyncio.ensure_future(
        node.read(lambda: machine(node).count, consistency=Consistency.LOCAL)
    )
    proven = asyncio.ensure_future(node.read(lambda: machine(node).count))
    proposed = node.propose("from here")
    await not_yet(local, proven, proposed)
    assert (node.applied, machine(node).applied, machine(node).count) == (applied, 0, -1)
    assert leader.log.status().node.term == term, "it hears the leader, and needs no other one"
    Held.go_on.set()
    assert await within(local, "a local read") >= 0
    assert await within(proven, "a read") >= total
    assert await within(proposed, "a result") == total + 1
    assert (machine(node).is_half, node.failure) == (False, None)


async def test_a_node_leads_while_its_machine_is_given_a_state(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it commits is applied on the others at once, and here behind the state."""
    node = await restoring(group, monkeypatch)
    leader = await group.leader()
    total = lines(leader).count

    async def leads() -> bool:
        with contextlib.suppress(NotDone):  # its log may lag, or the third one lead for a moment
            await (await group.leader()).log.transfer(node.config.node_id)
        return node.is_leader

    await eventually(leads, "another leader")
    other = next(one for one in group.nodes.values() if one not in (leader, node))
    here = node.propose("here")
    assert await within(other.propose("there"), "a result at another node") in (
        total + 1,
        total + 2,
    )
    await not_yet(here)
    assert node.is_leader
    Held.go_on.set()
    assert await within(here, "a result here") in (total + 1, total + 2)
    assert await node.read(lambda: machine(node).count) == total + 2


async def test_a_close_waits_for_the_state(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is cancelled, and reads that wait end at once."""
    node = await restoring(group, monkeypatch)
    read = asyncio.ensure_future(node.read(lambda: 1, consistency=Consistency.LOCAL))
    await not_yet(read)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(node.close(), limit(0.1))
    with pytest.raises(Exception, match="was closed"):
        await within(read, "the end of a read")
    config = group.configs[node.config.node_id]
    with pytest.raises(StoreLocked):
        await ReplicatedLog(replace(config), clock=LoopClock()).start()
    closed = asyncio.ensure_future(node.close())
    await asyncio.wait({closed}, timeout=limit(0.1))
    assert not closed.done()
    Held.go_on.set()
    await within(closed, "the end")
    assert not machine(node).is_half
    del group.nodes[config.node_id]
    await group.start(config.node_id)
    again = group.nodes[config.node_id]
    assert await within(again.propose("last"), "a result") > 60
    assert machine(again).restored >= 1


async def test_a_state_that_the_machine_refuses_ends_the_node(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Held, "raises", KeyError("version"))
    node = await restoring(group, monkeypatch)
    read = asyncio.ensure_future(node.read(lambda: 1, consistency=Consistency.LOCAL))
    await not_yet(read)
    Held.go_on.set()
    with pytest.raises(StateMachineFailed, match="restore raised KeyError: 'version'"):
        await within(read, "the end of a read")
    assert isinstance(node.failure, StateMachineFailed)
    assert node.failure.index > 60
    assert machine(node).applied == 0


async def test_a_function_that_restore_returns_is_called_on_the_loop(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that looks at the machine by itself sees the state before, then all of this one."""

    class Aside(Held):
        def restore(self, state: bytes) -> Callable[[], None]:  # type: ignore[override]
            other = Held()
            other.restore(state)

            def take() -> None:
                assert threading.current_thread() is threading.main_thread()
                self.count, self.size, self.restored = other.count, other.size, 1

            return take

    group.make = Aside
    node = await restoring(group, monkeypatch)
    assert (machine(node).count, machine(node).is_half) == (0, False)
    total = await write(await group.leader(), 20)
    assert machine(node).count == 0
    Held.go_on.set()
    assert await within(node.propose("last"), "a result") == total + 1
    assert machine(node).restored == 1


async def test_other_groups_go_on_while_a_start_gives_a_machine_its_state(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Held, "begun", threading.Event())
    monkeypatch.setattr(Held, "go_on", threading.Event())
    monkeypatch.setattr(Held, "threads", [], raising=False)
    hosts = Hosts(tmp_path, new_address, quiescence=None)
    await hosts.start("n0")
    host = hosts.hosts["n0"]
    try:
        other = await host.open("a", Adder(), create=True, members=["n0"])
        quick = MachineSettings(state_seconds=0.05)
        node = await host.open("b", Held(), create=True, members=["n0"], settings=quick)
        assert await within(node.propose("line"), "a result") == 1
        await eventually(lambda: states(node).last == node.applied, "a state")
        await node.close()
        monkeypatch.setattr(Held, "holds", True)
        started = asyncio.ensure_future(host.open("b", Held(), members=["n0"]))
        await eventually(Held.begun.is_set, "a state that is given to the machine", 60)
        assert await within(other.propose(3), "a result of another group") == 3
        started.cancel()
        await asyncio.wait({started}, timeout=limit(0.05))
        assert not started.done()
        Held.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await started
        again = await host.open("b", Held(), members=["n0"])
        assert await within(again.propose("line"), "a result") == 2
        assert threading.main_thread() not in Held.threads
    finally:
        Held.go_on.set()
        await hosts.close()
