"""Every failure answers two questions: may I retry, and is it certain that it did not happen.

DledgerError                        retriable  outcome
├─ NotDone           certainly not happened
│  ├─ NotLeader                     yes        NOT_DONE    (leader: where to go, or None)
│  ├─ QueueFull                     yes        NOT_DONE    back-pressure
│  │  └─ MachineBehind              yes        NOT_DONE    by the leader's state machine
│  ├─ Transferring                  yes        NOT_DONE
│  ├─ MembershipRefused             by reason  NOT_DONE    this change of the group, now
│  ├─ SequenceGap                   yes        NOT_DONE    an earlier number is missing
│  ├─ EntryTooLarge                 no         NOT_DONE
│  ├─ CommandRefused                no         NOT_DONE    by the user's state machine
│  ├─ Compacted                     no         NOT_DONE    history is kept from a later revision on
│  ├─ NoMachine                     no         NOT_DONE    the leader runs no state machine
│  └─ LogUsageError                 no         NOT_DONE
├─ SnapshotFailed                   yes        NOT_DONE    a state was not written
├─ ResultNotKept                    no         DONE        applied; its result was too large
├─ OutcomeUnknown                   yes        UNKNOWN     may have happened, may still happen
│  └─ ProposalTimedOut              yes        UNKNOWN     `propose_again` applies it once in all
└─ NodeFailed                       no         NOT_DONE    this replica stopped: disk or damage
   ├─ LogDamaged
   ├─ LaterVersion                  a later release wrote one of the folder's files
   ├─ HardStateLost                 neither slot is valid although the log is not empty (D2)
   ├─ NotFormatted                  no node was ever formatted here (R6)
   ├─ StateMachineFailed            the user's state machine raised; `index` says at which entry
   ├─ StateMachineDiverged          its results or state differ from a majority's, from `index` on
   └─ WrongIdentity                 cluster id, group or node id differ from the folder's
Every text says what happened and one thing to try (`commitlog/advice.py`).

RangeRejected                       internal: bytes of a peer that are no valid continuation
MalformedFrame                      internal: a peer sent what is no frame; its connection ends
PeerRefused                         internal: a hello was not accepted, with the reason
"""

from __future__ import annotations

import enum

from commitlog.advice import Advised


class Outcome(enum.Enum):
    """Is it certain that it did not happen? DONE: it is certain that it did."""

    NOT_DONE = "not done"
    UNKNOWN = "unknown"
    DONE = "done"


class DledgerError(Advised):
    """Base of every error of this package."""

    retriable = False
    outcome = Outcome.NOT_DONE


class NotDone(DledgerError):
    """Certain: no entry was or will be appended."""

    advice = "try again"


class NotLeader(NotDone):
    """This replica does not lead; `leader`: the one that does, or None while none does."""

    retriable = True

    def __init__(self, leader: str | None) -> None:
        self.leader = leader
        super().__init__(
            f"this replica does not lead the group; ask {leader}"
            if leader
            else "the group has no leader at the moment; try again shortly"
        )


class MembershipRefused(NotDone):
    """This change of the group is not made; the sentence says why, `retriable` whether to wait."""

    advice = "look at the members (dledger member list), then try again"

    def __init__(self, sentence: str, *, retriable: bool) -> None:
        self.retriable = retriable
        super().__init__(sentence)


class QueueFull(NotDone):
    """More is waiting than the limit allows; try again after a pause."""

    advice = "pause and try again"
    retriable = True


class MachineBehind(QueueFull):
    """The leader's machine has too many committed entries to apply yet; try again after a pause.

    At another node than the leader the error is a plain QueueFull.
    """

    advice = "pause and try again, or keep apply short"


class DiskFull(NotDone):
    """The leader's disk is full, and so are the others; `detail` names the space to free."""

    advice = "free space on that disk, and it goes on by itself"
    retriable = True

    def __init__(self, detail: str) -> None:
        super().__init__(f"the leader takes no more entries: {detail}")


class Transferring(NotDone):
    """Leadership is being handed over; try again at the new leader."""

    advice = "try again shortly"
    retriable = True


class SequenceGap(NotDone):
    """A producer's sequence number came before the one that must precede it (R8)."""

    retriable = True

    def __init__(self, producer: str, expected: int, got: int) -> None:
        self.producer, self.expected, self.got = producer, expected, got
        super().__init__(
            f"producer {producer} sent number {got} and {expected} comes next; "
            "send the missing ones first"
        )


