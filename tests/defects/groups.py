"""What the tests of defects share: led groups, and whole replicas with disks that forget."""

from __future__ import annotations

from dledger.core.types import HardState, NodeId, Term
from dledger.log.port import HardStateStore
from tests.dledger.core.net import Net


def led(count: int = 3, entries: int = 0, **settings: object) -> Net:
    """Led by n0; everybody has its no-op and `entries` more, committed."""
    net = Net(count, **settings)  # type: ignore[arg-type]
    net.elect("n0")
    if entries:
        net.propose("n0", entries)
    net.run(0.3)
    assert {node.raft.commit for node in net.nodes.values()} == {entries}
    return net


def save(store: HardStateStore, term: int, voted_for: str | None) -> None:
    """Write the hard state to its end; a power cut may stop it."""
    voter = None if voted_for is None else NodeId(voted_for)
    task = store.begin_save(HardState(Term(term), voter, 7))
    task.run()
    store.finish_save(task)
