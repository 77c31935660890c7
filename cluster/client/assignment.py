"""Which queues a member of a group reads: contiguous ranges of equal size.

Source: docs/spec/remoting.md 4.5.

    queues sorted by (topic, broker name, queue id), members sorted as text
    7 queues, 3 members:  a ─ 0 1 2   b ─ 3 4   c ─ 5 6

Pure; every member computes the same from the same lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cluster.protocol.json_body import MessageQueue


def assign(
    queues: Iterable[MessageQueue], members: Sequence[str], member: str
) -> list[MessageQueue]:
    """The queues of one topic that `member` reads; none when it is not in `members`."""
    ordered = sorted(queues)
    ids = sorted(set(members))
    if member not in ids:
        return []
    place = ids.index(member)
    share, rest = divmod(len(ordered), len(ids))
    begin = place * share + min(place, rest)
    return ordered[begin : begin + share + (place < rest)]
