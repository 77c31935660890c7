"""Messages that a group gives back (request 36): they come again later, or become dead letters.

Retry and dead-letter topics are RocketMQ's, so a message that this client gives back may be handled
by a Java consumer of the group, and the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.client.message import ReceivedMessage
from cluster.client.repeating import ask_leader
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import SendBackRequest, encode
from commitlog.property_names import ORIGIN_MESSAGE_ID

if TYPE_CHECKING:
    from cluster.client.client import Client


class Returns:
    """Of one group. `attempts_max`: so often a message is handed out before it is a dead letter."""

    def __init__(self, client: Client, group: str, attempts_max: int) -> None:
        self._client, self._group, self._attempts_max = client, group, attempts_max

    async def give_back(self, message: ReceivedMessage, delay_level: int) -> None:
        """Returns when a majority has the copy that comes again. Raises ClusterError.

        After an error whose outcome is not known, a repeat may let it come twice.
        """
        queue = message.queue
        request = SendBackRequest(
            message.position,
            self._group,
            delay_level,
            message.properties.get(ORIGIN_MESSAGE_ID, message.message_id),
            message.topic,
            max_reconsume_times=self._attempts_max - 1,
            bname=queue.broker_name,
        )
        code = RequestCode.CONSUMER_SEND_MSG_BACK
        await ask_leader(self._client, queue.broker_name, queue.topic, code, encode(request))
