"""Members of the group: 31012 lists them, 31013 changes them by one, dry or in earnest.

    {"broker": "broker-a", "leader": "n0", "term": 3, "entry": 41, "committed": true,
     "members":  [{"node": "n0", "standing": "voter", "incarnation": 0, "address": "…",
                   "service": "…", "behind": 0, "silent_seconds": 0.0}],
     "visitors": [{"node": "n3", "incarnation": 77, "address": "…"}],
     "shared": {…: what a node that comes in must be set to, see shared_settings.py},
     "majority": 2, "may_fail": 1, "may_fail_now": 0, "uncounted": {"n2": "does not answer"}}

`may_fail_now`: more than those that are `uncounted` already; below 0, so many are missing.
`visitors` have called the leader and are no members, or come back in another life. A change answers
with the same object as it is (or, dry, as it would be) afterwards.
"""

from __future__ import annotations

from typing import Any

import orjson

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.admin.shared_settings import shared_settings
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import ADMIN
from cluster.errors import ClusterError, InvalidRequest, PlannedMove
from cluster.protocol.codes import RequestCode
from cluster.protocol.replica_headers import ChangeMembersRequest, ListMembersRequest
from dledger.core.configuration import ChangeKind, Configuration, changed
from dledger.core.types import NodeId, Reason
from dledger.errors import DledgerError, MembershipRefused, Outcome
from dledger.membership.roster import peer_address, service_of
from dledger.replica.refusals import change_refusal
from dledger.runtime.driver import Driver

_KINDS = {
    kind.value: kind
    for kind in (ChangeKind.ADD, ChangeKind.ADD_LEARNER, ChangeKind.REMOVE, ChangeKind.READMIT)
}


def list_members(ports: AdminPorts, call: Call, request: ListMembersRequest) -> None:
    """31012."""
    driver = ports.log.driver
    call.answer(0, body=orjson.dumps(_picture(ports, driver, driver.members)))


def change_members(ports: AdminPorts, call: Call, request: ChangeMembersRequest) -> None:
    """31013: answered when the change is committed; a new voter catches up afterwards."""
    driver = ports.log.driver
    kind = _KINDS.get(request.kind)
    if kind is None:
        raise InvalidRequest(f"a change is one of {', '.join(_KINDS)}, not {request.kind[:40]}")
    node = NodeId(request.node)
    if request.dry_run:
        _show(ports, call, driver, kind, node)
    else:
        call.begun_anyway(lambda: _change(ports, call, driver, kind, node))


def _show(ports: AdminPorts, call: Call, driver: Driver, kind: ChangeKind, node: NodeId) -> None:
    """The group as it would be. Raises ClusterError."""
    try:
        after = changed(driver.members, driver.change_of(kind, node), driver.incarnations)
        if isinstance(after, Reason):
            raise change_refusal(after, None, None)
    except MembershipRefused as refused:
        raise _refusal(refused) from refused
    call.answer(0, body=orjson.dumps(_picture(ports, driver, after)))


def _change(ports: AdminPorts, call: Call, driver: Driver, kind: ChangeKind, node: NodeId) -> None:
    """Raises ClusterError."""
    try:
        driver.change(kind, node, lambda error: _done(ports, call, driver, error))
    except MembershipRefused as refused:
        raise _refusal(refused) from refused


def _done(ports: AdminPorts, call: Call, driver: Driver, error: DledgerError | None) -> None:
    if error is None:
        call.answer(0, body=orjson.dumps(_picture(ports, driver, driver.members)))
    elif isinstance(error, MembershipRefused):
        call.refuse(_refusal(error))
    else:
        call.refuse(ports.to_error(error))


def _refusal(refused: MembershipRefused) -> ClusterError:
    """As a client knows it: try again soon, or never like this."""
    assert refused.outcome is Outcome.NOT_DONE
    return PlannedMove(str(refused)) if refused.retriable else InvalidRequest(str(refused))


def _picture(ports: AdminPorts, driver: Driver, group: Configuration) -> dict[str, Any]:
    status = driver.replica.status()
    followers = {peer.node_id: peer for peer in status.peers}
    now = driver.now()
    rows = []
    for member in group.members:
        follower = followers.get(member.node_id)
        address = peer_address(member.address)
        rows.append(
            {
                "node": member.node_id,
                "standing": member.standing.value,
                "incarnation": member.incarnation,
                "address": f"{address[0]}:{address[1]}" if address else "",
                "service": service_of(member.address) or ports.config.peers.get(member.node_id, ""),
                "behind": None if follower is None else status.last.index - follower.flushed,
                "silent_seconds": None if follower is None else round(now - follower.heard_at, 3),
            }
        )
    margin = driver.replica.node.margin(None if group is driver.members else group)
    assert margin is not None, "only a leader is asked"
    for row in rows:
        if row["node"] == ports.config.node_id:
            row["service"] = ports.advertised
    return {
        "broker": ports.config.broker_name,
        "leader": status.leader,
        "term": status.term,
        "entry": status.configuration_index,
        "committed": status.configuration_index <= status.commit,
        "members": rows,
        "visitors": [
            {"node": name, "incarnation": visitor.incarnation, "address": visitor.address}
            for name, visitor in driver.roster.unknown_visitors()
        ],
        "shared": shared_settings(driver.config, ports.config, driver.transport.cluster_id),
        **margin._asdict(),
    }


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.LIST_MEMBERS: Handler(Who.LEADER, fields(ListMembersRequest), ADMIN, list_members),
    RequestCode.CHANGE_MEMBERS: Handler(
        Who.LEADER, fields(ChangeMembersRequest), ADMIN, change_members
    ),
}
