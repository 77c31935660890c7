"""Messages that clients send to retry topics themselves: tried too often, they are dead letters.

    a send to %RETRY%group (36 failed, or an ordered group gave up) ─► as 36, by its own header

On the path of sends: topics and groups that are missing are made in the same batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cluster.broker.delay.decisions import nobody_waits
from cluster.broker.delay.delays import Delays
from cluster.broker.delay.retries import group_settings, lacks_retry_topic, writable_topic
from cluster.broker.kernel.write.placement import Placement
from cluster.broker.kernel.write.send_target import SendTarget
from cluster.core.delay.retries import dead_properties, times_max
from cluster.core.subscription_groups import new_group
from cluster.core.topics import DLQ_PREFIX, RETRY_PREFIX, TopicConfig
from cluster.protocol.send import SendRequest

if TYPE_CHECKING:
    from cluster.broker.delay.ports import DelayPorts


class RetryTopics:
    """An `Interceptor` for messages that clients send to retry topics themselves."""

    def __init__(self, ports: DelayPorts, delays: Delays) -> None:
        self._ports, self._delays = ports, delays

    def intercept(
        self, request: SendRequest, target: SendTarget, queue: int, stored: bytes, stamp_ms: int
    ) -> Placement | None:
        """A dead letter's place, or None: delayed or not, it may go on.

        Dead is what was tried more often than allowed, and whatever an ordered group gives up
        (docs/spec/store.md 7.6). Raises GroupNotFound, Unauthorized or QueueFull.
        """
        if not target.topic_name.startswith(RETRY_PREFIX):
            return None
        ports, template = self._ports, request.template
        group = target.topic_name[len(RETRY_PREFIX) :]
        settings = self._settings(group)
        tried_max = times_max(settings, template.max_reconsume_times)
        is_ordered = ports.is_ordered(group)
        if template.reconsume_times <= tried_max and not is_ordered:
            return None
        topic = self._dead_letters(DLQ_PREFIX + group)
        properties = dead_properties(stored)
        return self._delays.at_once(topic.name, 0, topic.queues, properties, target.sys_flag)

    def _settings(self, group: str) -> Mapping[str, Any]:
        ports = self._ports
        found = group_settings(ports, group)
        if found is None:
            lacks_topic = lacks_retry_topic(ports, group)
            ports.writer.create_group(group, retry_topic=lacks_topic, done=nobody_waits)
            return new_group(group)
        return found

    def _dead_letters(self, name: str) -> TopicConfig:
        found = writable_topic(self._ports, name)
        if found is None:
            found = TopicConfig(name, 1, 1)
            self._ports.writer.create_topic(found, nobody_waits)
        return found
