"""31016: an account takes over a producer id, which it must be allowed to by name (owners.py).

A job goes on under another account with the numbers that it had (`pipeline/sink`). The former owner
is refused from here on; messages that it sent before are stored before. An unknown id need not be
taken over: the first account that stores a message under it owns it.
"""

from __future__ import annotations

from typing import Any

from cluster.broker.kernel.net.decisions import decided_for
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.broker.produce.decisions import TakenOver
from cluster.broker.produce.ports import ProducePorts
from cluster.core.access.needs import Needs, to_take_over
from cluster.protocol.codes import RequestCode
from cluster.protocol.producer_headers import TakeOverProducerRequest


def take_over(_: ProducePorts, call: Call, request: TakeOverProducerRequest) -> TakenOver:
    """31016: answered when the log has it."""
    return TakenOver(request.producer_id, call.caller.key)


def _needs(request: TakeOverProducerRequest) -> Needs:
    return to_take_over(request.producer_id)


ROUTES: dict[int, Handler[ProducePorts, Any]] = {
    RequestCode.TAKE_OVER_PRODUCER: Handler(
        Who.LEADER, fields(TakeOverProducerRequest), _needs, decided_for(take_over)
    )
}
