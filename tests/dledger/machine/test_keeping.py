"""A machine in SQLite: a restart goes on behind what its files hold, whatever was lost of them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from dledger import (
    Entry,
    LogUsageError,
    MachineSettings,
    ReplicatedNode,
    ReplicatedStateMachine,
    SnapshotFailed,
    StateMachineFailed,
)
from dledger.log.log_start import LogStart
from dledger.machine.restoring import Restored, Restoring
from dledger.machine.saving import Saving
from dledger.snapshots.state_file import StateFile
from tests.waiting import eventually, within

from .group import MachineGroup
from .test_saving import FILE, Lines, fill_until

LATER = MachineSettings(propose_seconds=60, resend_seconds=0.5, state_seconds=3600)
Group = MachineGroup[str, int]


class Table(Lines):
    """The lines in a table; counts what this process applied and restored."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("create table if not exists lines (line text)")
        self.db.execute("create table if not exists kept (progress blob)")
        self.db.execute("begin")

    def apply(self, entry: Entry[str]) -> int:
        self.applied += 1
        self.db.execute("insert into lines values (?)", (entry.command[:20],))
        if entry.command == "break":
            raise RuntimeError("half done")
        return self.lines

    @property
    def lines(self) -> int:
        return int(self.db.execute("select count(*) from lines").fetchone()[0])

    def keep(self, progress: bytes) -> None:
        self.db.execute("delete from kept")
        self.db.execute("insert into kept values (?)", (progress,))
        self.db.execute("commit")
        self.db.execute("begin")

    def kept(self) -> bytes | None:
        row = self.db.execute("select progress from kept").fetchone()
        return None if row is None else bytes(row[0])

    def snapshot(self) -> bytes:
        return json.dumps(self.db.execute("select line from lines").fetchall()).encode()

    def restore(self, state: bytes) -> None:
        self.restored += 1
        self.db.execute("delete from lines")
        self.db.executemany("insert into lines values (?)", json.loads(state))


class Aside(Table):
    """Puts a state in place on the event loop."""

    def restore(self, state: bytes) -> Callable[[], None]:  # type: ignore[override]  # of Table
        rows = json.loads(state)

        def take() -> None:
            self.db.execute("delete from lines")
            self.db.executemany("insert into lines values (?)", rows)

        return take


class World:
    """A group whose machines have their files beside the folders of its nodes."""

    def __init__(self, group: Group, folder: Path) -> None:
        self.group, self.folder = group, folder
        self.kind: type[Table] = Table

    async def start(self, name: str = "n0") -> ReplicatedNode[str, int]:
        self.group.make = lambda: self.kind(self.folder / f"{name}.db")
        await self.group.start(name)
        return self.group.nodes[name]

    async def write(self, node: ReplicatedNode[str, int], count: int) -> int:
        result = 0
        for _ in range(count):
            result = await within(node.propose("line"), "a result")
        return result


def table(node: ReplicatedNode[str, int]) -> Table:
    assert isinstance(node.machine, Table)
    return node.machine


def keep_now(node: ReplicatedNode[str, int]) -> None:
    assert node._saving is not None
    node._saving._capture_recent()


