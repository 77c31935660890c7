"""When a simulated machine calls its replica next of its own accord, and the calls.

A machine here takes one step at a time, so entries that are left to apply are its next step.
"""

from __future__ import annotations

from dledger.replica.replica import Replica


def due_at(replica: Replica, now: float) -> float:
    """The machine's time at which `call` is due, in seconds; infinite: never."""
    if replica.pace.is_behind and replica.failure is None:
        return now
    return replica.deadline()


def call(replica: Replica, now: float) -> None:
    """Have the replica go on with its entries, and look at its deadlines."""
    if replica.pace.is_behind:
        replica.go_on(now)
    replica.timer(now)
