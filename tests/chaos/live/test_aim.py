"""Targets become nodes from what nodes and their disks say; nothing is running here."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from chaos.faults import Target
from chaos.live import aim, node_hooks
from chaos.live.aim import Aim, vote_of
from chaos.live.arena import Arena
from cluster.local import processes
from commitlog.files.system import OS_FILES
from dledger.core.types import HardState, NodeId, Term
from dledger.durable.hard_state import HardStateFile

NODES = ["n0", "n1", "n2", "n3", "n4"]


class Cluster:
    brokers = NODES

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, node: str) -> Path:
        return self._root / node


class FakeArena:
    """`leaders`: who leads, asked again and again; the last one for ever."""

    def __init__(self, root: Path, leaders: list[str]) -> None:
        self.cluster, self._leaders = Cluster(root), leaders
        self.ends: dict[str, int | None] = dict.fromkeys(NODES, 100)
        for node in NODES:
            (root / node / "data" / f"dledger-{node}").mkdir(parents=True)

    async def statuses(self) -> dict[str, dict[str, Any] | None]:
        return {
            node: None if end is None else {"last_index": end, "committed_index": 100, "term": 7}
            for node, end in self.ends.items()
        }

    async def leader(self, *, other_than: str = "", seconds_max: float) -> str:
        found = self._leaders.pop(0) if len(self._leaders) > 1 else self._leaders[0]
        if found in ("", other_than):
            raise TimeoutError
        return found


@pytest.fixture
def arena(tmp_path: Path) -> FakeArena:
    return FakeArena(tmp_path, ["n0"])


async def hit(arena: FakeArena, target: Target, *spared: str, seed: int = 1) -> tuple[str, ...]:
    return (await Aim(cast(Arena, arena)).choose(target, Random(seed), spared)).nodes


def votes(arena: FakeArena, node: str, term: int, leader: str) -> None:
    folder = arena.cluster.folder(node) / "data" / f"dledger-{node}"
    state = HardState(Term(term), NodeId(leader), 1)
    HardStateFile.create(OS_FILES, folder, state, staging=folder.parent).close()


async def test_where_everybody_is_spared_somebody_is_hit_all_the_same(arena: FakeArena) -> None:
    """Of one node, or when all are on their way back: whoever is hit is waited for."""
    for target in (target for target in Target if target is not Target.NEW_LEADER):
        assert await hit(arena, target, *NODES)


async def test_roles_and_ends_of_logs(arena: FakeArena) -> None:
    arena.ends |= {"n0": 120, "n3": 104, "n2": 90}
    assert await hit(arena, Target.LEADER) == ("n0",)
    assert await hit(arena, Target.MOST_CURRENT) == ("n3",)
    assert await hit(arena, Target.LEAST_CURRENT) == ("n2",)
    assert await hit(arena, Target.ALL) == tuple(NODES)
    followers = {await hit(arena, Target.FOLLOWER, seed=seed) for seed in range(40)}
    assert followers == {("n1",), ("n2",), ("n3",), ("n4",)}


async def test_a_minority_is_all_that_may_be_missing_in_one_order(arena: FakeArena) -> None:
    drawn = {await hit(arena, Target.MINORITY, seed=seed) for seed in range(60)}
    assert {len(nodes) for nodes in drawn} == {2}
    assert all(list(nodes) == sorted(nodes) for nodes in drawn)
    assert len(drawn) == 10


async def test_who_is_caught_up_misses_what_is_committed_or_came_back_last(
    arena: FakeArena,
) -> None:
    chooser = Aim(cast(Arena, arena))
    chooser.came_back("n3")
    chooser.came_back("n0")  # leads, and has all
    aimed = await chooser.choose(Target.CATCHING_UP, Random(1), ())
    assert aimed == (("n3",), "n3 came back last", True)
    arena.ends |= {"n1": 60, "n2": 40, "n4": None}  # who is down is not being caught up
    aimed = await chooser.choose(Target.CATCHING_UP, Random(1), ())
    assert aimed == (("n2",), "n2 misses 60 committed entries", True)
    assert (await chooser.choose(Target.CATCHING_UP, Random(1), ["n2"])).nodes == ("n1",)


async def test_a_node_that_has_all_is_stopped_until_it_has_not(
    arena: FakeArena, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[Path, int]] = []
    monkeypatch.setattr(processes, "send", lambda folder, number: sent.append((folder, number)))
    monkeypatch.setattr(aim, "LAG_SECONDS", 0.01)
    chooser = Aim(cast(Arena, arena))
    assert await chooser.let_lag("n2") == "n2 was stopped for 0.01 s behind entry 100"
    folder = arena.cluster.folder("n2")
    assert sent == [(folder, signal.SIGSTOP), (folder, signal.SIGCONT)]
    arena.ends |= {"n1": 99, "n4": None}
    assert [await chooser.let_lag(node) for node in ("n1", "n4")] == ["", ""]
    assert len(sent) == 2


async def test_the_last_voter_is_found_on_its_disk(arena: FakeArena) -> None:
    votes(arena, "n1", 7, "n4")  # for another one
    votes(arena, "n2", 6, "n0")  # in an earlier term
    votes(arena, "n3", 7, "n0")
    aimed = await Aim(cast(Arena, arena)).choose(Target.LAST_VOTER, Random(1), ())
    assert aimed == (("n3",), "n3 voted for n0 in term 7", True)
    assert (await hit(arena, Target.LAST_VOTER, "n3"))[0] in ("n1", "n2", "n4")


def test_a_damaged_vote_is_none(arena: FakeArena) -> None:
    folder = arena.cluster.folder("n1") / "data" / "dledger-n1"
    assert vote_of(folder) is None
    votes(arena, "n1", 7, "n0")
    assert vote_of(folder) == HardState(Term(7), NodeId("n0"), 1)
    path = folder / "hardstate"
    path.write_bytes(bytes(len(path.read_bytes())))
    assert vote_of(folder) is None


async def test_a_new_leader_is_made_by_a_hand_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Path, dict[str, str]]] = []
    monkeypatch.setattr(node_hooks, "ask", lambda folder, **what: asked.append((folder, what)))
    arena = FakeArena(tmp_path, ["n0", "n2"])
    aimed = await Aim(cast(Arena, arena)).choose(Target.NEW_LEADER, Random(1), ())
    assert aimed == (("n2",), "n2 leads since n0 handed over", True)
    assert asked == [(tmp_path / "n0", {"transfer": ""})]
    stays = FakeArena(tmp_path / "stays", ["n0", "n0"])
    assert await hit(stays, Target.NEW_LEADER) == ("n0",)
    asked.clear()
    taken = FakeArena(tmp_path / "taken", ["n0"])  # another fault asks it for something
    assert (await hit(taken, Target.NEW_LEADER, "n0"))[0] != "n0"
    assert asked == []


async def test_without_a_leader_whoever_is_drawn(tmp_path: Path) -> None:
    for number, target in enumerate(Target):
        arena = FakeArena(tmp_path / str(number), [""])
        assert set(await hit(arena, target)) <= set(NODES)


async def test_a_node_that_another_fault_has_taken_is_spared(arena: FakeArena) -> None:
    for target in set(Target) - {Target.ALL}:
        for seed in range(20):
            assert not {"n0", "n3"} & set(await hit(arena, target, "n0", "n3", seed=seed))


async def test_a_target_that_nobody_is_was_not_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is drawn instead counts as drawn: no coverage of a target that was not there."""
    monkeypatch.setattr(node_hooks, "ask", lambda *_, **__: None)

    async def met(leader: str, target: Target, *spared: str) -> bool:
        folder = tmp_path / f"{leader}-{target.value}-{len(spared)}"
        chooser = Aim(cast(Arena, FakeArena(folder, [leader])))
        return (await chooser.choose(target, Random(1), spared)).met

    of_roles = (Target.LEADER, Target.FOLLOWER, Target.MOST_CURRENT, Target.LEAST_CURRENT)
    assert all([await met("n0", target) for target in of_roles])
    assert not any([await met("", target) for target in of_roles])
    assert not await met("n0", Target.LEADER, "n0")
    assert not await met("n0", Target.FOLLOWER, *NODES[1:])
    for target in (Target.NEW_LEADER, Target.CATCHING_UP, Target.LAST_VOTER):
        assert not await met("n0", target), "nobody took over, came back, voted"
    for target in (Target.RANDOM, Target.MINORITY, Target.ALL):
        assert await met("", target)
