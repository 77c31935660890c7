"""The chain of checksums that a log carries; a node tells its end where it is elected.

Every record's header holds a checksum over the one before it, its own header and its body, from the
beginning of the log on (dledger/log/check.py): two logs with the same one behind an entry are
the same up to there. So the leader's log is compared with what was committed, not its length alone;
deleted beginnings change none of them.
"""

from __future__ import annotations

from typing import Any

from commitlog.errors import StoreError
from dledger.core.types import Index
from dledger.errors import DledgerError
from dledger.log.port import LogStore

#: What a leader has not committed is a few entries, unless it was cut off under load.
TOLD_MAX = 1024


def links_behind(log: LogStore, commit: int) -> dict[str, Any]:
    """The field `links`: [first index, 8 hex digits an entry] from the last committed entry on, or
    of the newest of them.

    Empty of an empty log, and of one that cannot be read there: nothing of it may harm the node.
    """
    last = log.last.index
    first = max(commit, last - TOLD_MAX + 1, log.first_index)
    if first > last:
        return {}
    try:
        crcs = [entry.header.chain_crc for entry in log.entries(Index(first), last)]
    except (StoreError, DledgerError):
        return {}
    return {"links": [first, b"".join(link_of(crc) for crc in crcs).hex()]}


def link_of(chain_crc: int) -> bytes:
    """As chaos.checkers.elections.Links holds it."""
    return chain_crc.to_bytes(4, "big")
