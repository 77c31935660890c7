"""What belongs to a leadership ends with it: no part of a broker is forgotten, none keeps anything.

Parts and their fields are found by looking (parts_found.py). Each one that can change is in the
list that ends with a leadership (or held by such ones alone), or stands here with the reason why
what it holds goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.broker.kernel.events.leadership_parts import LeadershipParts

from .busy import WAIT_MS, Busy
from .by_hand import HandBroker
from .parts_found import covered, is_stateful, snapshot, walk

LOG = "a function of the log"
CLIENTS = "clients and their connections stay"
NODE = "the node's own, whoever leads"
ENDED = "dead with its epoch: `SendPath.invalidate`, `Cursors.drop`"

#: Class → why what it holds outlives a leadership.
OUTLIVES = {
    "AppliedState": LOG,
    "AccountTable": LOG,
    "AuditTrail": "counts refusals of this node",
    "LeadHistory": "leaders of this node's group, whoever leads",
    "RestoreNote": "waits until the log has the entry, whoever leads",
    "InFront": "set while one step of a request runs",
    "Rate": "of `AuditTrail`: refusals of this node",
    "Access": "accounts of this node's file and of the log, whoever leads",
    "Quotas": "what accounts used of their allowance at this node, whoever leads",
    "LiveSettings": LOG,
    "SettingsTable": LOG,
    "SignatureWindow": "signatures that this node has seen, whoever leads",
    "SealTime": "this node's clock",
    "DelayedTable": f"{LOG}; what was taken is put back by `Delivery`",
    "ChunkSize": "how quick this machine derives",
    "QueuesAhead": "of this node's disk, whoever leads",
    "DerivedSpace": "of this node's disk, whoever leads",
    "DiskSpace": "of this node's disk, whoever leads",
    "DerivedStore": LOG,
    "FeatureLevel": LOG,
    "GroupTable": LOG,
    "HalfTable": f"{LOG}; what was taken is put back by `CheckBacks`",
    "Held": LOG,
    "HeldTable": f"{LOG}; what was taken is due again when a leadership begins (`Reviving.begin`)",
    "LockTable": LOG,
    "OffsetTable": LOG,
    "OrderTable": LOG,
    "DeferredFolds": LOG,
    "PopFold": LOG,
    "RequestModeTable": LOG,
    "StoreClock": "stamps never go back, whoever leads (R24)",
    "TopicTable": LOG,
    "ClientCalls": CLIENTS,
    "ClientConnection": CLIENTS,
    "ClientRegistry": CLIENTS,
    "ClientServer": CLIENTS,
    "GroupWatch": CLIENTS,
    "ConsumerGroup": CLIENTS,
    "Debt": CLIENTS,
    "FairQueue": CLIENTS,
    "Neighbours": CLIENTS,
    "PartialFrames": CLIENTS,
    "group_watch._Group": CLIENTS,
    "Member": CLIENTS,
    "Notices": CLIENTS,
    "Deadlines": "of `Notices`, whose clients stay; the others are in the list with their parts",
    "NotifiedGroups": NODE,
    "RequestDecoder": CLIENTS,
    "SendReader": CLIENTS,
    "Cursor": ENDED,
    "SendTarget": ENDED,
    "ForwardLinks": "what was passed on to another node is answered by it, or asked again",
    "Router": "connections that are to be told of a stop",
    "Leadership": "who leads, and requests that wait until somebody does",
    "Reactions": "who was told to lead last",
    "Popping": "whose turn it is; cursors and busy queues are in the list",
    "PopService": "whose turn it is",
    "PullPath": "connects parts",
    "AccessControl": "its parts are looked at one by one",
    "Admin": "its parts are looked at one by one",
    "Clients": "its parts are looked at one by one",
    "Consume": "its parts are looked at one by one",
    "Pop": "its parts are looked at one by one",
    "QueueReader": "counts",
    "Reviving": "counts; a timer that looks who leads",
    "Subscriptions": "expressions that were parsed",
    "TopicRoutes": "answers about topics, made again when one changes",
    "AccountsKnown": "that all was applied once since the start",
    "CertificateEnds": NODE,
    "Exports": NODE,
    "Housekeeping": NODE,
    "LeadershipParts": "the list itself",
    "DailyTotals": NODE,
    "LivingFollowers": NODE,
    "RegularLook": NODE,
    "Registrar": NODE,
    "ReplicaLog": NODE,
    "Statistics": NODE,
    "statistics._Item": NODE,
    "statistics._Window": NODE,
    "VerifiedPieces": f"{LOG}, of what is applied",
}
#: Class → fields that only count, or that tell one leadership's things from the next one's.
COUNTS = {
    "Appender": {"_leaderships", "batches", "records"},
    "CheckBacks": {"_turn", "asked"},
    "Deadlines": {"_number"},
    "Delivery": {"delivered", "discarded"},
    "InFlight": {"_epoch"},
    "LockLeases": {"_begun_at"},
    "OffsetKeeper": {"_leadership"},
    "Outcomes": {"counts"},
    "Rate": {"_at", "_tokens"},
    "RepeatsWaiting": {"_number"},
    "SendContext": {"_turn", "bytes", "messages", "refused", "waited"},
    "SendPath": {"epoch"},
}


def kind(part: object) -> str:
    """Name of its class; of a private one with the module's."""
    name, module = type(part).__name__, type(part).__module__
    return f"{module.rpartition('.')[2]}.{name}" if name.startswith("_") else name