class EntryTooLarge(NotDone):
    """An entry does not fit the log's files or the limit."""

    advice = "send less"


class CommandRefused(NotDone):
    """A state machine's refusal of a command, which leaves the state alone, on every node.

    A machine raises it in `apply` with a sentence of its own.
    """

    advice = "send another command"


class Compacted(NotDone):
    """Changes behind revision `after` are asked for, and those up to `compacted` are gone."""

    advice = "read the keys as they are now, and watch from there"

    def __init__(self, after: int, compacted: int) -> None:
        self.after, self.compacted = after, compacted
        super().__init__(
            f"changes behind revision {after} are asked for and those up to {compacted} are gone"
        )


class NoMachine(NotDone):
    """The node that leads runs no state machine, so no command was taken; `leader` is its name."""

    advice = "start a ReplicatedNode there, with the same machine as here"

    def __init__(self, leader: str) -> None:
        self.leader = leader
        super().__init__(f"{leader} leads the group and runs no state machine")


class LogUsageError(NotDone):
    """The call can never succeed as it was made."""

    advice = "correct the call, nothing was appended"


class OutcomeUnknown(DledgerError):
    """The write may have happened and may still happen: leadership was lost, or time ran out."""

    advice = "look whether it is there, or repeat it under the same number"
    retriable = True
    outcome = Outcome.UNKNOWN


class ProposalTimedOut(OutcomeUnknown):
    """A proposed command was sent, and not applied on this node in time; it may be, later.

    `late`: what `ReplicatedNode.propose_again` knows it by, on the node that raised it.
    """

    advice = "give it to propose_again, which applies the command once in all"

    def __init__(self, late: object) -> None:
        super().__init__("a command was sent to the leader and not applied here in time")
        self.late = late


class ResultNotKept(DledgerError):
    """The command was applied, once; its result was too large, or dropped to make space."""

    advice = "read the state, and have apply return less"
    outcome = Outcome.DONE


class SnapshotFailed(DledgerError):
    """A machine's state could not be written; the log keeps its entries, and the node goes on."""

    advice = "free space, or correct the machine's snapshot(); the next file of the log tries again"
    retriable = True


class NodeFailed(DledgerError):
    """This replica stopped voting, acknowledging and leading; the reason names the fault."""

    advice = "look into this node's log, fix what it names and start the node again"


class LogDamaged(NodeFailed):
    """Damage at or below the flush mark: this is not the end of the log (D8, R1)."""

    advice = "keep every file as it is and rebuild this replica from its peers or a backup"


class LaterVersion(NodeFailed):
    """A later release wrote this file, in a form that this release does not know."""

    advice = "run the release that wrote it, or a later one, on this folder"


class HardStateLost(NodeFailed):
    """No valid hard state beside a non-empty log: starting could vote twice in a term (D2)."""

    advice = "do not start it, replace it as a new node"


class NotFormatted(NodeFailed):
    """The folder was never formatted for a node; formatting is explicit (R6)."""

    advice = "format the folder once, when the node is new, or name the right one"


class WrongIdentity(NodeFailed):
    """The folder belongs to another cluster, group or node."""

    advice = "point the node to its own folder"


class StateMachineFailed(NodeFailed):
    """`apply` raised, or its result has no bytes, at entry `index`; the cause is attached."""

    advice = "correct the machine's code, then start the node again: it meets the same entry"

    def __init__(self, index: int, detail: str) -> None:
        self.index = index
        super().__init__(f"the state machine failed at entry {index}: {detail}")


class StateMachineDiverged(NodeFailed):
    """At entry `index` this node's machine returned something else than those of a majority, or
    its state behind that entry is another one.
    """

    advice = (
        "look there for a clock, chance or a set's order in apply, correct it and rebuild this node"
    )

    def __init__(self, index: int, detail: str, what: str = "") -> None:
        self.index = index
        differs = f"{what} differs behind" if what else "results differ at"
        super().__init__(f"{differs} entry {index}: {detail}")


class MalformedFrame(Exception):
    """A peer's bytes are no frame of this protocol; only that connection is closed."""


class RangeRejected(MalformedFrame):
    """A peer's bytes are not a valid continuation of this log, which is unchanged."""


class PeerRefused(Exception):
    """One side of a new connection does not want the other; `reason` is its number on the wire."""

    def __init__(self, reason: int, sentence: str) -> None:
        self.reason = reason
        super().__init__(sentence)
