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
        CommandRefused,
        Compacted,
        DiskFull,
        DledgerError,
        EntryTooLarge,
        HardStateLost,
        LaterVersion,
        LogDamaged,
        LogUsageError,
        MachineBehind,
        NodeFailed,
        NoMachine,
        NotDone,
        NotFormatted,
        NotLeader,
        Outcome,
        OutcomeUnknown,
        ProposalTimedOut,
        QueueFull,
        ResultNotKept,
        SequenceGap,
        SnapshotFailed,
        StateMachineDiverged,
        StateMachineFailed,
        Transferring,
        WrongIdentity,
    )
    from dledger.machine.applying import SlowApply
    from dledger.machine.host import Host
    from dledger.machine.node import Consistency, ReplicatedNode
    from dledger.machine.settings import MachineSettings
    from dledger.machine.state_machine import Entry, ReplicatedStateMachine
    from dledger.machine.status import MachineStatus
    from dledger.producers.durability import Durability
    from dledger.replica.ports import Proposal, StateMachine
    from dledger.runtime.log_entry import LogEntry, LogStatus
    from dledger.runtime.replicated_log import ReplicatedLog

__all__ = [
    "CommandRefused",
    "Compacted",
    "Consistency",
    "DiskFull",
    "DledgerError",
    "Durability",
    "Entry",
    "EntryTooLarge",
    "HardStateLost",
    "Host",
    "LaterVersion",
    "LogDamaged",
    "LogEntry",
    "LogStatus",
    "LogUsageError",
    "MachineBehind",
    "MachineSettings",
    "MachineStatus",
    "NoMachine",
    "NodeFailed",
    "NotDone",
    "NotFormatted",
    "NotLeader",
    "Outcome",
    "OutcomeUnknown",
    "Proposal",
    "ProposalTimedOut",
    "QueueFull",
    "RaftConfig",
    "ReplicatedLog",
    "ReplicatedNode",
    "ReplicatedStateMachine",
    "ResultNotKept",
    "SequenceGap",
    "SlowApply",
    "SnapshotFailed",
    "StateMachine",
    "StateMachineDiverged",
    "StateMachineFailed",
    "Transferring",
    "WrongIdentity",
]

_MODULES = {
    "Consistency": "machine.node",
    "Durability": "producers.durability",
    "Entry": "machine.state_machine",
    "Host": "machine.host",
    "LogEntry": "runtime.log_entry",
    "LogStatus": "runtime.log_entry",
    "MachineSettings": "machine.settings",
    "MachineStatus": "machine.status",
    "Proposal": "replica.ports",
    "RaftConfig": "config",
    "ReplicatedLog": "runtime.replicated_log",
    "ReplicatedNode": "machine.node",
    "ReplicatedStateMachine": "machine.state_machine",
    "SlowApply": "machine.applying",
    "StateMachine": "replica.ports",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES.get(name, 'errors')}")
    value: object = getattr(module, name)
    globals()[name] = value
    return value
