"""File descriptors: how many this process may have, and how many of them clients get.

A node that has none left cannot open the next file of its log, its next vote, or a connection to
its peers, and ends. So a part is kept for the node's own files and peers, and a client's connection
that reaches into it is refused. The kernel gives the lowest number that is free, so the number of a
new connection tells how many are in use, whatever uses them; nothing is counted here.
"""

from __future__ import annotations

import logging
import resource

#: Kept for the node: files of the log and of queues, peers, name servers, the admin port. A node
#: with 20,000 topics maps its queue files and closes them, so it needs no more than others.
RESERVE = 128
#: Connections that the kernel holds until they are accepted; a restart of all clients at once. It
#: drops calls beyond them, and a client calls again after 1 s, 3 s, 7 s.
BACKLOG_MAX = 1024
#: One descriptor of so many is kept, too, until a backlog of the largest size fits in.
RESERVE_SHARE = 8
#: No more is asked for: tables of open files cost memory in the kernel.
WANTED = 1 << 17

_log = logging.getLogger(__name__)


def raise_limit() -> int:
    """Raise this process's own limit as far as it is allowed; the limit that is in force now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if wanted > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            _log.warning("the limit of %d open files could not be raised: %s", soft, error)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if client_share(limit) < 1024:
        _log.warning(
            "this process may have %d files open, so at most %d clients connect; raise the limit"
            " (ulimit -n, LimitNOFILE) for more",
            limit,
            client_share(limit),
        )
    return limit


def reserve(limit: int) -> int:
    """How many of `limit` descriptors are kept for the node and one turn of accepting."""
    return max(RESERVE, min(limit // RESERVE_SHARE, RESERVE + 2 * BACKLOG_MAX))


def client_share(limit: int) -> int:
    """How many of `limit` descriptors clients may use: all but the reserve, or half of a few."""
    return max(limit - reserve(limit), limit // 2) if limit > RESERVE else limit // 4


def admits(descriptor: int) -> bool:
    """May a client keep the connection that has this descriptor?

    The limit is read each time: it can be changed from outside while the process runs.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit == resource.RLIM_INFINITY or descriptor < client_share(limit)


def backlog() -> int:
    """How many connections to accept in one go: never as many as the reserve holds."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    share = limit if limit == resource.RLIM_INFINITY else limit - client_share(limit)
    return BACKLOG_MAX if share < 0 else max(8, min(BACKLOG_MAX, share // 2))
