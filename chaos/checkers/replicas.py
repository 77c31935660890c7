"""Do the replicas hold the same values at the same offsets?"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.checkers.anomaly import Anomaly, Log


def find_divergence(logs: Mapping[str, Log]) -> list[Anomaly]:
    """The first difference of each replica to the first one by name; [] when all are equal."""
    names = sorted(logs)
    found = []
    for name in names[1:]:
        base, other = logs[names[0]], logs[name]
        if list(base) == list(other):
            continue
        place = next(
            (at for at, (one, two) in enumerate(zip(base, other, strict=False)) if one != two),
            min(len(base), len(other)),
        )
        left = base[place] if place < len(base) else "the end"
        right = other[place] if place < len(other) else "the end"
        found.append(
            Anomaly("diverged", f"value number {place}: {names[0]} has {left}, {name} has {right}")
        )
    return found
