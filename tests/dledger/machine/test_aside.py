"""What a node does with its folder while others of its process go on: opening, replay, its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from commitlog.errors import StoreLocked
from dledger import ReplicatedLog, ReplicatedNode
from dledger.log.entry_reader import EntryReader
from dledger.replica import apply_pace
from dledger.runtime import opening, replicated_log
from dledger.runtime.transport import Transport
from dledger.snapshots.snapshot_files import SnapshotFolder
from tests.virtual_loop import LoopClock
from tests.waiting import eventually, limit, within

from .group import QUICK, states
from .hosts import Hosts
from .test_host import Adder
from .test_saving import FILE, Lines, write


@pytest_asyncio.fixture
async def hosts(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Hosts]:
    """One host, with small files."""
    made = Hosts(tmp_path, new_address, quiescence=None)
    small = {"data_file_size": FILE, "entry_size_max": FILE // 4}
    made.configs = {name: replace(c, **small) for name, c in made.configs.items()}  # type: ignore[arg-type]
    await made.start("n0")
    yield made
    while Held.made:  # of a test that failed: nothing waits for it
        Held.made.pop().go_on.set()
    await made.close()


class Held:
    """Holds a function's calls back in their thread, until `go_on` is set."""

    made: ClassVar[list[Held]] = []

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.made.append(self)
        function = getattr(owner, name)

        def held(*args: Any, **named: Any) -> Any:
            self.begun.set()
            assert self.go_on.wait(limit(60))
            return function(*args, **named)

        monkeypatch.setattr(owner, name, held)


