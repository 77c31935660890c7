"""A range of a leader's log as the message that carries it."""

from __future__ import annotations

from dledger.core.effects import SendAppend
from dledger.core.messages import AppendEntries
from dledger.core.node import RaftNode
from dledger.core.types import Index
from dledger.storage.port import LogRange


def append_of(node: RaftNode, effect: SendAppend, part: LogRange) -> AppendEntries:
    """`part` was read for `effect`; entries that change the group are flagged (R20)."""
    return AppendEntries(
        node.node_id,
        effect.term,
        effect.prev,
        part.last,
        effect.commit,
        part.runs,
        part.position,
        part.prev_chain_crc,
        part.size,
        part.parts,
        node.configurations_in(Index(effect.prev.index + 1), part.last),
        effect.when_written,
    )
