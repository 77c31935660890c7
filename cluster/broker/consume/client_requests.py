"""Clients announce themselves (34, 35) and hear of changes in their group (40).

Source: docs/spec/remoting.md 2.4.

Every replica registers who is connected to it. A follower also passes heartbeats on, so that the
leader knows every client of the group; it alone creates groups and tells members of changes.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import Any

from cluster.broker.kernel.net.requests import Call, Route, Who, fields
from cluster.broker.kernel.read.wanted import SQL92
from cluster.broker.services import Services
from cluster.core.access.needs import Needs, as_producer, in_group, join, to_consume
from cluster.core.groups import Change, ClientInfo, RegistryFull
from cluster.core.topics import RETRY_PREFIX, group_name_error
from cluster.errors import (
    GroupNotFound,
    InvalidRequest,
    QueueFull,
    RemoteProtocolError,
    Unauthorized,
)
from cluster.protocol.codes import VERSION, RequestCode
from cluster.protocol.frames import FLAG_ONEWAY, Frame
from cluster.protocol.headers import ConsumerListRequest, UnregisterClientRequest, encode
from cluster.protocol.heartbeat import HeartbeatData, decode_heartbeat

_log = logging.getLogger(__name__)


def heartbeat(call: Call, data: HeartbeatData) -> None:
    """34: register, and on the leader create what the client's groups need before answering."""
    for consumer in data.consumers:
        wrong = group_name_error(consumer.group)
        if wrong is not None:
            raise InvalidRequest(wrong)
    services = call.services
    if not services.config.auto_create_groups:
        _check_groups(services, data)
    groups = [consumer.group for consumer in data.consumers]
    produces = bool(data.producer_groups)
    check_client_id(call, data.client_id, groups, produces=produces, by_admin=False)
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
        change = services.registry.heartbeat(
            info, data.producer_groups, data.consumers, call.client, services.now()
        )
    except RegistryFull as full:
        raise QueueFull(str(full)) from None
    for warning in services.registry.watch.take_warnings():
        _log.warning("%s", warning)
    _register_filters(services, data)
    if not services.leadership.leads:
        call.answer()
        return
    missing = {c.group for c in data.consumers if not _is_complete(services, c.group)}
    if not missing:
        call.answer()
        notify(services, change)
        return

    def created(group: str, error: Exception | None) -> None:
        if error is not None:
            missing.clear()
            call.refuse(error)
        elif group in missing:
            missing.discard(group)
            if not missing:
                call.answer()
                notify(services, change)

    for group in sorted(missing):
        ensure_group(services, group, functools.partial(created, group))


def _check_groups(services: Services, data: HeartbeatData) -> None:
    for consumer in data.consumers:
        if services.state.groups.get(consumer.group) is None:
            raise GroupNotFound(
                f"the consumer group {consumer.group} does not exist; create it first"
            )


def _register_filters(services: Services, data: HeartbeatData) -> None:
    """SQL92 subscriptions: from now on messages are marked with whom they are for."""
    if services.filters is None:
        return
    for consumer in data.consumers:
        group = services.registry.consumer_group(consumer.group)
        subscriptions = group.subscriptions.values() if group is not None else ()
        wanted = {
            item.topic: (item.expression, item.version)
            for item in subscriptions
            if item.expression_type == SQL92
        }
        services.filters.subscribe(consumer.group, wanted, services.state.store_ms)


def _is_complete(services: Services, group: str) -> bool:
    state = services.state
    return (
        state.groups.get(group) is not None and state.topics.get(RETRY_PREFIX + group) is not None
    )


def ensure_group(services: Services, group: str, done: Callable[[Exception | None], None]) -> None:
    """Create a group's settings and retry topic where they are missing (leader)."""
    needs_topic = services.state.topics.get(RETRY_PREFIX + group) is None
    services.writer.create_group(group, retry_topic=needs_topic, done=done)


def unregister(call: Call, request: UnregisterClientRequest) -> None:
    """35: leave at once; the group's offsets are logged without waiting for their second."""
    consumer_group, producer_group = request.consumer_group or "", request.producer_group or ""
    check_client_id(call, request.client_id, [consumer_group], produces=bool(producer_group))
    change = call.services.registry.unregister(
        request.client_id, producer_group, consumer_group, call.client
    )
    call.answer()
    left(call.services, change)
    if consumer_group and call.services.leadership.leads:
        call.services.offsets.flush(consumer_group)


def check_client_id(
    call: Call,
    client_id: str,
    consumer_groups: Iterable[str],
    *,
    produces: bool = False,
    by_admin: bool = True,
) -> None:
    """A client id in use belongs to the account that uses it: questions and replies go there.

    Raises Unauthorized. `by_admin`: an admin may speak of others' clients.
    """
    registry = call.services.registry
    others = registry.accounts_of(client_id, consumer_groups, produces=produces)
    if others - {call.caller.key} and not (by_admin and call.caller.is_admin):
        raise Unauthorized(
            f"the client id {client_id[:255]} is in use by another account; give this client "
            "another instance name"
        )


def left(services: Services, change: Change) -> None:
    """Members have gone: tell the others, and log what a group without members has committed."""
    if services.filters is not None:
        for group in change.emptied:
            services.filters.leave(group, services.state.store_ms)
    if not services.leadership.leads:
        return
    for group in change.emptied:
        services.offsets.flush(group)
    notify(services, change)


def notify(services: Services, change: Change) -> None:
    """40 to every member of the groups that changed (leader)."""
    if not services.leadership.leads:
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
        for channel in services.registry.channels(group):
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


ROUTES: dict[int, Route[Any]] = {
    RequestCode.HEART_BEAT: Route(Who.ANYWHERE, _read_heartbeat, _needs_of_heartbeat, heartbeat),
    RequestCode.UNREGISTER_CLIENT: Route(
        Who.ANYWHERE, fields(UnregisterClientRequest), _needs_of_leaving, unregister
    ),
}