class Found:
    """The parts of a broker that end with a leadership, each with what only such ones hold."""

    def __init__(self, broker: HandBroker) -> None:
        owned = list(broker.parts.leadership_parts)
        self.parts, self.holders = walk(broker.parts)
        self.owned = owned
        self.covered = covered(self.parts, self.holders, lambda part: any(part is o for o in owned))

    def of(self, part: object) -> list[object]:
        """`part` and covered parts that it holds, however deep."""
        found, held = [part], {id(part)}
        while more := [
            other
            for other in self.parts
            if id(other) in self.covered - held and self.holders[id(other)] & held
        ]:
            found += more
            held.update(map(id, more))
        return found


def state(parts: list[object]) -> dict[str, Any]:
    """Every field of every part, those that only count apart."""
    return {
        f"{kind(part)} {number} {name}": value
        for number, part in enumerate(parts)
        for name, value in snapshot(part).items()
        if name not in COUNTS.get(kind(part), ())
    }


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    broker = HandBroker(tmp_path)
    yield broker
    broker.close()


def test_a_part_that_can_change_is_in_the_list_or_has_a_reason(broker: HandBroker) -> None:
    broker.lead()
    busy = Busy(broker)
    busy.prepare()
    found = Found(broker)
    forgotten = {
        kind(part) for part in found.parts if is_stateful(part) and id(part) not in found.covered
    } - OUTLIVES.keys()
    assert not forgotten, "add it where it is made (leadership_parts.py), or say why it goes on"
    there = {kind(part) for part in found.parts}
    both = {kind(part) for part in found.owned} & OUTLIVES.keys()
    assert not both, "in the list and said to outlive it"
    gone = (OUTLIVES.keys() | COUNTS.keys()) - there
    assert not gone, "no part of a broker any more"


def test_a_leadership_that_ends_leaves_nothing_behind(broker: HandBroker) -> None:
    """Whatever it had on its way: everything in the list is as after the leadership before."""
    broker.lead()
    busy = Busy(broker)
    busy.prepare()
    broker.lose_all()
    found = Found(broker)
    parts = [part for part in found.parts if id(part) in found.covered]
    before = state(parts)
    quiet = {id(part): state(found.of(part)) for part in found.owned}
    broker.lead()
    asked = busy.begin()
    idle = [kind(part) for part in found.owned if state(found.of(part)) == quiet[id(part)]]
    assert not idle, "these had nothing on their way: let Busy.begin ask for something"
    epoch = broker.parts.sends.epoch
    broker.lose_all()
    assert broker.parts.sends.epoch > epoch, "rows that clients' targets hold are dead"
    broker.turn(2 * WAIT_MS / 1000)  # timers that were set go by, and find nothing
    left = {name: value for name, value in state(parts).items() if before[name] != value}
    assert not left
    waiting = [one for one in asked if one.answer is None]
    assert len(waiting) == 3, "a pull, a pop and an outcome, which the next leader is asked"
    assert {frame.code for _, frame in broker.forwarded} >= {11, 37, 200050}


def test_what_a_leadership_had_taken_is_there_for_the_next_one(broker: HandBroker) -> None:
    """Rows that a leader takes from tables of the log are put back when it ends, told or not."""
    broker.lead()
    busy = Busy(broker)
    busy.prepare()
    broker.turn(12.0)
    state, late_ms = broker.parts.state, broker.now_ms() + 3_600_000
    assert not state.delayed.take_due(late_ms, 9)
    assert not state.halves.take_due(late_ms, 9)
    for batch in broker.parts.appender._in_flight.values():
        batch.units.clear()
    broker.step_down()
    assert state.delayed.take_due(late_ms, 9) == list(state.delayed._waiting)
    assert state.halves.take_due(late_ms, 9) == list(state.halves._waiting)


def test_a_part_that_fails_to_forget_keeps_no_other_from_it() -> None:
    owned, told = LeadershipParts(), list[str]()

    def fail(_: str) -> None:
        raise ValueError("the first")

    assert owned.add("a", told.append) == "a"
    owned.add("b", fail)
    owned.add("c", told.append)
    with pytest.raises(ValueError, match="the first"):
        owned.leadership_ended()
    assert told == ["a", "c"]
    assert list(owned) == ["a", "b", "c"]
