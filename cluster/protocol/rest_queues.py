"""Queues of a topic that a Go client reaches through relays only.

    the topic       0  1  2  3      a name server shows it      0        of the real broker name
                                                                0  1  2  of a relay: 1, 2 and 3

cluster/nameserver/next_queues.py says why. Name servers show these queues, and a leader puts what
comes for them in its place, so both use this rule.
"""

from __future__ import annotations

from typing import Final

LANGUAGE: Final = "GO"
"""Of the clients that have them."""


def first_count(queues: int) -> int:
    """Queues of the real broker name that such a client writes to, of a topic with so many."""
    return 1 if queues <= 4 else 2


def rest_count(queues: int) -> int:
    """Queues that a relay shows of a topic with so many; the only one where there is one."""
    return max(queues - first_count(queues), 1)


def rest_queue(relayed: int, queues: int) -> int:
    """The queue that a relay's is, of a topic with so many."""
    behind = relayed + first_count(queues)
    return behind if relayed >= 0 and behind < queues else relayed
