"""Compares the messages that consumers got with the sends and with the final log.

It finds messages that were never sent or were refused, messages that the log lacks, and messages
that no consumer got.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chaos.checkers.anomaly import Anomaly, Log
from chaos.history import Kind, Operation, Outcome


def find_wrong_polls(history: Sequence[Operation], log: Log) -> list[Anomaly]:
    """Finds polled values that were never sent, that were refused, or that the final log does not
    hold.

    `unexpected`: never sent, or polled before the send began. `G1a`: the broker refused the append
    for certain. `precommitted-read`: sent and polled, and absent from the final log.
    `inconsistent-offsets`: the final log holds it at another offset. O(n + m).
    """
    held = {value: offset for offset, value in log}
    asked = {op.value: op for op in history if op.kind is Kind.APPEND}
    places = {(offset, value) for offset, value in log}
    found: dict[str, Anomaly] = {}
    for op in history:
        if op.kind is not Kind.POLL or op.outcome is not Outcome.OK:
            continue
        for offset, value in op.values:
            if value in found:
                continue
            said = f"{op.process} got {value} at {offset}"
            send = asked.get(value)
            if send is None:
                found[value] = Anomaly("unexpected", f"{said}, which no client sent")
            elif send.invoked > op.completed:
                found[value] = Anomaly("unexpected", f"{said} before a client sent it")
            elif send.outcome is Outcome.FAIL:
                found[value] = Anomaly("G1a", f"{said}, which was refused for certain")
            elif value not in held:
                found[value] = Anomaly(
                    "precommitted-read", f"{said} at {op.completed:.6f} s; the final log lacks it"
                )
            elif (offset, value) not in places:
                found[value] = Anomaly(
                    "inconsistent-offsets", f"{said}; the final log has it at {held[value]}"
                )
    return list(found.values())


def find_unseen(history: Iterable[Operation], log: Log) -> list[Anomaly]:
    """Messages that no consumer got, although one got a later message.

    Call it only for workloads whose consumers read the whole log from its beginning.
    """
    got = {
        offset
        for op in history
        if op.kind is Kind.POLL and op.outcome is Outcome.OK
        for offset, _ in op.values
    }
    reached = max(got, default=-1)
    return [
        Anomaly("never-read", f"{value} at {offset} was skipped: consumers reached {reached}")
        for offset, value in log
        if offset < reached and offset not in got
    ]
