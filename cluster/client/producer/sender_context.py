"""State that all queue senders of one producer share: settings, limits, and the turn's clocks.

A turn is one pass of the event loop. The clocks are read once per turn, because reading them for
each message would cost more than numbering it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable

from cluster.client.config import ProducerConfig
from cluster.client.producer.in_flight_limiter import InFlightLimiter
from cluster.client.producer.message_properties import UniqueKeys
from cluster.client.routing.client_instance import ClientInstance


class SenderContext:
    """Made by a producer, read by its queue senders.

    Attributes:
        producer_id: under which the broker counts this producer's numbers (R8).
        sys_flag: RocketMQ's flag bits of each message.
        limiter: how many messages may wait for their receipts.
        unique_keys: makes message ids.
        turn: the number of this turn; `is_turn_open` until the turn ends.
        turn_ms: the time of day of this turn, in ms since 1970.
        turn_time: the event loop's time of this turn, in seconds.
        deadline: loop time at which messages of this turn have waited for `delivery_timeout`.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        config: ProducerConfig,
        sys_flag: int,
        on_turn: Callable[[], None],
    ) -> None:
        """`on_turn` is called once in each turn that sends something."""
        self.instance, self.group, self.config = instance, group, config
        self.sys_flag = sys_flag
        self.producer_id = secrets.token_hex(8).encode()
        self.limiter = InFlightLimiter(config.in_flight_max, config.in_flight_bytes_max)
        self.unique_keys = UniqueKeys()
        self.turn = 0
        self.is_turn_open = False
        self.turn_ms = 0
        self.turn_time = self.deadline = 0.0
        self._on_turn = on_turn
        self._loop = asyncio.get_running_loop()

    def begin_turn(self) -> None:
        """Read the clocks, unless that was done in this turn."""
        if self.is_turn_open:
            return
        self.is_turn_open = True
        self.turn += 1
        self.turn_ms = int(time.time() * 1000)
        self.turn_time = self._loop.time()
        self.deadline = self.turn_time + self.config.delivery_timeout
        self.unique_keys.at(self.turn_ms)
        self._loop.call_soon(self._end_turn)
        self._on_turn()

    def _end_turn(self) -> None:
        self.is_turn_open = False
