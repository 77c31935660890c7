"""States on disk: the log is cut behind them, a restart begins with one, a node is sent one."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dledger import (
    Entry,
    MachineSettings,
    ReplicatedNode,
    ReplicatedStateMachine,
    SnapshotFailed,
    StateMachineFailed,
)
from dledger.machine.state_machine import bytes_of, captured
from dledger.snapshots.snapshot_files import SnapshotFolder
from dledger.snapshots.state_file import PIECE
from tests.waiting import eventually, limit, within

from .group import MachineGroup, states

FILE = 1 << 16
PAYLOAD = "x" * 2000


class Lines(ReplicatedStateMachine[str, int]):
    """Counts and sums commands; `applied`: those of this process."""

    def __init__(self) -> None:
        self.count, self.size, self.applied, self.restored = 0, 0, 0, 0

    def apply(self, entry: Entry[str]) -> int:
        self.count += 1
        self.size += len(entry.command)
        self.applied += 1
        return self.count

    def snapshot(self) -> bytes | Callable[[], bytes]:
        return json.dumps([self.count, self.size]).encode()

    def restore(self, state: bytes) -> None:
        self.count, self.size = json.loads(state)
        self.restored += 1


class Wide(Lines):
    """The same with a state of two pieces."""

    def snapshot(self) -> bytes:
        return json.dumps([self.count, self.size]).encode().ljust(PIECE + 1)


Group = MachineGroup[str, int]


@pytest_asyncio.fixture
async def group(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Group]:
    made: Group = MachineGroup(tmp_path, new_address, Lines)
    small = {"data_file_size": FILE, "entry_size_max": FILE // 4}
    made.configs = {name: replace(c, **small) for name, c in made.configs.items()}  # type: ignore[arg-type]
    yield made
    await made.close()


def lines(node: ReplicatedNode[str, int]) -> Lines:
    assert isinstance(node.machine, Lines)
    return node.machine


async def write(node: ReplicatedNode[str, int], count: int) -> int:
    """`count` commands of 2 KB, a few at a time; the last result."""
    last = 0
    for _ in range(0, count, 20):
        last = max(
            await within(asyncio.gather(*[node.propose(PAYLOAD) for _ in range(20)]), "results")
        )
    return last


async def fill(node: ReplicatedNode[str, int], files: int) -> int:
    """As many log files."""
    return await write(node, files * FILE // len(PAYLOAD))


def anchor(node: ReplicatedNode[str, int]) -> int:
    """The last index that is gone from its log, -1 for none."""
    return node.log.driver.replica.log.anchor.index


async def fill_until(
    node: ReplicatedNode[str, int], condition: Callable[[], object], what: str
) -> int:
    """Write until it is so: a file that begins while a state is written has no state."""
    written = [0]

    async def holds() -> bool:
        written[0] = await write(node, 20)
        return bool(condition())

    await eventually(holds, what, 60)
    return written[0]


async def test_the_log_is_cut_behind_a_state_but_for_a_margin(group: Group) -> None:
    await group.start()
    node = await group.follower()
    await fill(node, 4)
    for one in group.nodes.values():
        await fill_until(node, lambda one=one: anchor(one) >= 0, "a shorter log")  # type: ignore[misc]
        assert one.snapshot_error is None
        kept = sorted((Path(one.config.data_dir) / "data").iterdir())
        assert len(kept) >= 2, "the file that is written and the margin"


async def test_a_restart_begins_with_the_newest_state(group: Group) -> None:
    await group.start()
    node = await group.follower()
    name = node.config.node_id
    total = await fill_until(node, lambda: states(node).position > 2 * FILE, "a later state")
    await group.stop(name)
    await group.start(name)
    again = group.nodes[name]
    assert await within(again.propose("last"), "a result") == total + 1
    assert lines(again).restored == 1
    assert lines(again).applied < total // 2
    assert lines(again).size == total * len(PAYLOAD) + 4


async def test_a_node_that_needs_what_is_gone_is_sent_the_state(group: Group) -> None:
    group.settings = MachineSettings(propose_seconds=60, resend_seconds=0.5, margin_files=0)
    await group.start()
    node = await group.follower()
    name = node.config.node_id
    await node.propose("first")
    await group.stop(name)
    leader = await group.leader()
    total = await fill_until(leader, lambda: anchor(leader) > 60, "a shorter log")
    await group.start(name)
    again = group.nodes[name]
    assert await within(again.propose("last"), "a result") == total + 1
    assert lines(again).restored >= 1
    assert lines(again).size == total * len(PAYLOAD) - len(PAYLOAD) + 5 + 4


async def test_commands_go_on_while_a_state_is_written(group: Group) -> None:
    """The thread that encodes is held up until the commands have their results."""
    held, begun = threading.Event(), threading.Event()

    class Slow(Lines):
        def snapshot(self) -> Callable[[], bytes]:
            state = json.dumps([self.count, self.size]).encode()

            def encode() -> bytes:
                begun.set()
                held.wait()
                return state

            return encode

    group.make = Slow
    try:
        await group.start()
        node = await group.leader()
        total = await fill(node, 3)
        assert begun.is_set()
        assert total == await node.read(lambda: lines(node).count)
    finally:
        held.set()
    await eventually(lambda: states(node).position > 0, "a state")


async def test_a_state_that_cannot_be_written_costs_nothing(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Lines):
        def snapshot(self) -> bytes:
            raise RuntimeError("no state today")

    group.make = Broken
    await group.start()
    node = await group.leader()
    total = await fill(node, 3)
    assert total > 0
    assert isinstance(node.snapshot_error, SnapshotFailed)
    assert "no state today" in str(node.snapshot_error)
    assert (node.failure, anchor(node)) == (None, -1)


async def test_a_full_disk_is_told_and_the_next_file_tries_again(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, refused = SnapshotFolder.save, []

    def refuse(folder: SnapshotFolder, start: object, *args: Any) -> None:
        if len(refused) < 3:
            refused.append(start)
            raise OSError(28, "no space")
        save(folder, start, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(SnapshotFolder, "save", refuse)
    await group.start()
    node = await group.leader()
    await fill_until(node, lambda: len(refused) == 3, "refusals")
    await fill_until(node, lambda: anchor(node) >= 0, "a shorter log")
    assert any(one.snapshot_error for one in group.nodes.values())


async def test_a_damaged_state_is_passed_over(group: Group) -> None:
    await group.start()
    node = await group.follower()
    name = node.config.node_id
    total = await fill_until(node, lambda: states(node).position > 2 * FILE, "a state")
    await group.stop(name)
    for path in (Path(node.config.data_dir) / "snapshots").iterdir():
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    await group.start(name)
    assert await within(group.nodes[name].propose("last"), "a result") == total + 1


async def test_a_state_that_the_machine_refuses_stops_the_start(group: Group) -> None:
    class Refuses(Lines):
        def restore(self, state: bytes) -> None:
            raise KeyError("version")

    await group.start()
    node = await group.follower()
    name = node.config.node_id
    await fill_until(node, lambda: states(node).position > 0, "a state")
    await group.stop(name)
    group.make = Refuses
    with pytest.raises(StateMachineFailed, match="KeyError: 'version'"):
        await group.start(name)
    del group.nodes[name]
    group.make = Lines
    await group.start(name)
    assert await within(group.nodes[name].propose("last"), "a result") > 0


def test_a_captured_state_does_not_see_later_changes() -> None:
    """A generator's body would run in the writing thread, behind commands that came later."""
    lines = [b"a", b"b"]

    def state() -> Iterator[bytes]:
        yield from lines

    found = [captured(state()), captured(lines), captured(lambda: b"ab")]
    lines.append(b"c")
    assert [bytes_of(one) for one in found] == [b"ab"] * 3


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_state_may_be_any_bytes(kind: Callable[[bytes], Any]) -> None:
    whole = kind(b"state")
    assert bytes_of(captured(whole)) == bytes_of(lambda: whole) == b"state"
    assert bytes_of(captured([kind(b"sta"), kind(b"te")])) == b"state"


