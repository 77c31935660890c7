"""The clock of convergence begins at the heal, and a node that is behind holds it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from chaos.live import node_hooks
from chaos.live.arena import Arena
from chaos.live.convergence import caught_up, looked_over
from chaos.live.nodes import Nodes


class FakeNodes:
    """Answers looks one after the other; the last one for ever."""

    def __init__(self, *looks: dict[str, dict[str, Any] | None]) -> None:
        self.looks = list(looks)
        self.count = 0

    async def statuses(self) -> dict[str, dict[str, Any] | None]:
        self.count += 1
        return self.looks[min(self.count, len(self.looks)) - 1]


def look(*ends: tuple[int, int] | None) -> dict[str, dict[str, Any] | None]:
    """(last, committed) of each node, None for one that does not answer."""
    return {
        f"n{n}": None if end is None else {"last_index": end[0], "committed_index": end[1]}
        for n, end in enumerate(ends)
    }


async def test_all_must_have_what_anybody_had_at_the_heal() -> None:
    nodes = FakeNodes(
        look((90, 80), (90, 80), None),
        look((95, 90), (95, 94), None),
        look((99, 98), (99, 99), (89, 89)),
        look((120, 110), (120, 119), (91, 90)),
    )
    assert await caught_up(cast(Nodes, nodes), lambda: 7.5, 5.0) == 2.5
    assert nodes.count == 4


async def test_a_node_that_never_answers_is_not_waited_for_for_ever(monkeypatch: Any) -> None:
    monkeypatch.setattr("chaos.live.convergence.SECONDS_MAX", 0.1)
    nodes = FakeNodes(look((90, 90), (90, 90), None))
    assert await caught_up(cast(Nodes, nodes), lambda: 7.5, 5.0) is None


def repair(*nodes: tuple[int, bool] | None) -> dict[str, dict[str, Any] | None]:
    """(passes over its log, whether damage is known) of each node, None for no answer."""
    return {
        f"n{n}": None
        if one is None
        else {"repair": {"passes": one[0], "damaged": [[1, 2]] if one[1] else []}}
        for n, one in enumerate(nodes)
    }


class FakeArena(FakeNodes):
    """With a folder for each of two nodes."""

    def __init__(self, root: Path, *looks: dict[str, dict[str, Any] | None]) -> None:
        super().__init__(*looks)
        self.asked: list[dict[str, Any]] = []
        for node in ("n0", "n1"):
            (root / node).mkdir()
        self.cluster = SimpleNamespace(brokers=["n0", "n1"], folder=lambda node: root / node)

    async def statuses(self) -> dict[str, dict[str, Any] | None]:
        folders = [self.cluster.folder(node) for node in self.cluster.brokers]
        self.asked.append(node_hooks.read(folders[self.count % 2] / node_hooks.CONTROL_FILE))
        return await super().statuses()


async def test_bytes_wait_for_a_whole_look_of_each_node_at_its_log(tmp_path: Path) -> None:
    arena = FakeArena(
        tmp_path,
        repair((3, False), (0, True)),
        repair((4, False), (0, False)),
        repair((4, False), None),
        repair((4, False), (1, True)),
        repair((4, False), (1, False)),
    )
    assert await looked_over(cast(Arena, arena))
    assert arena.count == 5
    assert [one.get("scrub") for one in arena.asked] == [None, *[True] * 4]
    assert not node_hooks.read(tmp_path / "n0" / node_hooks.CONTROL_FILE), "no wish for the next"


async def test_a_look_that_does_not_end_is_not_waited_for(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("chaos.live.convergence.SECONDS_MAX", 0.1)
    arena = FakeArena(tmp_path, repair((3, False), (0, False)))
    assert not await looked_over(cast(Arena, arena))
