"""Messages that are sent again: to their topic, to another one, or to one group alone.

    to a topic    a new message: the same body, keys, tag and properties of the user's own
    to a group    into %RETRY%GROUP, where its members alone read it, as if it had come back; the
                  count of attempts begins anew

A copy names the message that it is of in its property RESENT_OF. What is in the log stays there.
"""

from __future__ import annotations

from typing import Final

from cluster.client.admin.stored_messages import pull
from cluster.client.message import Receipt, ReceivedMessage
from cluster.client.producer.producer import Producer
from cluster.client.routing.client_instance import ClientInstance
from cluster.errors import GroupNotFound, IllegalOperation, InvalidRequest, TopicNotFound
from commitlog.errors import StoreError
from commitlog.records import property_names as names
from commitlog.records.names import DLQ_PREFIX, RETRY_PREFIX
from commitlog.records.properties import encode_properties

RESENT_OF: Final = "RESENT_OF"
"""The message id of the original, or topic:broker:queue:offset of one without an id."""


def resent_of(message: ReceivedMessage) -> str:
    """How a copy names its original."""
    queue = message.queue
    place = f"{queue.topic}:{queue.broker_name}:{queue.queue_id}:{message.queue_offset}"
    return message.message_id or place


def origin_topic(message: ReceivedMessage) -> str:
    """The topic that it was sent to first: a dead letter's own is %DLQ%GROUP."""
    found = message.properties
    return found.get(names.DLQ_ORIGIN_TOPIC) or found.get(names.RETRY_TOPIC) or message.topic


def copied_properties(message: ReceivedMessage, *, for_group: bool) -> dict[str, str]:
    """Keys, tag, the user's own properties, and the original's name."""
    kept = {
        name: value
        for name, value in message.properties.items()
        if name not in names.RESERVED and not name.startswith(names.TRANSIENT_PREFIX)
    }
    for name in (names.KEYS, names.TAGS):
        if name in message.properties:
            kept[name] = message.properties[name]
    if for_group:
        kept[names.RETRY_TOPIC] = origin_topic(message)
    return kept | {RESENT_OF: resent_of(message)}


async def resend(
    instance: ClientInstance,
    producer: Producer,
    message: ReceivedMessage,
    *,
    topic: str | None = None,
    group: str | None = None,
) -> Receipt:
    """Send a message again.

    Args:
        topic: another topic than that it was sent to first.
        group: only this group gets it; `topic` is not used then.

    Raises:
        InvalidRequest: its body or its properties cannot be read, or do not name its topic.
        GroupNotFound: the group has read nothing yet.
        TopicNotFound: there is no such topic; none is created.
        ClusterError: as `Producer.send`.
    """
    try:
        body = message.body
        extra = encode_properties(copied_properties(message, for_group=group is not None))
    except (ValueError, StoreError) as error:
        raise InvalidRequest(f"{resent_of(message)} cannot be sent again: {error}") from error
    origin = origin_topic(message)
    if topic is None and origin.startswith((DLQ_PREFIX, RETRY_PREFIX)):
        raise InvalidRequest(
            f"{resent_of(message)} does not say which topic it was sent to first; name one"
        )
    target = topic or origin
    if group is None:
        await instance.routes.refresh(target)  # a send would create it where brokers create topics
    else:
        target = RETRY_PREFIX + group
        try:
            await instance.routes.refresh(target)
        except TopicNotFound as error:  # sending would make the topic of a group that nobody is in
            raise GroupNotFound(
                f"the group {group} has read nothing yet; dledger group list shows those that have"
            ) from error
    return await producer.send_encoded(
        target, body, extra, key=message.properties.get(names.KEYS), queue_id=None
    )


async def check_group_gets_it(instance: ClientInstance, receipt: Receipt, group: str) -> None:
    """Raises IllegalOperation if a broker put a message for a group among its dead letters.

    It does so while the group consumes in order: what comes back from such a group is given up.
    """
    if receipt.queue_offset < 0:
        return
    at = receipt.queue_offset
    found = await pull(instance, receipt.queue, at, at + 1)
    if all(message.message_id != receipt.message_id for message in found):
        raise IllegalOperation(
            f"{group} consumes in order, so the copy is one more of its dead letters; "
            "send to the topic instead"
        )
