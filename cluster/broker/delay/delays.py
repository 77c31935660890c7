"""Delayed messages and timers on their way in: which queue they wait in.

Source: docs/spec/store.md 7.1, 7.2.

    DELAY n      ─► SCHEDULE_TOPIC_XXXX, queue n - 1
    TIMER_…      ─► rmq_sys_wheel_timer, queue 0, with TIMER_OUT_MS and a handle for its recall
                    both with REAL_TOPIC and REAL_QID

A timer whose time has come is stored at once. DELAY wins over TIMER_…, which then goes.
"""

from __future__ import annotations

from cluster.broker.kernel.write.placement import Placement
from cluster.broker.kernel.write.send_target import SendTarget
from cluster.core.apply import AppliedState
from cluster.core.delay.delayed import WAITING_MAX
from cluster.core.delay.due import (
    NO_TIMER,
    TIMER_DELAY_MS_MAX,
    TIMER_NAMES,
    DelayNotReadable,
    wanted_delay,
    wheel_time_ms,
)
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.topics import RETRY_PREFIX
from cluster.errors import InvalidRequest, MessageTooLarge, QueueFull
from cluster.protocol.recall_headers import recall_handle
from cluster.protocol.send import SendRequest
from commitlog.delay_levels import DelayLevels
from commitlog.records import property_names as names
from commitlog.records.message_fast import topic_field
from commitlog.records.names import SCHEDULE_TOPIC, TIMER_TOPIC
from commitlog.records.properties import (
    PROPERTIES_SIZE_MAX,
    find_property,
    with_property,
    without_property,
)
from commitlog.records.sys_flag import goes_to_queue

_SCHEDULE, _TIMER = topic_field(SCHEDULE_TOPIC), topic_field(TIMER_TOPIC)


class Delays:
    """Used on a leader; `state` says how many wait, `offsets` are its queue offsets."""

    def __init__(
        self,
        state: AppliedState,
        offsets: LeaderQueueOffsets,
        *,
        broker_name: str,
    ) -> None:
        self._table, self._offsets = state.delayed, offsets
        self._broker_name = broker_name

    @property
    def _levels(self) -> DelayLevels:
        return self._table.levels

    def intercept(
        self, request: SendRequest, target: SendTarget, queue: int, stored: bytes, stamp_ms: int
    ) -> Placement | None:
        """An `Interceptor`. Raises InvalidRequest, MessageTooLarge or QueueFull."""
        if not goes_to_queue(target.sys_flag):
            return None
        try:
            level, due_ms = wanted_delay(stored, self._levels, stamp_ms)
        except DelayNotReadable as error:
            raise InvalidRequest(str(error)) from None
        if level:
            for name in TIMER_NAMES:
                stored = without_property(stored, name)
            return self.at_level(level, target.topic_name, queue, stored, target.sys_flag)
        if due_ms == NO_TIMER or due_ms <= stamp_ms:
            return None
        return self._timer(due_ms, target, queue, stored, stamp_ms)

    def at_level(
        self, level: int, topic: str, queue: int, properties: bytes, sys_flag: int
    ) -> Placement:
        """Delivery to `topic` after the delay of `level`. Raises MessageTooLarge or QueueFull."""
        level = self._levels.clamp(level)
        properties = with_property(properties, names.DELAY.encode(), b"%d" % level)
        row = self._offsets.row(SCHEDULE_TOPIC, self._levels.level_max)
        return self._placement(
            Placement(_SCHEDULE, self._levels.queue_id(level), row, properties, sys_flag),
            topic,
            queue,
        )

    def at_once(
        self, topic: str, queue: int, queues: int, properties: bytes, sys_flag: int
    ) -> Placement:
        """Not deferred at all: queue `queue` of the `queues` of `topic`."""
        row = self._offsets.row(topic, max(queues, queue + 1))
        return Placement(topic_field(topic), queue, row, properties, sys_flag)

    def _timer(
        self, due_ms: int, target: SendTarget, queue: int, stored: bytes, stamp_ms: int
    ) -> Placement:
        if due_ms - stamp_ms > TIMER_DELAY_MS_MAX:
            raise MessageTooLarge(
                f"the message asks to be delivered in {(due_ms - stamp_ms) // 1000} s and "
                f"{TIMER_DELAY_MS_MAX // 1000} s is the limit"
            )
        wheel_ms = wheel_time_ms(due_ms)
        stored = with_property(stored, names.TIMER_OUT_MS.encode(), b"%d" % wheel_ms)
        row = self._offsets.row(TIMER_TOPIC, 1)
        handle = ""
        if not target.topic_name.startswith(RETRY_PREFIX):
            key = find_property(stored, names.UNIQUE_KEY.encode()) or b""
            handle = recall_handle(
                target.topic_name, self._broker_name, wheel_ms + 1, key.decode("utf-8", "replace")
            )
        return self._placement(
            Placement(_TIMER, 0, row, stored, target.sys_flag, handle), target.topic_name, queue
        )

    def _placement(self, place: Placement, topic: str, queue: int) -> Placement:
        if self._table.is_full:
            raise QueueFull(
                f"{WAITING_MAX} delayed messages wait already; send this one again later"
            )
        properties = with_property(place.properties, names.REAL_TOPIC.encode(), topic.encode())
        properties = with_property(properties, names.REAL_QUEUE_ID.encode(), b"%d" % queue)
        if len(properties) > PROPERTIES_SIZE_MAX:
            raise MessageTooLarge(
                f"the properties have {len(properties)} bytes with those that a delay needs, and "
                f"{PROPERTIES_SIZE_MAX} is the limit"
            )
        return place._replace(properties=properties)
