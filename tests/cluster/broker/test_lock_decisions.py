"""Decisions about orderly locks: they hold others off from when they are carried out on."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cluster.broker.consume.lock_decisions import LockDecision
from cluster.core.internal_topics import LocksChanged
from cluster.errors import InvalidRequest, QueueFull

from .test_steps import Call, Ports, carried_out


def test_a_lock_holds_others_off_from_its_decision_on_and_no_judgement_does() -> None:
    ports = Ports()
    leases, free = ports.locks.leases, ("T", 0)
    first, second = (leases.judge("CG", client, [free], 10.0) for client in "ab")
    assert first.change == {free: "a"}
    assert second.change == {free: "b"}
    call = carried_out(LockDecision("CG", first), ports)
    assert leases.judge("CG", "b", [free], 10.0) == ([], {})
    assert ports.writer.written == [LocksChanged("CG", {free: "a"})]
    ports.state.locks.replay("CG", {free: "a"})
    ports.writer.ended()
    assert call.said == ["ok"]


def test_a_lock_that_the_log_does_not_take_holds_no_other_off() -> None:
    ports = Ports()
    ports.writer.full = True
    free = ("T", 0)
    with pytest.raises(QueueFull):
        LockDecision("CG", ports.locks.leases.judge("CG", "a", [free], 10.0)).carry_out(
            cast(Any, ports), cast(Any, Call())
        )
    assert ports.locks.leases.judge("CG", "b", [free], 10.0).change == {free: "b"}


def test_a_lock_that_no_record_can_hold_holds_no_other_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ports, free = Ports(), ("T", 0)

    def write(*_: object) -> None:
        raise InvalidRequest("this change takes too many bytes")

    monkeypatch.setattr(ports.writer, "write", write)
    with pytest.raises(InvalidRequest):
        LockDecision("CG", ports.locks.leases.judge("CG", "a", [free], 10.0)).carry_out(
            cast(Any, ports), cast(Any, Call())
        )
    assert ports.locks.leases.judge("CG", "b", [free], 10.0).change == {free: "b"}


def test_a_renewed_lock_is_answered_at_once() -> None:
    ports = Ports()
    ports.state.locks.replay("CG", {("T", 0): "a"})
    held = ports.locks.leases.judge("CG", "a", [("T", 0)], 10.0)
    assert carried_out(LockDecision("CG", held), ports).said == ["ok"]
    assert ports.writer.written == []
