"""Log matching by rolling hashes: h(i) = H(h(i - 1), term, payload); bisection finds the place.

If two replicas agree at an index they agree below it (Raft 5.3, Log Matching), so their chains are
equal up to some index and different from there on: O(log m) comparisons locate it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from chaos.checkers.anomaly import Anomaly

DIGEST_SIZE = 16  # bytes; nobody forges entries here, 2^64 entries until two are equal by chance


def chain(entries: Iterable[tuple[int, bytes]], start: bytes = bytes(DIGEST_SIZE)) -> list[bytes]:
    """Rolling hash behind each (term, payload)."""
    link = start
    links = []
    for term, payload in entries:
        digest = hashlib.blake2b(link, digest_size=DIGEST_SIZE)
        digest.update(term.to_bytes(8, "big"))
        digest.update(payload)
        link = digest.digest()
        links.append(link)
    return links


def first_difference(one: Sequence[bytes], other: Sequence[bytes]) -> int | None:
    """Returns the number of the first entry that differs within the common length; None if none
    does."""
    end = min(len(one), len(other))
    if not end or one[end - 1] == other[end - 1]:
        return None
    same, different = -1, end - 1  # entry `same` is equal (or none), `different` is not
    while different - same > 1:
        middle = (same + different) // 2
        if one[middle] == other[middle]:
            same = middle
        else:
            different = middle
    return different


def find_log_mismatch(
    chains: Mapping[str, Sequence[bytes]], *, first_index: int = 0, commit: int | None = None
) -> list[Anomaly]:
    """Finds replicas with logs that differ at or below `commit` (default: within the common
    length).

    `chains[name][n]` is the hash behind entry `first_index + n`. A replica that ends before
    `commit` is behind, which is no anomaly.
    """
    names = sorted(chains)
    size = None if commit is None else max(commit - first_index + 1, 0)
    found = []
    for name in names[1:]:
        place = first_difference(chains[names[0]][:size], chains[name][:size])
        if place is not None:
            found.append(
                Anomaly(
                    "log-mismatch",
                    f"{names[0]} and {name} differ from entry {first_index + place} on",
                )
            )
    return found