@pytest_asyncio.fixture
async def world(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[World]:
    group: Group = MachineGroup(tmp_path, new_address, Lines, size=1)
    group.settings = LATER
    yield World(group, tmp_path)
    await group.close()


async def test_a_restart_restores_and_applies_nothing_again(world: World) -> None:
    node = await world.start()
    assert await world.write(node, 10) == 10
    await world.group.stop("n0")
    again = await world.start()
    assert await world.write(again, 1) == 11
    assert (table(again).restored, table(again).applied) == (0, 1)


@pytest.mark.parametrize("since", [0, 1, 7])
async def test_a_killed_process_applies_what_came_since(world: World, since: int) -> None:
    """Its files are copied as they are at that moment; what was not committed is not in them."""
    node = await world.start()
    await world.write(node, 10)
    await eventually(lambda: node.log.store.flushed >= node.applied, "a flushed log")
    keep_now(node)
    await world.write(node, since)
    killed = world.folder / "killed"
    shutil.copytree(node.config.data_dir, killed / "n0")
    for path in world.folder.glob("n0.db*"):
        shutil.copy(path, killed)
    await world.group.stop("n0")
    world.folder = killed
    world.group.configs["n0"] = replace(node.config, data_dir=killed / "n0")
    again = await world.start()
    assert await world.write(again, 1) == 10 + since + 1
    assert (table(again).restored, table(again).applied) == (0, since + 1)


async def test_new_files_are_filled_by_the_log(world: World) -> None:
    node = await world.start()
    await world.write(node, 10)
    await world.group.stop("n0")
    for path in world.folder.glob("n0.db*"):
        path.unlink()
    again = await world.start()
    assert await world.write(again, 1) == 11
    assert table(again).applied == 11


async def test_files_older_than_the_log_are_given_a_state(world: World) -> None:
    """A backup of the database alone was put back; a later restart has no need of the state."""
    world.group.settings = replace(LATER, margin_files=0)
    world.group.configs["n0"] = replace(
        world.group.configs["n0"], data_file_size=FILE, entry_size_max=FILE // 4
    )
    node = await world.start()
    await world.write(node, 3)
    keep_now(node)
    index = node.applied
    old = sqlite3.connect(world.folder / "old.db")
    table(node).db.execute("commit")
    table(node).db.backup(old)
    table(node).db.execute("begin")
    old.close()
    await fill_until(node, lambda: node.log.store.first_index > index + 1, "a shorter log")
    total = table(node).lines
    await world.group.stop("n0")
    for path in world.folder.glob("n0.db*"):
        path.unlink()
    shutil.copy(world.folder / "old.db", world.folder / "n0.db")
    again = await world.start()
    assert await world.write(again, 1) == total + 1
    assert table(again).restored == 1
    await world.group.stop("n0")
    assert await world.write(last := await world.start(), 1) == total + 2
    assert (table(last).restored, table(last).applied) == (0, 1)


@pytest.mark.parametrize("kind", [Table, Aside])
async def test_a_state_is_in_the_files_with_its_progress(world: World, kind: type[Table]) -> None:
    """Nothing comes behind the state, and the process is killed: it goes on with all of it."""
    world.kind = kind
    world.group.settings = replace(LATER, margin_files=0)
    world.group.configs["n0"] = replace(
        world.group.configs["n0"], data_file_size=FILE, entry_size_max=FILE // 4
    )
    node = await world.start()
    await fill_until(node, lambda: node.log.store.first_index > 1, "a shorter log")
    total = table(node).lines
    await world.group.stop("n0")
    table(node).db.close()
    for path in world.folder.glob("n0.db*"):
        path.unlink()
    await world.start()
    killed = world.folder / "killed"
    killed.mkdir()
    for path in world.folder.glob("n0.db*"):
        shutil.copy(path, killed)
    await world.group.stop("n0")
    world.folder = killed
    again = await world.start()
    assert await world.write(again, 1) == total + 1


@pytest.mark.parametrize("at", [0, 10, 30, -1])
async def test_a_flipped_bit_of_the_progress_stops_the_start(world: World, at: int) -> None:
    node = await world.start()
    await world.write(node, 2)
    await world.group.stop("n0")
    machine = Table(world.folder / "n0.db")
    progress = bytearray(machine.kept() or b"")
    progress[at] ^= 1
    machine.keep(bytes(progress))
    machine.db.close()
    with pytest.raises(StateMachineFailed, match="damaged or of another"):
        await world.start()
    del world.group.nodes["n0"]


async def test_files_that_are_ahead_of_the_log_stop_the_start(world: World) -> None:
    """A backup of the log's folder alone was put back."""
    node = await world.start()
    await world.write(node, 2)
    await world.group.stop("n0")
    shutil.copytree(node.config.data_dir, world.folder / "backup")
    await world.write(await world.start(), 2)
    await world.group.stop("n0")
    shutil.rmtree(node.config.data_dir)
    (world.folder / "backup").rename(node.config.data_dir)
    with pytest.raises(StateMachineFailed, match="move them away"):
        await world.start()
    del world.group.nodes["n0"]


async def test_files_of_another_log_stop_the_start(world: World) -> None:
    """It is as long, and its entries are of the same terms."""
    node = await world.start()
    await world.write(node, 2)
    await world.group.stop("n0")
    table(node).db.close()
    (world.folder / "n0.db").rename(world.folder / "first.db")
    shutil.rmtree(node.config.data_dir)
    other = await world.start()
    await world.write(other, 5)
    await world.group.stop("n0")
    table(other).db.close()
    (world.folder / "first.db").rename(world.folder / "n0.db")
    with pytest.raises(StateMachineFailed, match="of another node's log"):
        await world.start()
    del world.group.nodes["n0"]


async def test_what_failed_half_way_or_is_not_flushed_is_not_kept(world: World) -> None:
    node = await world.start()
    await world.write(node, 2)
    saving = node._saving
    assert saving is not None
    kept = table(node).kept()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(node.log.store), "flushed", 0)
        assert not saving._keep()
    assert table(node).kept() == kept
    broken = node.propose("break")
    await eventually(lambda: node.failure is not None, "a failure")
    assert isinstance(node.failure, StateMachineFailed)
    await world.group.stop("n0")
    assert broken.exception() is not None
    assert table(node).kept() == kept
    assert node.snapshot_error is None


