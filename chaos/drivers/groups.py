"""Which nodes do not see each other: cuts of a whole cluster, as pairs of nodes. Pure values.

edge             a ✂ b                            the others see both
bridge           a b ✂ d e                        c sees all and is the only one that does
majorities-ring  each sees its neighbours on a circle: a majority, and for each another one
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

Pair = tuple[str, str]


def cut_of_ring(
    node: str, leader: str, nodes: Sequence[str], random: Random
) -> tuple[str, list[Pair]]:
    """The name of a cut and its pairs, `node` among them; up to four nodes have the edge only.

    Two followers have nothing to say to each other, so the leader is in a pair, too; "" for none.
    """
    others = [other for other in nodes if other != node]
    shape = random.choice(("edge", "bridge", "majorities-ring")) if len(nodes) > 4 else "edge"
    if shape == "edge":
        return shape, [(node, leader if leader in others else random.choice(others))]
    order = random.sample(nodes, len(nodes))
    if shape == "majorities-ring":
        return shape, majorities_ring(order)
    seen_by_all = [other for other in order if other not in (node, leader)]
    order.remove(seen_by_all[0])
    return shape, bridge(order)


def bridge(sides: Sequence[str]) -> list[Pair]:
    """Cuts the first half of these nodes from the second half; a node left out of both sees all."""
    half = len(sides) // 2
    return [(one, other) for one in sides[:half] for other in sides[half:]]


def majorities_ring(circle: Sequence[str]) -> list[Pair]:
    """Each node sees only as many neighbours at either side as make a majority with it."""
    count = len(circle)
    reach = (count // 2 + 1) // 2
    return [
        (circle[one], circle[other])
        for one in range(count)
        for other in range(one + 1, count)
        if min(other - one, count - other + one) > reach
    ]


def is_split_in_two(nodes: Sequence[str], random: Random) -> bool:
    """Whether several nodes that are cut off see each other and their clients: drawn."""
    return len(nodes) > 1 and random.random() < 0.5
