"""A producer tells the outcome of its half message (37); an administrator revives one (323).

Codes of 37: 0 it is so, also when it was so before; 1 with RocketMQ's sentences for a wrong group,
offset or address, or when another outcome came first; 604 when a producer that set its own quiet
time speaks after it without having been asked; 29 for what is neither. Stock clients send 37
oneway; what gets lost on the way is asked for later (check_back.py).
"""

from __future__ import annotations

from typing import Any, Final

from cluster.broker.kernel.net.decisions import Decision, Step, WhenShown, decided, decided_for
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.broker.transactions.decisions import Ended
from cluster.broker.transactions.outcomes import ReadHalf, other_outcome
from cluster.broker.transactions.ports import TransactionPorts
from cluster.core.access.needs import ADMIN, Needs, as_producer, to_publish
from cluster.core.internal_topics import HalvesChecked
from cluster.core.transactions.halves import Outcome
from cluster.errors import IllegalOperation, InvalidRequest, NotFound, ServerError
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import EndTransactionRequest, ResumeCheckRequest
from cluster.protocol.offset_id import decode_offset_id
from commitlog.records.names import CHECK_MAX_TIME_TOPIC

_UNKNOWN: Final = 0
_OUTCOMES: Final = {8: Outcome.COMMITTED, 12: Outcome.ROLLED_BACK}


def end_transaction(
    ports: TransactionPorts, call: Call, request: EndTransactionRequest
) -> Step[TransactionPorts]:
    """37. The half is in the log, and so in the table once that has caught up with the log."""
    if request.commit_or_rollback == _UNKNOWN:
        return Decision()  # it does not know yet, and is asked later
    outcome = _OUTCOMES.get(request.commit_or_rollback)
    if outcome is None:
        raise InvalidRequest(
            f"commitOrRollback is {request.commit_or_rollback}; send 8 to commit, 12 to roll back "
            "or 0 while it is not known"
        )
    return WhenShown(ports.log.applied, lambda: _end(ports, call, request, outcome))


def _end(
    ports: TransactionPorts, call: Call, request: EndTransactionRequest, outcome: Outcome
) -> Ended | Decision:
    position = request.commit_log_offset
    table = ports.transactions.table
    half = table.get(position)
    if half is None:
        before = table.recent(position)
        if before is outcome:
            return Decision()
        if before is not None:
            raise other_outcome(before)
        raise ServerError(
            f"Find prepared transaction message failed: none waits at {position}; look for its "
            "outcome, it may have one already"
        )
    if half.offset != request.tran_state_table_offset:
        raise ServerError(
            "The transaction state table offset wrong; send what the receipt of the half says"
        )
    read = ports.transactions.read(position)
    call.require(read.needs)
    if read.group != request.producer_group:
        raise ServerError("The producer group wrong; send the one that began the transaction")
    if not request.from_transaction_check and table.rule.is_too_late(half, ports.now_ms()):
        raise IllegalOperation(
            "the quiet time that the producer set for itself is over; wait until the broker asks "
            "for its outcome"
        )
    return Ended(read, outcome)


def resume_check(
    ports: TransactionPorts, request: ResumeCheckRequest
) -> WhenShown[TransactionPorts]:
    """323: a half that was given up becomes a half again; one that waits is asked for anew."""
    position = decode_offset_id(request.msg_id)[2]
    return WhenShown(ports.log.applied, lambda: _resume(ports, position))


def _resume(ports: TransactionPorts, position: int) -> Ended | Decision:
    transactions = ports.transactions
    if transactions.table.get(position) is not None:
        return Decision((HalvesChecked({position: 0}),))
    try:
        read: ReadHalf = transactions.read(position)
    except NotFound as error:
        raise ServerError(str(error)) from None
    if read.message.topic != CHECK_MAX_TIME_TOPIC:
        raise ServerError(
            f"the message at {position} is in {read.message.topic}; "
            f"resume only what was given up, in {CHECK_MAX_TIME_TOPIC}"
        )
    if transactions.table.recent(position) is Outcome.RESUMED:
        return Decision()
    return Ended(read, Outcome.RESUMED)


def _needs(request: EndTransactionRequest) -> Needs:
    """The rights of producer group and named topic; the half's own are checked once it is found."""
    needs = as_producer(request.producer_group)
    return needs | to_publish(request.topic) if request.topic else needs


ROUTES: dict[int, Handler[TransactionPorts, Any]] = {
    RequestCode.END_TRANSACTION: Handler(
        Who.LEADER, fields(EndTransactionRequest), _needs, decided_for(end_transaction)
    ),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: Handler(
        Who.LEADER, fields(ResumeCheckRequest), ADMIN, decided(resume_check)
    ),
}
