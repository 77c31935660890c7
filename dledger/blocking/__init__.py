"""dledger for code without an event loop. See README.md.

with ReplicatedCounter(config, create=True) as counter:
    print(counter.add(2))
"""

from __future__ import annotations

from dledger.blocking.host import Host
from dledger.blocking.loop_thread import Iterating, LoopThread
from dledger.blocking.node import ReplicatedLog, ReplicatedNode
from dledger.blocking.objects import (
    KeyValueStore,
    LeaderElection,
    ReplicatedCounter,
    ReplicatedDict,
    ReplicatedLock,
)

__all__ = [
    "Host",
    "Iterating",
    "KeyValueStore",
    "LeaderElection",
    "LoopThread",
    "ReplicatedCounter",
    "ReplicatedDict",
    "ReplicatedLock",
    "ReplicatedLog",
    "ReplicatedNode",
]
