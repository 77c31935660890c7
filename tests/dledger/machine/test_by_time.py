"""States by time: a quiet group has one, a restart begins with it, a wrong one is passed over."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from commitlog.files.system import OS_FILES
from dledger import Entry, MachineSettings, OutcomeUnknown, ReplicatedNode, StateMachineFailed
from dledger.core.types import Index, Term
from dledger.log.log_start import LogStart
from dledger.snapshots.snapshot import snapshot_of
from dledger.snapshots.snapshot_files import SnapshotFolder
from tests.dledger.log.crash_files import CrashDisk, PowerCut
from tests.waiting import eventually, within

from .group import MachineGroup, states
from .test_saving import Lines, lines

SECONDS = 0.2
FOLDER = Path("/node")
Group = MachineGroup[str, int]


@pytest_asyncio.fixture
async def group(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Group]:
    """One node, whose log stays in its first file."""
    made: Group = MachineGroup(tmp_path, new_address, Lines, size=1)
    made.settings = MachineSettings(propose_seconds=60, resend_seconds=0.5, state_seconds=SECONDS)
    yield made
    await made.close()


def recent(group: Group) -> Path:
    return Path(group.configs["n0"].data_dir) / "snapshots" / "recent"


async def saved(group: Group, count: int) -> ReplicatedNode[str, int]:
    """A node that has applied so many commands, all of which its state holds."""
    await group.start()
    node = group.nodes["n0"]
    for _ in range(count):
        await within(node.propose("line"), "a result")
    await eventually(lambda: states(node).last == node.applied, "a state")
    return node


async def test_a_restart_applies_what_is_behind_the_state_only(group: Group) -> None:
    await saved(group, 10)
    await group.stop("n0")
    group.settings = MachineSettings(propose_seconds=60)
    await group.start()
    again = group.nodes["n0"]
    assert await within(again.propose("last"), "a result") == 11
    assert (lines(again).restored, lines(again).applied) == (1, 1)
    assert lines(again).size == 10 * 4 + 4


async def test_each_state_takes_the_place_of_the_one_before_and_rests_with_the_log(
    group: Group,
) -> None:
    node = await saved(group, 1)
    assert not states(node).is_due, "a quiet group has no timer"
    assert await within(node.propose("more"), "a result") == 2
    await eventually(lambda: states(node).last == node.applied, "a later state")
    assert [path.name for path in recent(group).parent.iterdir()] == ["recent"]
    assert node.snapshot_error is None


async def test_without_the_setting_there_is_no_state_in_the_first_file(group: Group) -> None:
    group.settings = MachineSettings(propose_seconds=60)
    await group.start()
    await within(group.nodes["n0"].propose("line"), "a result")
    is_due = states(group.nodes["n0"]).is_due
    assert (is_due, recent(group).exists()) == (False, False)


@pytest.mark.parametrize("harm", ["a bit", "half of it", "another entry", "a later entry", "gone"])
async def test_a_state_that_is_not_of_this_log_is_passed_over(group: Group, harm: str) -> None:
    """A later entry: the disk lost the last ones, which a majority has; this node is sent them."""
    node = await saved(group, 10)
    start = node.log.driver.replica.log.reader.tail_at(node.applied)
    await group.stop("n0")
    data = bytearray(recent(group).read_bytes())
    folder = SnapshotFolder(OS_FILES, Path(group.configs["n0"].data_dir))
    match harm:
        case "a bit":
            data[-1] ^= 1
            recent(group).write_bytes(data)
        case "half of it":
            recent(group).write_bytes(data[: len(data) // 2])
        case "gone":
            recent(group).unlink()
        case _:
            (term, index), chain_crc, end = start
            later = harm == "a later entry"
            wrong = LogStart(term, Index(index + later), (chain_crc or 0) ^ (not later), end, end)
            folder.save_recent(wrong, bytes(data[52:]))
            assert folder.recent() == snapshot_of(wrong, [bytes(data[52:])])
    await group.start()
    again = group.nodes["n0"]
    assert await within(again.propose("last"), "a result") == 11
    assert (lines(again).restored, lines(again).applied) == (0, 11)


async def test_a_machine_that_failed_half_way_has_its_state_not_saved(group: Group) -> None:
    class Breaks(Lines):
        def apply(self, entry: Entry[str]) -> int:
            result = super().apply(entry)
            if entry.command == "break":
                raise RuntimeError("half done")
            return result

    group.make = Breaks
    group.settings = MachineSettings(propose_seconds=60, state_seconds=3600)
    await group.start()
    node = group.nodes["n0"]
    await within(node.propose("line"), "a result")
    with pytest.raises(OutcomeUnknown):
        await within(node.propose("break"), "a result")
    assert isinstance(node.failure, StateMachineFailed)
    saving = node._saving
    assert saving is not None
    assert states(node).is_due, "the first command wants a state"
    saving._capture_recent()
    assert not states(node).is_written
    assert (states(node).last, recent(group).exists()) == (-1, False)


async def test_a_snapshot_that_raises_is_tried_again(group: Group) -> None:
    class Once(Lines):
        tries = 0

        def snapshot(self) -> bytes | Callable[[], bytes]:
            self.tries += 1
            if self.tries == 1:
                raise RuntimeError("not today")
            return super().snapshot()

    group.make = Once
    node = await saved(group, 1)
    assert "not today" in str(node.snapshot_error)


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_a_crash_leaves_the_state_before_or_the_new_one(keep: float) -> None:
    """Power goes at every operation of the second save."""
    found = set()
    for fuse in range(12):
        disk = CrashDisk()
        disk.make_dirs(FOLDER / "staging")
        folder = SnapshotFolder(disk, FOLDER)
        starts = [LogStart(Term(1), Index(at), at, at, at) for at in (1, 2)]
        folder.save_recent(starts[0], b"one")
        disk.fuse = fuse
        with contextlib.suppress(PowerCut):
            folder.save_recent(starts[1], b"two")
        disk.crash(keep=keep)
        kept = SnapshotFolder(disk, FOLDER)
        snapshot = kept.recent()
        assert snapshot is not None
        with kept.find_recent(starts[snapshot.index - 1]).open() as state:
            found.add(state.read())
    assert found == {b"one", b"two"}


@pytest.mark.parametrize("name", ["margin_files", "state_seconds"])
def test_no_number_is_below_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} -1"):
        MachineSettings(**{name: -1}).validate()  # type: ignore[arg-type]
