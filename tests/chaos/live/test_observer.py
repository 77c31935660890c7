"""Which process of a node answered: the node says it, so no restart is taken for a step back."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from chaos.checkers.elections import find_going_back
from chaos.live.arena import Arena
from chaos.live.observer import Observer

STATUS = {"role": "follower", "term": 3, "committed_index": 90, "last_index": 90}


class FakeArena:
    """One node, that answers what it is told to."""

    def __init__(self, folder: Path) -> None:
        self.status: dict[str, Any] | None = None
        self.cluster = SimpleNamespace(brokers=["n0"], folder=lambda _: folder)

    async def statuses(self) -> dict[str, dict[str, Any] | None]:
        return {"n0": self.status}


async def observed(folder: Path, *statuses: dict[str, Any] | None) -> Observer:
    arena = FakeArena(folder)
    observer = Observer(cast(Arena, arena), lambda: 1.0)
    for status in statuses:
        arena.status = status
        await observer.look()
    return observer


async def test_a_restart_is_another_life_although_nobody_saw_it(tmp_path: Path) -> None:
    """The folder still names the process before it."""
    (tmp_path / "process.json").write_text(json.dumps({"pid": 7, "born": "b 1"}))
    first = {**STATUS, "process_id": 7, "started_ms": 1000}
    again = {**STATUS, "process_id": 8, "started_ms": 2000, "committed_index": 40}
    observer = await observed(tmp_path, first, None, again, first | {"committed_index": 95})
    assert [row["boot"] for row in observer.rows] == [0, 1, 0]
    assert find_going_back(observer.trace()[:2]) == []


async def test_a_step_back_of_one_process_is_found(tmp_path: Path) -> None:
    status = {**STATUS, "process_id": 7, "started_ms": 1000}
    observer = await observed(tmp_path, status, status | {"committed_index": 40})
    (found,) = find_going_back(observer.trace())
    assert found.name == "commit-back"
    assert "committed 40 after 90 in one process" in found.detail


async def test_an_earlier_version_is_known_by_its_folder(tmp_path: Path) -> None:
    """Its status does not tell its process."""
    (tmp_path / "process.json").write_text(json.dumps({"pid": 7, "born": "b 1"}))
    observer = await observed(tmp_path, STATUS)
    assert [row["boot"] for row in observer.rows] == [0]
