"""Outcomes of half messages are decided by the table, and logged by the step, without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.broker.kernel.net.decisions import Decision, WhenShown
from cluster.broker.transactions.decisions import Ended
from cluster.broker.transactions.end_requests import end_transaction
from cluster.core.transactions.halves import Outcome
from cluster.errors import QueueFull, ServerError
from cluster.protocol.headers import EndTransactionRequest
from dledger.core.types import Index
from dledger.errors import NotLeader

from .test_steps import Call

READ: Any = SimpleNamespace(needs="rights", group="PG")


class Ports:
    """A half at 64, another one that was committed at 32."""

    def __init__(self) -> None:
        self.ended: list[object] = []
        self.log = SimpleNamespace(applied=Index(9))
        self.held: list[object] = []
        self.leadership = SimpleNamespace(
            leads=True, hold=lambda again, size: self.held.append(again) or True
        )
        self.now_ms = lambda: 0
        table = SimpleNamespace(
            get={64: SimpleNamespace(offset=3)}.get,
            recent={32: Outcome.COMMITTED}.get,
            rule=SimpleNamespace(is_too_late=lambda half, now_ms: False),
        )
        self.transactions = SimpleNamespace(
            table=table, read=lambda position: READ, end=lambda *of: self.ended.append(of)
        )


def decided(position: int, flag: int = 8, group: str = "PG") -> Any:
    required: list[object] = []
    call: Any = SimpleNamespace(require=required.append)
    ports: Any = Ports()
    request = EndTransactionRequest(
        producer_group=group,
        tran_state_table_offset=3,
        commit_log_offset=position,
        commit_or_rollback=flag,
        msg_id="",
    )
    step = end_transaction(ports, call, request)
    assert isinstance(step, WhenShown)
    assert step.last == 9
    try:
        return step.then()
    finally:
        assert ports.ended == []
        assert required == (["rights"] if position == 64 else [])


def test_an_outcome_is_decided_when_the_half_was_found_and_its_rights_are_there() -> None:
    assert decided(64) == Ended(READ, Outcome.COMMITTED)
    assert decided(64, 12) == Ended(READ, Outcome.ROLLED_BACK)
    assert decided(32) == Decision()
    for position, flag, group in ((32, 12, "PG"), (16, 8, "PG"), (64, 8, "other")):
        with pytest.raises(ServerError):
            decided(position, flag, group)


def test_the_next_leader_answers_what_this_one_lost() -> None:
    ports: Any = Ports()
    call: Any = Call()
    call.client, call.frame = SimpleNamespace(closed=False), SimpleNamespace(body=b"")
    Ended(READ, Outcome.COMMITTED).carry_out(ports, call)
    ((half, outcome, done),) = ports.ended
    assert (half, outcome) == (READ, Outcome.COMMITTED)
    done(NotLeader(None))
    assert (len(ports.held), call.said) == (1, [])
    error = QueueFull("x")
    done(error)
    done(None)
    assert call.said == [error, "ok"]
