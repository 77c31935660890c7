"""L5 on sockets and threads: a leader's sync hangs; another leads; it is not trusted at once."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from commitlog.files.system import File
from commitlog.segments.next_file import NextFile
from dledger import DiskFull, DledgerError, ReplicatedLog
from dledger.core.types import DiskHealth
from dledger.log.log_tasks import LogSync
from dledger.replica import disk_watch
from dledger.runtime import disk_check
from tests.waiting import eventually, limit, within

from .group import Group, until

STALL_MS = 500


def health(log: ReplicatedLog) -> DiskHealth:
    return log.status().disk.health


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_watch, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(disk_check, "REPORT_SECONDS", 0.1)
    monkeypatch.setattr(disk_check, "ROOM_SECONDS", 0.05)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Syncs of logs whose files are in `hung` wait until it is set."""
    opened = threading.Event()
    run = LogSync.run

    def gated(self: LogSync) -> None:
        if any(str(file.path).startswith(folder) for file in self.files for folder in hung):
            opened.wait(limit(60))
        run(self)

    monkeypatch.setattr(LogSync, "run", gated)
    return opened


hung: set[str] = set()


async def test_l5_a_leader_whose_sync_hangs_hands_over(
    group: Group, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    for name in group.configs:
        group.change(name, disk_stall_ms=STALL_MS, disk_trust_ms=300)
    await group.start()
    sick = await group.leader()
    name = sick.config.node_id
    hung.add(str(sick.config.data_dir))
    try:
        await sick.append(b"on the disks of the others")
        await until(lambda: health(sick) is DiskHealth.STALLED)
        await until(lambda: not sick.is_leader)
        leader = await group.leader()  # which has acknowledged without the sick one
        assert f"{name}: its disk is stalled: a log sync has not come back" in caplog.text
        view = leader.driver.replica.node.progress
        await until(lambda: view[sick.driver.replica.node.node_id].disk_health.value > 0)
    finally:
        hung.clear()
        gate.set()
    await until(lambda: health(sick) is DiskHealth.RECOVERING)
    await until(lambda: health(sick) is DiskHealth.GOOD)
    assert not sick.is_leader
    await within(sick.wait(leader.applied), "what the others have")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Folders in which no new file of a log has room."""
    folders: set[str] = set()
    make = NextFile.make

    def refused(self: NextFile, position: int) -> File:
        path = str(self.path(position))
        if any(path.startswith(folder) for folder in folders):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return make(self, position)

    monkeypatch.setattr(NextFile, "make", refused)
    return folders


BODY = bytes(range(256)) * 1024
HALF_A_FILE = 9  # bodies; a file holds 16


async def test_l5_a_leader_without_room_for_the_next_file_hands_over(
    group: Group, full: set[str]
) -> None:
    for name in group.configs:
        group.change(name, disk_trust_ms=300)
    await group.start()
    first = await group.leader()
    full.add(str(first.config.data_dir))
    await first.append_many([BODY] * HALF_A_FILE)
    await until(lambda: health(first) is DiskHealth.FULL)
    await until(lambda: not first.is_leader)
    leader = await group.leader()
    assert leader is not first
    last = await leader.append(BODY)
    await first.wait(last)  # replication still has room
    assert "No space left on device" in first.status().disk.detail
    full.clear()
    await until(lambda: health(first) is DiskHealth.GOOD)
    written = await leader.append_many([BODY] * HALF_A_FILE)
    await first.wait(written[-1])


async def test_l5_where_no_node_has_room_the_leader_stays_and_refuses_for_certain(
    group: Group, full: set[str]
) -> None:
    await group.start()
    leader = await group.leader()
    full.update(str(Path(log.config.data_dir)) for log in group.logs.values())
    await leader.append_many([BODY] * HALF_A_FILE)
    await until(lambda: all(health(log) is DiskHealth.FULL for log in group.logs.values()))

    async def refused() -> DiskFull | None:
        nonlocal leader
        leader = next((log for log in group.logs.values() if log.is_leader), leader)
        with pytest.raises(DledgerError) as caught:
            await leader.append(BODY[:100])
        return caught.value if isinstance(caught.value, DiskFull) else None

    refusal = await eventually(refused, "a leader that has heard that nobody else has room")
    assert "No space left on device" in str(refusal)
    before = leader.applied
    assert await leader.read_barrier() == before, "reads are still served"
    full.clear()
    await until(lambda: all(health(log) is not DiskHealth.FULL for log in group.logs.values()))
    await (await group.leader()).append(BODY)
