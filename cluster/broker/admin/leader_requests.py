"""A planned move of the leadership: 31011. Requests wait for the new leader; none is lost."""

from __future__ import annotations

from typing import Any

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.net.decisions import Answer, decided
from cluster.broker.kernel.net.offset_decisions import AllCommitted
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import ADMIN
from cluster.errors import InvalidRequest, PlannedMove
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.replica_headers import TransferLeaderRequest, TransferLeaderResponse
from dledger.core.types import NodeId
from dledger.errors import DledgerError

LOOK_SECONDS = 0.02  # until it is looked again who leads after a move


def transfer_leader(ports: AdminPorts, request: TransferLeaderRequest) -> Answer | AllCommitted:
    """31011: answered when another node leads, or with why none can."""
    own = ports.config.node_id  # it leads: requests of this kind come to the leader
    target = _node(ports.config, ports.advertised, request.node or "")
    if target == own or (target is None and request.leader not in {None, own}):
        answer = TransferLeaderResponse(own, ports.leader_address())
        return Answer(lambda call: call.answer(0, encode(answer)))

    def move(call: Call) -> None:
        def moved(error: DledgerError | None) -> None:
            if error is None:
                call.later(0, lambda: _tell(ports, call))
            else:
                call.refuse(PlannedMove(f"the lead stays where it is: {error}"))

        ports.log.transfer(target, moved)

    return AllCommitted(move)


def _tell(ports: AdminPorts, call: Call) -> None:
    leadership = ports.leadership
    if leadership.leader is None:
        call.later(LOOK_SECONDS, lambda: _tell(ports, call))
        return
    if leadership.leader == ports.config.node_id:
        call.refuse(PlannedMove("the appointed node lost its election and the lead came back"))
        return
    answer = TransferLeaderResponse(str(leadership.leader), ports.leader_address())
    call.answer(0, encode(answer))


def _node(config: BrokerConfig, own: str, name: str) -> NodeId | None:
    """The member of that id or client address; None for "". Raises InvalidRequest."""
    if not name:
        return None
    for node in (config.node_id, *config.peers):
        known = (node, config.peers.get(node), config.peers_advertised.get(node))
        if name in known or (node == config.node_id and name == own):
            return NodeId(node)
    members = ", ".join(sorted([config.node_id, *config.peers]))
    raise InvalidRequest(f"{name[:80]} is no node of {config.broker_name}; name one of {members}")


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.TRANSFER_LEADER: Handler(
        Who.LEADER, fields(TransferLeaderRequest), ADMIN, decided(transfer_leader)
    )
}
