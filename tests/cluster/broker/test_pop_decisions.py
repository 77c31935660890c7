"""Decisions of pops: what was certainly not logged is taken back, all else is not given twice."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.broker.pop.decisions import PopTaken
from cluster.broker.pop.popping import Found
from cluster.core.pop.in_flight import InFlight
from cluster.core.pop.names import ORDER_QUEUE
from cluster.errors import QueueFull
from dledger.errors import OutcomeUnknown

from .test_steps import Call

PART: Any = SimpleNamespace(place="queue")
FOUND = Found([PART], 0, 0)


class Ports:
    def __init__(self, *, full: bool = False) -> None:
        self.full, self.did = full, list[object]()
        self.done: Callable[[Exception | None], None] = lambda _: None
        popping = SimpleNamespace(
            busy=InFlight[object](),
            rewind=lambda found: self.did.append("rewound"),
            settled=lambda found: self.did.append("settled"),
        )
        self.pop = SimpleNamespace(
            popping=popping,
            reviving=SimpleNamespace(arm=lambda: self.did.append("armed")),
            writer=SimpleNamespace(write=self.write),
        )

    def write(self, records: object, queue: int, done: Any) -> None:
        if self.full:
            raise QueueFull("full")
        self.done = done


def taken(ports: Any, queue: int = 1, *, answers: bool = True) -> Call:
    call: Any = Call()
    answer = (lambda call: call.answer()) if answers else None
    PopTaken(FOUND, [], queue, answer).carry_out(ports, call)
    made: Call = call
    return made


def test_a_pop_is_answered_when_its_checkpoints_are_applied() -> None:
    ports = Ports()
    call = taken(ports)
    assert (call.said, ports.did) == ([], [])
    ports.done(None)
    assert (call.said, ports.did) == (["ok"], ["settled", "armed"])


@pytest.mark.parametrize("answers", [True, False])
def test_a_pop_that_is_certainly_not_logged_is_taken_back(*, answers: bool) -> None:
    ports = Ports(full=True)
    call = taken(ports, answers=answers)
    assert ports.did == ["rewound"]
    assert len(call.said) == answers


def test_a_pop_whose_end_is_not_known_is_not_taken_back() -> None:
    ports, unknown = Ports(), OutcomeUnknown("x")
    call = taken(ports)
    ports.done(unknown)
    assert (ports.did, call.said) == (["settled"], [unknown])


def test_an_ordered_pop_shuts_its_queue_until_it_is_logged() -> None:
    ports = Ports()
    taken(ports, ORDER_QUEUE)
    assert "queue" in ports.pop.popping.busy
    ports.done(None)
    assert "queue" not in ports.pop.popping.busy
    taken(ports)
    assert "queue" not in ports.pop.popping.busy
