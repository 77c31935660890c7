"""Clients announce themselves (34, 35) and hear of changes in their group (40).

Source: docs/spec/remoting.md 2.4.

Every replica registers who is connected to it. A follower also passes heartbeats on, so that the
leader knows every client of the group; it alone creates groups and tells members of changes.
"""

from __future__ import annotations

import logging
from typing import Any

from cluster.broker.clients.ports import ClientPorts
from cluster.broker.kernel.net.client_ids import check_client_id
from cluster.broker.kernel.net.decisions import Answer, Step, WithGroups, decided_for
from cluster.broker.kernel.net.offset_decisions import CommitSoon
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.broker.kernel.read.wanted import SQL92
from cluster.core.access.needs import Needs, as_producer, in_group, join, to_consume
from cluster.core.groups import Change, ClientInfo, RegistryFull
from cluster.core.topics import RETRY_PREFIX, group_name_error
from cluster.errors import (
    GroupNotFound,
    InvalidRequest,
    QueueFull,
    RemoteProtocolError,
)
from cluster.protocol.codes import VERSION, RequestCode
from cluster.protocol.frames import FLAG_ONEWAY, Frame
from cluster.protocol.headers import ConsumerListRequest, UnregisterClientRequest, encode
from cluster.protocol.heartbeat import HeartbeatData, decode_heartbeat

_log = logging.getLogger(__name__)

NEW_GROUP_SECONDS = (1.5, 3.0)
"""After its group was made, members hear so late again that it changed."""


def heartbeat(ports: ClientPorts, call: Call, data: HeartbeatData) -> Step[ClientPorts]:
    """34: register; on the leader, first create the topics and groups that the client needs."""
    for consumer in data.consumers:
        wrong = group_name_error(consumer.group)
        if wrong is not None:
            raise InvalidRequest(wrong)
    if not ports.live.now.auto_create_groups:
        _check_groups(ports, data)
    groups = [consumer.group for consumer in data.consumers]
    produces = bool(data.producer_groups)
    check_client_id(ports.registry, call, data.client_id, groups, produces=produces, by_admin=False)
    client, frame = call.client, call.frame
    info = ClientInfo(
        data.client_id,
        client.address,
        frame.language,
        frame.version,
        client.forwarded_by or "",
        call.caller.key,
    )
    try:
        change = ports.registry.heartbeat(
            info, data.producer_groups, data.consumers, call.client, ports.now()
        )
    except RegistryFull as full:
        raise QueueFull(str(full)) from None
    for warning in ports.registry.watch.take_warnings():
        _log.warning("%s", warning)
    _register_filters(ports, data)
    if not ports.leadership.leads:
        return Answer(lambda call: call.answer())
    missing = {c.group for c in data.consumers if not _is_complete(ports, c.group)}

    def answer(call: Call) -> None:
        call.answer()
        notify(ports, change)
        for seconds in NEW_GROUP_SECONDS if missing else ():
            # Stock members share a new retry topic out once they have seen it: else after 20 s.
            ports.later(seconds, lambda: notify(ports, change))

    answered: Step[ClientPorts] = Answer(answer)
    return WithGroups(missing, lambda: answered) if missing else answered


def _check_groups(ports: ClientPorts, data: HeartbeatData) -> None:
    for consumer in data.consumers:
        if ports.state.groups.get(consumer.group) is None:
            raise GroupNotFound(
                f"the consumer group {consumer.group} does not exist; create it first"
            )


def _register_filters(ports: ClientPorts, data: HeartbeatData) -> None:
    """SQL92 subscriptions: from now on dispatch marks which groups a message matches."""
    if ports.filters is None:
        return
    for consumer in data.consumers:
        group = ports.registry.consumer_group(consumer.group)
        subscriptions = group.subscriptions.values() if group is not None else ()
        wanted = {
            item.topic: (item.expression, item.version)
            for item in subscriptions
            if item.expression_type == SQL92
        }
        ports.filters.subscribe(consumer.group, wanted, ports.state.store_ms)


def _is_complete(ports: ClientPorts, group: str) -> bool:
    state = ports.state
    return (
        state.groups.get(group) is not None and state.topics.get(RETRY_PREFIX + group) is not None
    )


def unregister(
    ports: ClientPorts, call: Call, request: UnregisterClientRequest
) -> Answer | CommitSoon:
    """35: leave at once; the group's offsets are logged without waiting for their second."""
    consumer_group, producer_group = request.consumer_group or "", request.producer_group or ""
    check_client_id(
        ports.registry,
        call,
        request.client_id,
        [consumer_group],
        produces=bool(producer_group),
    )
    change = ports.registry.unregister(
        request.client_id, producer_group, consumer_group, call.client
    )

    def answer(call: Call) -> None:
        call.answer()
        tell_left(ports, change)

    if not ports.leadership.leads:
        return Answer(answer)
    named = (consumer_group,) if consumer_group else ()
    return CommitSoon((*change.emptied, *named), answer)


def tell_left(ports: ClientPorts, change: Change) -> None:
    """Members have left: forget the filters of groups without members, tell the others."""
    if ports.filters is not None:
        for group in change.emptied:
            ports.filters.leave(group, ports.state.store_ms)
    notify(ports, change)


def notify(ports: ClientPorts, change: Change) -> None:
    """40 to every member of the groups that changed (leader)."""
    if not ports.leadership.leads:
        return
    for group in change.notify:
        notice = Frame(
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
            0,
            encode(ConsumerListRequest(group)),
            flag=FLAG_ONEWAY,
            language="JAVA",
            version=VERSION,
        )
        for channel in ports.registry.channels(group):
            channel.answer(notice)


def _read_heartbeat(frame: Frame) -> HeartbeatData:
    try:
        return decode_heartbeat(frame.body)
    except RemoteProtocolError as error:
        raise InvalidRequest(f"{error}; send a heartbeat") from None


def _needs_of_heartbeat(data: HeartbeatData) -> Needs:
    return join(
        [
            *(as_producer(group) for group in data.producer_groups),
            *(in_group(consumer.group) for consumer in data.consumers),
            *(
                to_consume(subscription.topic)
                for consumer in data.consumers
                for subscription in consumer.subscriptions
            ),
        ]
    )


def _needs_of_leaving(request: UnregisterClientRequest) -> Needs:
    """An empty group is no group."""
    needs = in_group(request.consumer_group) if request.consumer_group else Needs()
    return needs | as_producer(request.producer_group) if request.producer_group else needs


ROUTES: dict[int, Handler[ClientPorts, Any]] = {
    RequestCode.HEART_BEAT: Handler(
        Who.ANYWHERE, _read_heartbeat, _needs_of_heartbeat, decided_for(heartbeat)
    ),
    RequestCode.UNREGISTER_CLIENT: Handler(
        Who.ANYWHERE, fields(UnregisterClientRequest), _needs_of_leaving, decided_for(unregister)
    ),
}