async def test_other_groups_go_on_while_a_folder_is_opened(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery reads files and waits for the disk; heartbeats of other groups wait for neither."""
    host = hosts.hosts["n0"]
    other = await host.open("a", Adder(), create=True, members=["n0"])
    held = Held(monkeypatch, opening, "open_folder")
    started = asyncio.ensure_future(host.open("b", Adder(), create=True, members=["n0"]))
    await eventually(held.begun.is_set, "a folder that is being opened", 60)
    assert await within(other.propose(3), "a result of another group") == 3
    assert not started.done()
    held.go_on.set()
    assert await within((await started).propose(4), "a result") == 4


async def test_a_start_that_is_cancelled_leaves_its_folder_closed(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = hosts.hosts["n0"]
    with monkeypatch.context() as patched:
        held = Held(patched, opening, "open_folder")
        started = asyncio.ensure_future(host.open("a", Adder(), create=True, members=["n0"]))
        await eventually(held.begun.is_set, "a folder that is being opened", 60)
        started.cancel()
        await asyncio.sleep(0)
        assert not started.done()
        held.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await started
    node = await host.open("a", Adder(), members=["n0"])
    assert await within(node.propose(1), "a result") == 1


async def test_a_start_that_is_cancelled_twice_leaves_its_folder_closed(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a task group ends its tasks, and the program's end cancels what is left."""
    host = hosts.hosts["n0"]
    with monkeypatch.context() as patched:
        held = Held(patched, opening, "open_folder")
        started = asyncio.ensure_future(host.open("a", Adder(), create=True, members=["n0"]))
        await eventually(held.begun.is_set, "a folder that is being opened", 60)
        for _ in range(3):
            started.cancel()
            await asyncio.wait({started}, timeout=limit(0.01))
        assert not started.done()
        held.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await started
    node = await host.open("a", Adder(), members=["n0"])
    assert await within(node.propose(1), "a result") == 1


async def test_a_format_that_is_cancelled_twice_is_whole_before_the_next_look(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = hosts.hosts["n0"]
    held = Held(monkeypatch, replicated_log, "format_folder")
    started = asyncio.ensure_future(host.open("a", Adder(), create=True, members=["n0"]))
    await eventually(held.begun.is_set, "a folder that is being formatted", 60)
    for _ in range(3):
        started.cancel()
        await asyncio.wait({started}, timeout=limit(0.01))
    assert not started.done()
    held.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await started
    node = await host.open("a", Adder(), create=True, members=["n0"])
    assert await within(node.propose(1), "a result") == 1


async def test_a_start_that_is_cancelled_while_it_dials_leaves_its_folder_closed(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = hosts.hosts["n0"].config_of("a", ["n0"])
    ReplicatedLog.format(config)
    with monkeypatch.context() as patched:
        begun = asyncio.Event()

        async def hung(_: Transport) -> None:
            begun.set()
            await asyncio.Event().wait()

        patched.setattr(Transport, "start", hung)
        started = asyncio.ensure_future(ReplicatedLog(config, clock=LoopClock()).start())
        await within(begun.wait(), "a transport that starts")
        started.cancel()
        with pytest.raises(asyncio.CancelledError):
            await started
    node = await hosts.hosts["n0"].open("a", Adder(), members=["n0"])
    assert await within(node.propose(1), "a result") == 1


async def test_a_close_that_comes_while_the_folder_is_opened_closes_it(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a handler of SIGTERM; else the node would run on, and none could open its folder."""
    host = hosts.hosts["n0"]
    config = host.config_of("a", ["n0"])
    ReplicatedLog.format(config)
    node = ReplicatedNode(config, Adder(), settings=QUICK, clock=LoopClock(), extend=host.share)
    with monkeypatch.context() as patched:
        held = Held(patched, opening, "open_folder")
        started = asyncio.ensure_future(node.start())
        await eventually(held.begun.is_set, "a folder that is being opened", 60)
        closed = asyncio.ensure_future(node.close())
        await asyncio.wait({closed}, timeout=limit(0.05))
        assert not closed.done()
        held.go_on.set()
        await within(started, "the start")
        await within(closed, "the end")
    assert host.groups == ()
    again = await host.open("a", Adder(), members=["n0"])
    assert await within(again.propose(1), "a result") == 1


async def test_a_long_log_is_applied_in_pieces_between_which_the_loop_goes_on(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = hosts.hosts["n0"]
    node = await host.open("a", Adder(), create=True, members=["n0"])
    for number in range(12):
        await within(node.propose(number), "a result")
    await node.close()
    monkeypatch.setattr(apply_pace, "AT_ONCE", 3)
    pieces, turns = list[tuple[int, int]](), list[int]()
    apply = ReplicatedNode.apply

    def noted(self: ReplicatedNode[Any, Any], first: Any, last: Any) -> None:
        pieces.append((first, last))
        asyncio.get_running_loop().call_soon(turns.append, len(pieces))
        apply(self, first, last)

    monkeypatch.setattr(ReplicatedNode, "apply", noted)
    node = await host.open("a", Adder(), members=["n0"])
    assert await within(node.propose(0), "a result") == sum(range(12))
    assert len(pieces) > 3
    assert max(last - first for first, last in pieces) < 3
    assert [first for first, _ in pieces[1:]] == [last + 1 for _, last in pieces[:-1]]
    assert set(turns) >= set(range(1, len(pieces))), "the loop had a turn behind each piece"


async def test_a_turn_of_a_replay_reads_what_it_applies_and_not_the_rest_of_the_log(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a start takes the square of the log's size, and the loop stands still for all of it."""
    host = hosts.hosts["n0"]
    node = await host.open("a", Adder(), create=True, members=["n0"])
    for number in range(12):
        await within(node.propose(number), "a result")
    await node.close()
    monkeypatch.setattr(apply_pace, "AT_ONCE", 3)
    looked = list[tuple[int, int]]()
    whole_through = EntryReader.whole_through

    def noted(self: EntryReader, first: Any, last: Any) -> Any:
        looked.append((first, last))
        return whole_through(self, first, last)

    monkeypatch.setattr(EntryReader, "whole_through", noted)
    node = await host.open("a", Adder(), members=["n0"])
    assert await within(node.propose(0), "a result") == sum(range(12))
    assert len(looked) > 3
    assert [first for first, _ in looked[1:]] == [last + 1 for _, last in looked[:-1]]


async def test_a_folder_stays_locked_while_a_state_is_written_into_it(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the host ends a node that its user has made and not closed."""
    host = hosts.hosts["n0"]
    config = host.config_of("a", ["n0"])
    ReplicatedLog.format(config)
    node: ReplicatedNode[str, int] = ReplicatedNode(
        config, Lines(), settings=QUICK, clock=LoopClock(), extend=host.share
    )
    await node.start()
    held = Held(monkeypatch, SnapshotFolder, "save")
    while not held.begun.is_set():
        await write(node, 20)
    driver = node.log.driver
    ended = asyncio.ensure_future(hosts.stop("n0"))
    await eventually(lambda: driver._stopped, "an end that has begun", 60)
    await asyncio.wait({ended}, timeout=limit(0.5))
    assert not ended.done()
    with pytest.raises(StoreLocked):
        await ReplicatedLog(replace(config), clock=LoopClock()).start()
    held.go_on.set()
    await within(ended, "the end of the host")
    assert states(node).position > 0
    async with ReplicatedLog(replace(config), clock=LoopClock()) as again:
        assert again.store.first_index == 0


async def test_a_close_that_is_cancelled_goes_on_and_the_next_one_waits_for_it(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of `asyncio.wait_for(node.close(), 5)`: the folder is not locked till the process ends."""
    host = hosts.hosts["n0"]
    node: ReplicatedNode[str, int] = await host.open("a", Lines(), create=True, members=["n0"])
    held = Held(monkeypatch, SnapshotFolder, "save")
    while not held.begun.is_set():
        await write(node, 20)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(node.close(), limit(0.1))
    closed = asyncio.ensure_future(node.close())
    await asyncio.wait({closed}, timeout=limit(0.05))
    assert not closed.done()
    held.go_on.set()
    await within(closed, "the end")
    again = await host.open("a", Lines(), members=["n0"])
    await write(again, 1)
