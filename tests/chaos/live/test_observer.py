"""Which process of a node answered: the node says it, so no restart is taken for a step back."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from chaos.checkers.elections import Seen, find_going_back
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


async def test_a_node_on_an_older_copy_of_its_folder_is_known_by_it(tmp_path: Path) -> None:
    """Put back from a backup, it is behind what it promised until a peer tells it so."""
    newest = {**STATUS, "process_id": 7, "started_ms": 1000, "life": 3, "generation": [9, 55]}
    older = newest | {"process_id": 8, "started_ms": 2000, "term": 2, "generation": [9, 56]}
    observer = await observed(tmp_path, newest, older)
    assert [row["generation"] for row in observer.rows] == [[9, 55], [9, 56]]
    assert find_going_back(observer.trace()) == []
    untold = [{**one, "generation": [0, 0]} for one in (newest, older)]
    (found,) = find_going_back((await observed(tmp_path, *untold)).trace())
    assert found.name == "term-back"


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


VOTED = {**STATUS, "process_id": 7, "started_ms": 1000, "vote_term": 3, "voted_for": "n2"}


async def test_a_vote_that_changes_within_a_term_is_found(tmp_path: Path) -> None:
    changed = VOTED | {"process_id": 8, "voted_for": "n1"}
    observer = await observed(tmp_path, VOTED, changed)
    assert [row["vote"] for row in observer.rows] == ["n2", "n1"]
    (found,) = find_going_back(observer.trace())
    assert found.name == "vote-changed"
    assert "vote for n1 after one for n2 in term 3" in found.detail


async def test_a_vote_that_is_forgotten_is_found_behind_a_look_that_told_none(
    tmp_path: Path,
) -> None:
    """An earlier version between does not tell votes."""
    observer = await observed(tmp_path, VOTED, STATUS, VOTED | {"voted_for": ""})
    assert [row["vote"] for row in observer.rows] == ["n2", None, ""]
    assert [found.name for found in find_going_back(observer.trace())] == ["vote-changed"]


async def test_a_vote_that_is_not_on_disk_yet_binds_nobody(tmp_path: Path) -> None:
    """The disk is at an earlier term than the node: a crash may forget what it is about to save."""
    saving = VOTED | {"term": 4}
    observer = await observed(tmp_path, VOTED, saving, saving | {"vote_term": 4, "voted_for": ""})
    assert [row["vote"] for row in observer.rows] == ["n2", None, ""]
    assert find_going_back(observer.trace()) == []


async def test_what_else_a_node_tells_is_kept(tmp_path: Path) -> None:
    told = VOTED | {"first_position": 4096, "no_op_index": 7, "configuration": {"index": 41}}
    (one,) = (await observed(tmp_path, told)).trace()
    assert one == Seen(1.0, "n0", 3, False, "n2", 90, 90, 0, 4096, 7, 41)
