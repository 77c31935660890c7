"""The world of the access attempts (`access_world.World`) on a broker that is turned by hand.

The attempts are coroutines because they were written for sockets. Here nothing waits: every request
is answered by turning the broker, so a coroutine runs to its end without an event loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from cluster.core.pop.handles import Handle
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import FrameDecoder, encode_frame, response
from cluster.protocol.offset_id import decode_offset_id

from .access_world import (
    FREE,
    GROUP,
    OTHER,
    OTHERS,
    PRODUCERS,
    SETTINGS,
    TOPIC,
    VICTIM,
    Ask,
    World,
    heartbeat,
    new_group,
    new_topic,
    pop,
    send,
)
from .by_hand import Asked, HandBroker, HandClient
from .test_pop import handles


class RecordingClient(HandClient):
    """Keeps every byte that the broker writes, and answers what the broker asks."""

    def __init__(self, broker: HandBroker) -> None:
        self.written = bytearray()
        self._requests = FrameDecoder()
        super().__init__(broker)

    def _take(self, data: bytes) -> None:
        self.written += data
        super()._take(data)
        for frame in self._requests.feed(data):
            if not frame.is_response and not frame.is_oneway:
                answer = encode_frame(response(frame, 0, {}, b'{"messageQueueTable":{}}'))
                self.connection.data_received(answer)


class HandWorld:
    """What the attempts use of a `World`. All accounts may do everything."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.broker = HandBroker(root, **{**SETTINGS, **settings})
        self.leader = SimpleNamespace(parts=self.broker.parts, config=self.broker.parts.config)
        self.numbers = itertools.count(1)
        self.position = 0
        self.boss = RecordingClient(self.broker)
        self.victim = RecordingClient(self.broker)
        self.callers = {"write": self}

    def open(self) -> None:
        """Topics, groups, messages, a half, members and an offset; the broker leads."""
        self.broker.lead()
        for topic in (TOPIC, OTHER):
            self.asked(Code.UPDATE_AND_CREATE_TOPIC, new_topic(topic))
        for group in (GROUP, OTHERS):
            self.asked(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, new_group(group))
        half = {"properties": f"TRAN_MSG\x01true\x02PGROUP\x01{FREE}\x02", "f": 4}
        for topic, more in ((TOPIC, {}), (OTHER, {}), (f"%RETRY%{GROUP}", {}), (TOPIC, half)):
            self.asked(Code.SEND_MESSAGE_V2, send(topic, b"to be kept secret", **more))
        run(self.join())
        commit = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": 0}
        self.asked(Code.UPDATE_CONSUMER_OFFSET, Ask(commit))

    def asked(self, code: int, ask: Ask, client: HandClient | None = None) -> Asked:
        """A request that is committed and answered with success."""
        asked = (client or self.boss).ask(code, ask.ext, ask.body)
        self.broker.commit()
        assert asked.answer is not None, f"{code} {ask} was not answered"
        assert asked.answer.code == 0, asked.answer.remark
        return asked

    # -- as the attempts call them -----------------------------------------------------------------

    async def ask(self, code: int, ask: Ask) -> Any:
        return self.asked(code, ask).answer

    async def admin(self, code: int, ask: Ask) -> Any:
        return self.asked(code, ask).answer

    async def sent(self, topic: str, body: bytes = b"to be kept secret", **more: Any) -> Any:
        answer: Any = self.asked(Code.SEND_MESSAGE_V2, send(topic, body, **more)).answer
        self.position = decode_offset_id(answer.ext["msgId"])[2]
        return answer

    async def join(self) -> None:
        await self.joined(VICTIM, (PRODUCERS,), (GROUP,))

    async def joined(
        self, client_id: str, producers: tuple[str, ...], consumers: tuple[str, ...]
    ) -> None:
        self.asked(Code.HEART_BEAT, heartbeat(client_id, producers, consumers), self.victim)

    async def popped(self, group: str = GROUP, topic: str = TOPIC) -> Handle:
        await self.sent(topic)
        answer: Any = self.asked(Code.POP_MESSAGE, pop(topic, group)).answer
        return handles(answer)[0]

    def prepared(self, attempt: Callable[[World], Coroutine[Any, Any, Ask]]) -> Ask:
        """The request of an attempt, with everything made ready for it."""
        return run(attempt(cast(World, self)))


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waits for something")
