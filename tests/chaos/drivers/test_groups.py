"""Cuts of a whole cluster: who still sees whom."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from chaos.drivers.groups import Pair, bridge, cut_of_ring, majorities_ring

FIVE = ["n0", "n1", "n2", "n3", "n4"]


def seen_by(node: str, nodes: list[str], pairs: list[Pair]) -> set[str]:
    """Whom a node sees, itself among them."""
    return {other for other in nodes if (node, other) not in pairs and (other, node) not in pairs}


@pytest.mark.parametrize("count", [3, 4, 5, 7, 9])
def test_in_a_ring_of_majorities_each_sees_one_and_no_two_the_same(count: int) -> None:
    nodes = [f"n{number}" for number in range(count)]
    pairs = majorities_ring(nodes)
    views = [frozenset(seen_by(node, nodes, pairs)) for node in nodes]
    assert all(len(view) > count // 2 for view in views)
    if count > 3:
        assert len(set(views)) == count


def test_a_bridge_is_one_node_that_sees_all() -> None:
    pairs = bridge(["n0", "n1", "n3", "n4"])
    assert [len(seen_by(node, FIVE, pairs)) for node in FIVE] == [3, 3, 5, 3, 3]


def test_three_nodes_have_one_edge_cut_and_five_each_shape() -> None:
    shapes: Counter[str] = Counter()
    for seed in range(60):
        assert cut_of_ring("n1", "n2", FIVE[:3], Random(seed)) == ("edge", [("n1", "n2")])
        shape, pairs = cut_of_ring("n1", "n2", FIVE, Random(seed))
        shapes[shape] += 1
        cut = {node for pair in pairs for node in pair}
        assert {"n1", "n2"} <= cut, "without the leader nobody would notice"
        led, pairs_of_leader = cut_of_ring("n1", "", FIVE, Random(seed))
        assert led == shape
        assert any("n1" in pair for pair in pairs_of_leader)
    assert set(shapes) == {"edge", "bridge", "majorities-ring"}