async def test_a_state_that_is_written_after_its_node_failed_is_no_mistake(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log that would be cut behind it takes no more; its failure is told once."""
    group.settings = MachineSettings(propose_seconds=60, resend_seconds=0.5, margin_files=0)
    begun, go_on = threading.Event(), threading.Event()
    save = SnapshotFolder.save

    def slowly(self: SnapshotFolder, *args: Any) -> None:
        begun.set()
        assert go_on.wait(limit(60))
        save(self, *args)

    monkeypatch.setattr(SnapshotFolder, "save", slowly)
    await group.start()
    await fill_until(await group.follower(), begun.is_set, "a state that is being written")
    nodes = list(group.nodes.values())
    for node in nodes:
        node.log.driver._older("a disk that ended")
    go_on.set()
    await eventually(
        lambda: not any(states(node).is_written for node in nodes), "states that are written"
    )
    assert any(states(node).position > 0 for node in nodes)


async def test_a_slow_pace_passes_files_over_and_a_close_waits_for_none(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """At the setting's pace the state would take hours."""
    slow = {"state_bytes_per_second": 1, "margin_files": 0}
    group.settings = MachineSettings(propose_seconds=60, resend_seconds=0.5, **slow)
    group.make = Wide
    caplog.set_level("INFO", "dledger.machine.saving")
    await group.start()
    node = await group.follower()
    await fill_until(node, lambda: "the one before is still written" in caplog.text, "a note")
    assert (states(node).position, node.log.store.first_position) == (-1, 0), "nothing is deleted"
    assert states(node).is_written
    await within(group.close(), "the end of the nodes")
    assert not states(node).is_written
    assert states(node).position > 0, "the state is whole"
