"""The shell's look at the disk: what makes it full, when it tries again, whom it tells."""

from __future__ import annotations

import asyncio
import errno

import pytest

from dledger.core.events import DiskChecked
from dledger.core.types import DiskHealth
from dledger.replica.disk_watch import DiskWatch, SyncTimes
from dledger.replica.ports import SyncWork
from dledger.runtime import disk_check
from dledger.runtime.clock import SystemClock
from dledger.runtime.disk_check import DiskCheck
from dledger.runtime.owned import Owned
from tests.waiting import eventually

FULL = OSError(errno.ENOSPC, "No space left on device")


def raise_it(error: BaseException) -> None:
    raise error


class Task:
    """Work that nobody runs here."""

    def run(self) -> None:
        raise AssertionError("not in this test")


class Shell:
    """What it tells, and what it wants to be made again."""

    def __init__(self) -> None:
        self.told: list[DiskChecked] = []
        self.made: asyncio.Queue[SyncWork] = asyncio.Queue(maxsize=10)
        watch = DiskWatch(SyncTimes(), (), stall_seconds=2.0, trust_seconds=30.0)
        self.check = DiskCheck(
            "n0", watch, SystemClock(), self.told.append, self.made.put_nowait, Owned(raise_it)
        )


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_check, "ROOM_SECONDS", 0.001)


async def test_no_room_for_the_next_file_is_told_at_once_and_tried_again() -> None:
    shell = Shell()
    data, index = SyncWork("prepare", Task()), SyncWork("prepare", Task())
    shell.check.made(data, FULL)
    shell.check.made(index, FULL)
    assert [found.health for found in shell.told] == [DiskHealth.FULL]
    assert "No space left on device" in shell.told[0].detail
    shell.check.stop()


async def test_room_is_there_again_when_every_file_was_made() -> None:
    shell = Shell()
    data, index = SyncWork("prepare", Task()), SyncWork("prepare", Task())
    for work in (data, index):
        shell.check.made(work, FULL)
    assert [await shell.made.get(), await shell.made.get()] == [data, index]
    shell.check.made(data, FULL)
    shell.check.made(index, None)
    assert shell.check.last.health is DiskHealth.FULL
    assert await shell.made.get() is data
    shell.check.made(data, None)
    assert shell.check.last.health is DiskHealth.RECOVERING
    shell.check.stop()


async def test_a_file_that_another_error_kept_from_being_made_is_no_full_disk() -> None:
    """The append that needs it tries again, and says why it failed."""
    shell = Shell()
    shell.check.made(SyncWork("prepare", Task()), OSError(errno.EIO, "Input/output error"))
    assert shell.told == []
    shell.check.stop()


async def test_what_the_service_says_of_room_is_told_at_once() -> None:
    shell = Shell()
    shell.check.report_disk_space("the disk is 95% full", "")
    shell.check.report_disk_space("the disk is 95% full", "")
    shell.check.report_disk_space("", "")
    healths = [found.health for found in shell.told]
    assert healths == [DiskHealth.LOW, DiskHealth.RECOVERING]
    shell.check.stop()


async def test_no_room_for_a_state_is_told_until_none_is_refused_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = Shell()
    chunk = SyncWork("snapshot", Task())
    shell.check.ended(chunk, None)
    shell.check.ended(chunk, OSError(errno.EIO, "Input/output error"))
    assert shell.told == []
    shell.check.ended(chunk, FULL)
    shell.check.ended(chunk, None)  # an offer, of which nothing is kept
    assert [found.health for found in shell.told] == [DiskHealth.FULL]
    assert "the state that the leader sends" in shell.told[0].detail
    assert "free some space" in shell.told[0].detail
    monkeypatch.setattr(disk_check, "STATE_SECONDS", 0.0)
    shell.check.look()
    assert shell.check.last.health is DiskHealth.RECOVERING
    shell.check.stop()


class Resting(Shell):
    """A quiet group's: its check may rest."""

    def __init__(self) -> None:
        super().__init__()
        self.times = SyncTimes()
        watch = DiskWatch(self.times, (), stall_seconds=0.01, trust_seconds=30.0)
        self.quiet = True
        self.check = DiskCheck(
            "n0",
            watch,
            SystemClock(),
            self.told.append,
            self.made.put_nowait,
            Owned(raise_it),
            lambda: self.quiet,
        )


async def test_the_disk_of_a_quiet_group_is_not_looked_at_while_it_has_nothing_to_do() -> None:
    shell = Resting()
    shell.check.look()
    assert shell.check._timer is None
    assert shell.told == [DiskChecked(DiskHealth.GOOD)]


async def test_a_stall_of_work_that_a_quiet_group_begins_is_noticed() -> None:
    shell = Resting()
    shell.check.look()
    shell.times.begin("hard", SystemClock().now())
    shell.check.wake()
    await eventually(lambda: shell.check.last.health is DiskHealth.STALLED, "a stalled disk")
    assert shell.check._timer is not None
    shell.check.stop()


@pytest.mark.parametrize("why", ["awake", "busy", "slow a moment ago", "full"])
async def test_a_disk_that_has_something_to_tell_is_looked_at_again(why: str) -> None:
    shell = Resting()
    if why == "awake":
        shell.quiet = False
    elif why == "busy":
        shell.times.begin("log", SystemClock().now())
    elif why == "slow a moment ago":
        now = SystemClock().now()
        shell.times.begin("log", now)
        shell.times.end(now + 0.001)
    else:
        shell.check.made(SyncWork("prepare", Task()), FULL)
    shell.check.look()
    assert shell.check._timer is not None
    shell.check.stop()
