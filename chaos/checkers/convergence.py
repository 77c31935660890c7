"""Checks that replicas end with one log, and files with the same bytes, after the last fault."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from chaos.checkers.anomaly import Anomaly


class Tail(NamedTuple):
    """A replica's last index and the hash of its log up to there, at some time."""

    time: float
    node: str
    last: int
    digest: bytes


def find_divergence_after_heal(
    tails: Iterable[Tail], nodes: Sequence[str], *, healed: float, seconds_max: float
) -> list[Anomaly]:
    """An anomaly unless all `nodes` had one tail and hash within `seconds_max` after `healed`."""
    now: dict[str, Tail] = {}
    for tail in sorted(tails):
        if tail.time > healed + seconds_max:
            break
        now[tail.node] = tail
        if (
            tail.time >= healed
            and len(now) == len(nodes)
            and len({(row.last, row.digest) for row in now.values()}) == 1
        ):
            return []
    ends = ", ".join(
        f"{node} at {now[node].last}" if node in now else f"{node} unseen" for node in nodes
    )
    return [
        Anomaly(
            "not-converged",
            f"{seconds_max:g} s after the last fault ended the replicas still differ: {ends}",
        )
    ]


CHUNK_SIZE = 1 << 20  # bytes hashed at once; a difference is reported as one such chunk


def chunk_hashes(data: bytes, chunk_size: int = CHUNK_SIZE) -> list[bytes]:
    """Hash of each `chunk_size` bytes of a replica's log, from position 0 of `data`."""
    return [
        hashlib.blake2b(data[at : at + chunk_size], digest_size=16).digest()
        for at in range(0, len(data), chunk_size)
    ]


def find_different_bytes(
    replicas: Mapping[str, Sequence[bytes]], *, start: int = 0, chunk_size: int = CHUNK_SIZE
) -> list[Anomaly]:
    """The first chunk in which a replica's bytes differ from those of the first one by name."""
    names = sorted(replicas)
    found = []
    for name in names[1:]:
        one, other = replicas[names[0]], replicas[name]
        place = next(
            (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
            min(len(one), len(other)) if len(one) != len(other) else None,
        )
        if place is not None:
            at = start + place * chunk_size
            found.append(
                Anomaly("bytes-differ", f"{names[0]} and {name}: bytes {at}..{at + chunk_size - 1}")
            )
    return found