async def test_a_keep_that_raises_is_told_and_costs_a_longer_restart(world: World) -> None:
    class Full(Table):
        def keep(self, progress: bytes) -> None:
            raise sqlite3.OperationalError("database or disk is full")

    world.kind = Full
    node = await world.start()
    await world.write(node, 3)
    keep_now(node)
    assert isinstance(node.snapshot_error, SnapshotFailed)
    assert "disk is full" in str(node.snapshot_error)
    await world.group.stop("n0")
    table(node).db.close()
    world.kind = Table
    again = await world.start()
    assert await world.write(again, 1) == 4
    assert table(again).applied == 4


def given_and_killed(give: Callable[..., Restored]) -> Callable[..., Restored]:
    """As `Restoring.give`, in a process that dies right behind it: what it keeps later is lost."""

    def given(self: Restoring, start: LogStart, state: StateFile) -> Restored:
        vars(self._applier.machine).pop("keep", None)  # it may be sent another one
        restored = give(self, start, state)
        self._applier.machine.keep = lambda progress: None  # type: ignore[method-assign]
        return restored

    return given


async def test_a_node_that_was_sent_a_state_keeps_it_at_once(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    group: Group = MachineGroup(tmp_path, new_address, Lines)
    group.settings = replace(LATER, margin_files=0)
    for name, config in group.configs.items():
        group.configs[name] = replace(config, data_file_size=FILE, entry_size_max=FILE // 4)
    world = World(group, tmp_path)
    try:
        for name in group.configs:
            await world.start(name)
        node = await group.follower()
        name = node.config.node_id
        await world.write(node, 1)
        await group.stop(name)
        table(node).db.close()  # its process would end: what it had not kept stays locked
        leader = await group.leader()
        await fill_until(leader, lambda: leader.log.store.first_index > 60, "a shorter log")
        total = table(leader).lines
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Restoring, "give", given_and_killed(Restoring.give))
            patched.setattr(Saving, "_begin", lambda *_: None)  # else the log is cut behind it
            again = await world.start(name)
            assert await world.write(again, 1) == total + 1
            assert table(again).restored >= 1
            await group.stop(name)
        table(again).db.close()
        last = await world.start(name)
        assert await world.write(last, 1) == total + 2
        assert table(last).restored == 0
    finally:
        await group.close()


async def test_a_machine_that_keeps_has_snapshots_too(world: World) -> None:
    class Bare(Table):
        snapshot = ReplicatedStateMachine.snapshot  # type: ignore[assignment]

    world.kind = Bare
    with pytest.raises(LogUsageError, match="override snapshot"):
        await world.start()
    del world.group.nodes["n0"]
