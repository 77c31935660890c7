"""What comes back after a power cut, and what of it: page by page, without a real disk."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from chaos.drivers import loop_disk
from chaos.drivers.loop_disk import PAGE, LoopDisk, LoopDisks, _compare
from tests.waiting import limit

LOG = "dledger-n0/data/00000000000000000000"
INDEX = "dledger-n0/index/00000000000000000000"


@pytest.fixture
def disk(tmp_path: Path) -> LoopDisk:
    """After the cut: two pages of the log and one of its index are zeros again."""
    for name, pages in ((LOG, 3), (INDEX, 1)):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"k" * PAGE * (pages - 1) + bytes(PAGE))
    (tmp_path / LOG).write_bytes(b"k" * PAGE + bytes(2 * PAGE))
    return LoopDisk("n0", tmp_path / "n0.img", tmp_path)


PICTURE = {LOG: b"k" * PAGE + b"r" * 2 * PAGE, INDEX: b"s" * PAGE}


@pytest.mark.parametrize("seed", range(20))
def test_a_page_at_least_comes_back_whatever_the_chance(disk: LoopDisk, seed: int) -> None:
    found = _compare(disk, PICTURE, 0.01, False, Random(seed))
    assert found.lost_pages == 3
    assert found.lost_records
    assert found.written_back >= 1
    after = {name: (disk.mount_point / name).read_bytes() for name in PICTURE}
    assert sum(after[name] != PICTURE[name] for name in PICTURE) >= 1
    assert b"r" * PAGE in after[LOG] or after[INDEX] == PICTURE[INDEX]


@pytest.mark.parametrize("seed", range(20))
def test_a_torn_page_is_neither_the_old_one_nor_the_new(disk: LoopDisk, seed: int) -> None:
    found = _compare(disk, PICTURE, 0.3, True, Random(seed))
    assert found.torn
    last = (disk.mount_point / LOG).read_bytes()[2 * PAGE :]
    assert last.startswith(b"r")
    assert last.endswith(b"\0")


def test_without_chance_nothing_comes_back(disk: LoopDisk) -> None:
    found = _compare(disk, PICTURE, 0.0, False, Random(1))
    assert (found.lost_pages, found.written_back, found.torn) == (3, 0, False)


def test_where_nothing_was_pending_nothing_tears(disk: LoopDisk) -> None:
    same = {name: (disk.mount_point / name).read_bytes() for name in PICTURE}
    found = _compare(disk, same, 0.7, True, Random(1))
    assert (found.lost_pages, found.written_back, found.torn) == (0, 0, False)
    assert "nothing was pending" in str(found)


def test_of_the_index_nothing_is_torn(disk: LoopDisk) -> None:
    same = {LOG: (disk.mount_point / LOG).read_bytes(), INDEX: PICTURE[INDEX]}
    found = _compare(disk, same, 0.7, True, Random(1))
    assert not found.torn
    assert not found.lost_records


class Mounted(LoopDisk):
    """Says so; `busy`: how often somebody still has files open there."""

    def __init__(self, folder: Path, busy: int) -> None:
        folder.mkdir()
        super().__init__(folder.name, folder / "disk.img", folder)
        self.mounted, self.busy, self.mounts = True, busy, 0

    def lose_power(self) -> None:
        """Nothing was pending."""

    def mount(self) -> None:
        self.mounts, self.mounted = self.mounts + 1, True


def cut(
    disks: list[Mounted], monkeypatch: pytest.MonkeyPatch, seconds_max: float
) -> list[loop_disk.Cut]:
    busy = {str(disk.mount_point): disk.busy for disk in disks}

    def run_tool(tool: str, place: str) -> str:
        busy[place] -= 1
        if busy[place] >= 0:
            raise OSError(f"{tool}: {place}: target is busy")
        return ""

    monkeypatch.setattr(loop_disk, "run_tool", run_tool)
    monkeypatch.setattr(loop_disk, "UNMOUNT_SECONDS_MAX", seconds_max)
    monkeypatch.setattr(loop_disk.processes, "kill", lambda _: None)
    every = object.__new__(LoopDisks)
    every.disks = {disk.node: disk for disk in disks}  # type: ignore[assignment]
    return every._cut([disk.node for disk in disks], [], 0.0, False, Random(1))


def test_a_disk_that_is_busy_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = [Mounted(tmp_path / "n0", busy=2), Mounted(tmp_path / "n1", busy=0)]
    assert len(cut(disks, monkeypatch, limit(30))) == 2
    assert [disk.mounts for disk in disks] == [1, 1]


def test_one_that_stays_busy_keeps_no_other_disk_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = [Mounted(tmp_path / "n0", busy=1000), Mounted(tmp_path / "n1", busy=0)]
    with pytest.raises(OSError, match="n0: target is busy"):
        cut(disks, monkeypatch, 0.2)
    assert [disk.mounts for disk in disks] == [0, 1]
