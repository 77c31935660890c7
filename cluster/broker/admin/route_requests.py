"""Routes from a node itself (105, 106, 206), for a cluster that has no name server.

A node without name servers in its settings answers for its own broker name, so `-a NODE` is enough
for every command. A node with name servers does not have these routes: the router refuses and names
the name servers, since they know all broker names.
"""

from __future__ import annotations

from typing import Any

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.events.leadership import Serving
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields, nothing
from cluster.broker.registration import Registered
from cluster.core.access.needs import ACCOUNT
from cluster.core.internal_topics import OWN_TOPICS
from cluster.core.topics import DEFAULT_TOPIC
from cluster.errors import ServerError, TopicNotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import RouteRequest
from cluster.protocol.route import (
    LEADER_ID,
    BrokerData,
    QueueData,
    TopicRoute,
    encode_cluster_info,
    encode_route,
)
from cluster.protocol.topics import TopicConfig, encode_topic_list


def registered(ports: AdminPorts) -> Registered | None:
    """The registration that name servers get now; None while no leader is known."""
    leadership, config = ports.leadership, ports.live.now
    if leadership.serving is Serving.WAITING:
        return None
    topics = [
        TopicConfig(
            row.name,
            row.read_queues,
            row.write_queues,
            row.perm,
            row.filter_type,
            row.sys_flag,
            row.order,
        )
        for row in ports.state.topics
        if row.name not in OWN_TOPICS and (row.name != DEFAULT_TOPIC or config.auto_create_topics)
    ]
    broker_id = LEADER_ID if leadership.leads else _place(ports, config.node_id)
    return Registered(broker_id, leadership.term, ports.leader_address(), topics)


def topic_route(ports: AdminPorts, call: Call, request: RouteRequest) -> None:
    """105: the route of one topic. Raises TopicNotFound."""
    found = _own(ports, call)
    for topic in found.topics:
        if topic.topic == request.topic:
            break
    else:
        raise TopicNotFound(f"no topic {request.topic[:127]} is in this cluster; create it first")
    name = ports.config.broker_name
    queues = QueueData(
        name, topic.read_queue_count, topic.write_queue_count, topic.perm, topic.topic_sys_flag
    )
    route = TopicRoute((_broker(ports, found),), (queues,))
    version = call.frame.version
    call.answer(body=encode_route(route, version, standard=request.accept_standard_json_only))


def cluster_info(ports: AdminPorts, call: Call, _: None) -> None:
    """106: this broker name and its nodes."""
    broker = _broker(ports, _own(ports, call))
    call.answer(body=encode_cluster_info([broker], call.frame.version))


def topic_names(ports: AdminPorts, call: Call, _: None) -> None:
    """206: the names of all topics."""
    call.answer(body=encode_topic_list([topic.topic for topic in _own(ports, call).topics]))


def _own(ports: AdminPorts, call: Call) -> Registered:
    """This broker name's registration.

    Raises:
        ServerError: no leader is known now.
    """
    found = registered(ports)
    if found is None:
        name = ports.config.broker_name
        raise ServerError(f"no node of {name} leads now; try again shortly")
    return found


def _broker(ports: AdminPorts, found: Registered) -> BrokerData:
    """The nodes of this broker name under the ids with which they would register."""
    config, leader = ports.config, ports.leadership.leader
    nodes = {config.node_id: ports.advertised, **config.peers}
    nodes |= {name: at for name, at in config.peers_advertised.items() if name in nodes}
    addresses = {
        LEADER_ID if node == leader else _place(ports, node): address
        for node, address in nodes.items()
    }
    return BrokerData(config.broker_name, config.cluster_name, addresses, term=found.term)


def _place(ports: AdminPorts, node: str) -> int:
    """The broker id of a follower: its place in the group, counted from 1."""
    return sorted([ports.config.node_id, *ports.config.peers]).index(node) + 1


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Handler(
        Who.ANYWHERE, fields(RouteRequest), ACCOUNT, topic_route
    ),
    RequestCode.GET_BROKER_CLUSTER_INFO: Handler(Who.ANYWHERE, nothing, ACCOUNT, cluster_info),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Handler(
        Who.ANYWHERE, nothing, ACCOUNT, topic_names
    ),
}
