"""Entries of the audit log about backups, by every way that a backup ends."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cluster.commands import backup_audit
from cluster.commands.backup_audit import audited
from cluster.commands.connecting import Reach


def _terminated() -> None:
    signal.raise_signal(signal.SIGTERM)


def _interrupted() -> None:
    raise KeyboardInterrupt


def _failed() -> None:
    raise OSError("the disk is full")


@pytest.mark.parametrize(
    ("end", "error", "said"),
    [
        (_terminated, SystemExit, {"ended_by": "interrupted"}),
        (_interrupted, KeyboardInterrupt, {"ended_by": "interrupted"}),
        (_failed, OSError, {"ended_by": "the disk is full"}),
    ],
)
def test_every_end_has_an_entry(
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[], None],
    error: type[BaseException],
    said: dict[str, Any],
) -> None:
    told: list[tuple[str, dict[str, Any]]] = []

    async def recorded(*of: Any) -> str:
        told.append((of[2], dict(of[5])))
        return ""

    monkeypatch.setattr(backup_audit, "_recorded", recorded)
    before = signal.getsignal(signal.SIGTERM)
    running = Reach("127.0.0.1:1"), ["broker-a"]

    def work() -> None:
        with audited(lambda: running, "place", 1.0, lambda: {"rounds": 3}) as look:
            look()
            end()

    with pytest.raises(error):
        work()
    assert told == [("backup begin", {}), ("backup end", {"rounds": 3, **said})]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_backup_in_another_thread_has_its_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    async def recorded(*of: Any) -> str:
        told.append(of[2])
        return ""

    monkeypatch.setattr(backup_audit, "_recorded", recorded)

    def work() -> None:
        running = Reach("127.0.0.1:1"), ["broker-a"]
        with audited(lambda: running, "place", None, dict) as look:
            look()
            told.append("copied")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()
    assert told == ["backup begin", "copied", "backup end"]


def test_a_cluster_that_starts_later_has_both_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for before each round until it is there, and then no more."""
    told: list[str] = []

    async def recorded(*of: Any) -> str:
        told.append(f"{of[2]} of {','.join(of[1])}")
        return ""

    monkeypatch.setattr(backup_audit, "_recorded", recorded)
    found = [[], [], ["broker-a"], ["broker-a"]]
    reach = Reach("127.0.0.1:1")
    with audited(lambda: (reach, found.pop(0)), "place", 1.0, dict) as look:
        for number in range(5):
            look()
            told.append(f"round {number}")
    assert told == [
        *("round 0", "round 1", "backup begin of broker-a", "round 2", "round 3", "round 4"),
        "backup end of broker-a",
    ]
    assert len(found) == 1


def test_a_cluster_that_is_stopped_all_the_time_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    async def recorded(*of: Any) -> str:
        told.append(of[2])
        return ""

    monkeypatch.setattr(backup_audit, "_recorded", recorded)
    with audited(lambda: (Reach(), []), "place", None, dict) as look:
        look()
    assert told == []
