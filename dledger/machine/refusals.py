"""Why a leader did not take commands: errors ⇄ reasons of a FORWARD_REPLY. Pure."""

from __future__ import annotations

from dledger.core.types import NodeId
from dledger.errors import DledgerError, NoMachine, NotLeader, OutcomeUnknown, QueueFull
from dledger.wire.forwards import ForwardReason


def reason_of(error: DledgerError) -> ForwardReason:
    """The leader's word for how its own log refused."""
    if isinstance(error, OutcomeUnknown):
        return ForwardReason.MAYBE
    return ForwardReason.BUSY if isinstance(error, QueueFull) else ForwardReason.NOT_LEADER


def error_of(reason: ForwardReason, leader: NodeId) -> DledgerError:
    """The error of the commands, where they were proposed."""
    if reason is ForwardReason.MAYBE:
        return unknown(f"{leader} took it and lost the lead")
    if reason is ForwardReason.BUSY:
        return QueueFull(
            f"{leader} has more to replicate or to apply than its limit; pause and try again"
        )
    return NoMachine(leader) if reason is ForwardReason.NO_MACHINE else NotLeader(None)


def unknown(detail: str) -> OutcomeUnknown:
    """The error of a command that may have been applied; `detail` says why that is not known."""
    return OutcomeUnknown(
        f"whether a command was applied is not known: {detail}; read the state to see"
    )
