"""The one maker of bare cores for tests: a node, given by what differs from a fresh one.

    node("n1", log=[(1, 9)])   n1 of three voters; its log holds entries 0..9, all of term 1

`conftest.py` checks the invariants of every node made here when its test ends.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dledger.core.config import CoreConfig
from dledger.core.configuration import Configuration, ConfigurationEntry
from dledger.core.invariants import broken_in_state
from dledger.core.leasing_node import node_class
from dledger.core.node import RaftNode
from dledger.core.state import State
from dledger.core.types import NO_ENTRY, EntryId, HardState, Index, NodeId, Term, TermRun

VOTERS = (NodeId("n0"), NodeId("n1"), NodeId("n2"))

#: The nodes that the running test made and that still live; `conftest.py` reads it.
made: list[RaftNode] = []


def runs(terms: Iterable[tuple[int, int]]) -> list[TermRun]:
    """Pairs (term, last index of that term) as a log's runs."""
    return [TermRun(Term(term), Index(last)) for term, last in terms]


def node(
    name: str = "n1",
    *,
    voters: Sequence[str] = VOTERS,
    log: Iterable[tuple[int, int]] = (),
    hard: HardState | None = None,
    flushed: int | None = None,
    now: float = 0.0,
    jitter: Callable[[], float] | None = None,
    anchor: EntryId = NO_ENTRY,
    initial: Configuration | None = None,
    configurations: Sequence[ConfigurationEntry] = (),
    **settings: Any,
) -> RaftNode:
    """A node that starts from `log` (all of it flushed unless `flushed` says less).

    `hard`: what its vote file holds, as a rule the term of its last entry and no vote; `settings`:
    fields of `CoreConfig`.
    """
    config = CoreConfig(NodeId(name), tuple(NodeId(voter) for voter in voters), **settings)
    held = runs(log)
    last = held[-1] if held else TermRun(anchor.term, anchor.index)
    raft = node_class(config)(
        config,
        HardState(Term(max(last.term, 0)), None, 1) if hard is None else hard,
        held,
        last.last if flushed is None else Index(flushed),
        now,
        random.Random(1).random if jitter is None else jitter,
        anchor=anchor,
        initial=initial,
        configurations=configurations,
    )
    made.append(raft)
    return raft


def state(name: str = "n1", **settings: Any) -> State:
    """The state inside a node of `node(name, **settings)`: rules are functions over a state."""
    return node(name, **settings).state


def broken() -> list[str]:
    """What the invariants say about the nodes made since the last call; forgets the nodes."""
    wrong = [sentence for raft in made for sentence in broken_in_state(raft.status())]
    made.clear()
    return wrong
