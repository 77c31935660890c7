"""Sends that came before their topic's route was known: they go on in the order in which they came.

    send ──► line of the topic ──► route is known: all are woken, in order ──► line ends
    send of the next moments ──► joins the line until it ends, else it would overtake those woken

A task that is woken runs one turn of the event loop later. A send that begins in between knows the
route already, and without the line it would be first in its queue, before messages of its own key
that were sent before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from cluster.client.producer.topic_senders import TopicSenders


class _Line:
    """The work that finds the route, and the sends that wait for it, oldest first."""

    def __init__(self, task: asyncio.Task[TopicSenders]) -> None:
        self.task = task
        self.waiting: dict[asyncio.Future[None], None] = {}


class TopicOpenings:
    """Topics that are being opened.

    Attributes:
        lines: topic → its line; empty most of the time.
    """

    def __init__(self, open_topic: Callable[[str], Coroutine[Any, Any, TopicSenders]]) -> None:
        """`open_topic` asks for a topic's route; it runs once for all sends of a line."""
        self._open_topic = open_topic
        self.lines: dict[str, _Line] = {}

    async def enter(self, topic: str) -> TopicSenders:
        """The topic's senders, after every send that asked before.

        The caller then adds its message before it awaits anything else. When all that wait are
        cancelled, the work is. Raises what `open_topic` raises.
        """
        line = self.lines.get(topic)
        if line is None:
            line = self.lines[topic] = self._begin(topic)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting[waiter] = None
        try:
            await waiter
        finally:
            line.waiting.pop(waiter, None)
            if not line.waiting and not line.task.done():
                line.task.cancel()
                self._end(topic, line)
        return line.task.result()

    def _begin(self, topic: str) -> _Line:
        line = _Line(asyncio.ensure_future(self._open_topic(topic)))

        def ended(task: asyncio.Task[TopicSenders]) -> None:
            if not task.cancelled():
                task.exception()  # read, or asyncio would log an error that no task waits for
            self._let_in(topic, line)

        line.task.add_done_callback(ended)
        return line

    def _let_in(self, topic: str, line: _Line) -> None:
        """Wake all that wait; end the line if none has joined it since those before were woken."""
        woken, line.waiting = line.waiting, {}
        if not woken:
            self._end(topic, line)
            return
        for waiter in woken:
            if not waiter.done():
                waiter.set_result(None)
        asyncio.get_running_loop().call_soon(self._let_in, topic, line)  # behind those woken

    def _end(self, topic: str, line: _Line) -> None:
        if self.lines.get(topic) is line:
            del self.lines[topic]
