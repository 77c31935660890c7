"""Reads of a queue's end that got the end from the broker, but could not fetch the last message.

    read → (end 8, value "?")     message 7 is in the final log   its value is taken from there
                                  it was deleted since            nothing can be said
                                  it is not there                 "": a read of what never was

The end is what a read promises, and it must fit real time like any other. Who looks up the message
may meet another broker, or one without a majority: that it saw nothing contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from chaos.checkers.anomaly import Log
from chaos.history import Kind, Operation

#: No value of a workload; they are names and numbers (chaos/workloads.py).
UNSEEN = "?"


def with_values(
    history: Iterable[Operation], replicas: Mapping[str, Mapping[str, Log]], begins: int
) -> Iterator[Operation]:
    """The history, blind reads with the value that a replica has at their place. O(n + m).

    `begins`: address below which messages were deleted; 0 when none was. Without any replica blind
    reads are left out: there is nothing that they could contradict.
    """
    queues = replicas[min(replicas)] if replicas else {}
    values: dict[str, dict[int, str]] = {}
    for op in history:
        if op.kind is not Kind.READ or op.value != UNSEEN:
            yield op
            continue
        held = values.setdefault(op.log, dict(queues.get(op.log, ())))
        if op.offset - 1 in held:
            yield replace(op, value=held[op.offset - 1])
        elif replicas and (not begins or op.offset > min(held, default=op.offset)):
            yield replace(op, value="")
