"""R6: a folder that was put back from a backup is refused, whichever node starts first.

Source: docs/spec/chaos.md 3.2, kind 17.
"""

from __future__ import annotations

import errno
import itertools
import shutil
from pathlib import Path

import pytest

from commitlog.files.system import OS_FILES
from dledger import NodeFailed
from dledger.core.types import NodeId
from dledger.membership import generations
from dledger.membership.generation import NO_GENERATION, Generation
from dledger.membership.generations import FILE_NAME, Generations
from dledger.runtime import renewal
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.runtime.group import Group, until
from tests.waiting import within

ME, N1 = NodeId("n0"), NodeId("n1")
FOLDER = Path("node")


def start(disk: CrashDisk, *tokens: int) -> Generations:
    drawn = itertools.chain(tokens, itertools.count(1000))
    return Generations(disk, FOLDER, ME, lambda: next(drawn))


def renew(found: Generations) -> None:
    number = found.current.number + 1
    found.write(found.capture(number))
    found.renewed(number)


def test_each_start_and_each_renewal_is_another_generation() -> None:
    disk = CrashDisk()
    first = start(disk, 7)
    assert first.current == Generation(1, 7)
    renew(first)
    assert first.current == Generation(2, 7)
    assert start(disk, 9).current == Generation(3, 9)


def test_what_peers_met_is_in_the_folder_that_they_met_it_of() -> None:
    disk = CrashDisk()
    renew(start(disk, 7))
    found = start(disk, 9)
    renew(found)
    for good in (NO_GENERATION, *(Generation(n, t) for n, t in ((1, 7), (2, 7), (3, 9), (4, 9)))):
        assert found.judge(N1, good) is None
    said: list[str] = []
    found.told_older = said.append
    for bad in (Generation(5, 9), Generation(3, 7), Generation(2, 9), Generation(1, 8)):
        sentence = found.judge(N1, bad)
        assert sentence is not None
        assert "of n0 is older than what n1 has met" in sentence
        assert said.pop() == sentence


def test_a_copy_is_older_whenever_it_was_made() -> None:
    """Made in an earlier start, or in the same one; started again more often than the other."""
    disk = CrashDisk()
    found = start(disk, 1)
    copy = disk.read(FOLDER / FILE_NAME)
    renew(found)
    met = found.current
    for restarts in range(1, 5):
        other = CrashDisk()
        other.write_atomic(FOLDER / FILE_NAME, copy)
        for _ in range(restarts):
            again = start(other)
        assert again.judge(N1, met) is not None


def test_what_was_met_is_remembered_across_starts_by_life() -> None:
    disk = CrashDisk()
    found = start(disk)
    told: list[bool] = []
    found.changed = lambda: told.append(True)
    found.remember(N1, 5, Generation(3, 33))
    found.remember(N1, 5, Generation(2, 22))  # it came late
    assert told == [True]
    found.write(found.capture(found.current.number))
    again = start(disk)
    assert again.met(N1, 5) == Generation(3, 33)
    assert again.met(N1, 6) == NO_GENERATION
    again.remember(N1, 6, Generation(1, 1))  # readmitted in another life
    assert again.met(N1, 6) == Generation(1, 1)


@pytest.mark.parametrize("line", [0, 1])
def test_either_line_may_rot(line: int) -> None:
    disk = CrashDisk()
    start(disk, 7)
    size = disk.file_size(FOLDER / FILE_NAME)
    whole = disk.read(FOLDER / FILE_NAME)
    for offset in range(size // 2):
        disk.write_atomic(FOLDER / FILE_NAME, whole)
        disk.flip(FOLDER / FILE_NAME, line * size // 2 + offset)
        assert start(disk).current.number == 2


def test_both_lines_gone_is_said() -> None:
    disk = CrashDisk()
    start(disk)
    disk.write_atomic(FOLDER / FILE_NAME, b"\0" * 200)
    with pytest.raises(NodeFailed, match="neither line of node/generations"):
        start(disk)


def test_a_full_disk_starts_in_the_last_generation() -> None:
    disk = CrashDisk()
    first = start(disk, 7)
    disk.changes.set(0, errno.ENOSPC, once=True)
    again = start(disk, 9)
    assert again.current == first.current
    assert again.judge(N1, first.current) is None
    renew(again)
    assert again.current == Generation(2, 7)


def test_the_newest_starts_are_kept_and_older_ones_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generations, "STARTS_MAX", 3)
    disk = CrashDisk()
    for token in (1, 2, 3, 4, 5):
        found = start(disk, token)
    assert found.judge(N1, Generation(1, 99)) is None
    assert found.judge(N1, Generation(3, 3)) is None
    assert found.judge(N1, Generation(3, 99)) is not None


async def _backup_of_a_follower(group: Group, tmp_path: Path) -> tuple[str, Path]:
    """Of one that goes on, acknowledges more, and stops."""
    log = await group.leader()
    name = group.followers()[0].config.node_id
    folder, backup = Path(group.configs[name].data_dir), tmp_path / "backup"
    found = group.logs[name].driver
    assert found is not None
    before = found.parts.generations.current
    # It runs: a file that is being written beside its final name is gone a moment later.
    shutil.copytree(folder, backup, ignore=shutil.ignore_patterns("*.tmp"))
    # The second one from here: the first may have been written while the folder was copied.
    while found.parts.generations.current.number <= before.number + 1:
        await log.append(b"promised after the backup")
    others = [log.driver for key, log in group.logs.items() if key != name]
    await until(
        lambda: all(
            one is not None
            and one.parts.generations.met(NodeId(name), found.parts.member.incarnation)
            == found.parts.generations.current
            for one in others
        ),
        f"the others know the newest generation of {name}",
    )
    await group.stop(name)
    return name, backup


async def test_a_folder_from_a_backup_stops_and_the_others_go_on(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "RENEW_SECONDS", 0.05)
    await group.start()
    name, backup = await _backup_of_a_follower(group, tmp_path)
    folder = Path(group.configs[name].data_dir)
    shutil.move(folder, tmp_path / "newest")
    shutil.copytree(backup, folder)
    for _ in range(2):  # it is not worn down by trying again
        await group.start(name)
        driver = group.logs[name].driver
        assert driver is not None
        assert "put back from a backup" in str(await within(driver.failed, "its failure"))
        assert driver.replica.node.leader is None
        await group.logs.pop(name).close()
    log = await group.leader()
    assert await log.append(b"the other two are enough") > 0
    shutil.rmtree(folder)
    shutil.move(tmp_path / "newest", folder)
    await group.start(name)  # the newest folder is welcome
    found = group.logs[name].driver
    assert found is not None
    await until(lambda: found.replica.node.leader is not None, "a leader for the newest folder")


async def test_nobody_is_older_after_any_order_of_restarts(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "RENEW_SECONDS", 0.02)
    await group.start()
    for name in ("n0", "n1", "n2", "n1", "n0", "n2"):
        log = await group.leader()
        await log.append(b"between two restarts")
        await group.stop(name)
        await group.start(name)
    await (await group.leader()).append(b"all are here")
    for log in group.logs.values():
        assert not log.driver.failed.done()


def test_the_files_of_the_machine(tmp_path: Path) -> None:
    first = Generations(OS_FILES, tmp_path, ME)
    second = Generations(OS_FILES, tmp_path, ME)
    assert second.current.number == 2
    assert second.judge(N1, first.current) is None
