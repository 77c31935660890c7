"""The Raft log: agree on one order of entries. See README.md.

async with ReplicatedLog(RaftConfig(node_id="n0", peers={...}, data_dir="data/n0")) as log:
    index = await log.append(b"hello")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dledger.config import RaftConfig
    from dledger.errors import (
        DiskFull,
        DledgerError,
        EntryTooLarge,
        HardStateLost,
        LogDamaged,
        LogUsageError,
        NodeFailed,
        NotDone,
        NotFormatted,
        NotLeader,
        Outcome,
        OutcomeUnknown,
        QueueFull,
        SequenceGap,
        Transferring,
        WrongIdentity,
    )
    from dledger.producers.durability import Durability
    from dledger.replica.ports import Proposal, StateMachine
    from dledger.runtime.log_entry import LogEntry, LogStatus
    from dledger.runtime.replicated_log import ReplicatedLog

__all__ = [
    "DiskFull",
    "DledgerError",
    "Durability",
    "EntryTooLarge",
    "HardStateLost",
    "LogDamaged",
    "LogEntry",
    "LogStatus",
    "LogUsageError",
    "NodeFailed",
    "NotDone",
    "NotFormatted",
    "NotLeader",
    "Outcome",
    "OutcomeUnknown",
    "Proposal",
    "QueueFull",
    "RaftConfig",
    "ReplicatedLog",
    "SequenceGap",
    "StateMachine",
    "Transferring",
    "WrongIdentity",
]

_MODULES = {
    "Durability": "producers.durability",
    "LogEntry": "runtime.log_entry",
    "LogStatus": "runtime.log_entry",
    "Proposal": "replica.ports",
    "RaftConfig": "config",
    "ReplicatedLog": "runtime.replicated_log",
    "StateMachine": "replica.ports",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES.get(name, 'errors')}")
    value: object = getattr(module, name)
    globals()[name] = value
    return value
