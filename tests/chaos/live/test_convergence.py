"""The clock of convergence begins at the heal, and a node that is behind holds it."""

from __future__ import annotations

from typing import Any, cast

from chaos.live.convergence import caught_up
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
