"""The Raft log: agree on one order of entries. See README.md.

async with ReplicatedLog(RaftConfig(node_id="n0", peers={...}, data_dir="data/n0")) as log:
    index = await log.append(b"hello")
"""

from __future__ import annotations

from dledger.config import RaftConfig
from dledger.errors import (
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
from dledger.replica import Proposal, StateMachine
from dledger.runtime.replicated_log import LogEntry, LogStatus, ReplicatedLog

__all__ = [
    "DledgerError",
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
