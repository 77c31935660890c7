"""What a node does with its folder while others of its process go on: opening, replay, its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from commitlog.errors import StoreLocked
from dledger import ReplicatedLog, ReplicatedNode
from dledger.replica import apply_pace
from dledger.runtime import opening
from dledger.snapshots.snapshot_files import SnapshotFolder
from tests.virtual_loop import LoopClock
from tests.waiting import eventually, limit, within

from .group import QUICK
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
    await made.close()


class Held:
    """Holds a function's calls back in their thread, until `go_on` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
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
    assert node._saving is not None
    assert node._saving.saved_position > 0
    async with ReplicatedLog(replace(config), clock=LoopClock()) as again:
        assert again.store.first_index == 0
