"""Which reader's message is handed out next: in turn; of an ordered queue one at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping

from cluster.client.message import ReceivedMessage
from cluster.client.puller import QueueReader
from cluster.client.queue_locks import QueueLocks
from cluster.protocol.json_body import MessageQueue


class ReadyReaders:
    """Readers that hold messages. `locks`: of an ordered consumer, which has one message of each
    queue in hand at most, and none of a queue whose lock it may have lost. `may_leave` is called
    when nothing of a queue that is to leave is in hand any more.
    """

    def __init__(self, locks: QueueLocks | None, may_leave: Callable[[], None]) -> None:
        self._locks, self._may_leave = locks, may_leave
        #: Ordered queues that are another member's to be, once what is in hand is done with.
        self._leaving: set[QueueReader] = set()
        self._readers: deque[QueueReader] = deque()
        # Of an ordered queue: the message that is not done with; None: it comes back in a moment.
        self._in_hand: dict[QueueReader, ReceivedMessage | None] = {}
        self._arrival = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._readers)

    async def arrival(self, time_limit: float | None) -> bool:
        """Wait until one may be here; False when none came in time."""
        self._arrival.clear()
        try:
            async with asyncio.timeout(time_limit):
                await self._arrival.wait()
        except TimeoutError:
            return False
        return True

    def wake(self) -> None:
        """Let the one that waits look."""
        self._arrival.set()

    def add(self, reader: QueueReader) -> None:
        """It may hold messages now."""
        if not reader.buffer or reader in self._readers or not self._may_hand_out(reader):
            return
        self._readers.append(reader)
        self._arrival.set()

    def take(self) -> ReceivedMessage:
        """The next message of the reader that is first."""
        reader = self._readers[0]
        message = reader.take()
        if self._locks is not None:
            self._in_hand[reader] = message
        if not reader.buffer or self._locks is not None:
            self._readers.popleft()
        return message

    def comes_back(self, reader: QueueReader, message: ReceivedMessage) -> bool:
        """The message in hand of an ordered queue is to be handed out again; False: it is not in
        hand (any more), or was said before.
        """
        if self._in_hand.get(reader) is not message:
            return False
        self._in_hand[reader] = None
        self._left(reader)
        return True

    def is_coming_back(self, reader: QueueReader) -> bool:
        """Whether `comes_back` was said, and nothing else since."""
        return reader in self._in_hand and self._in_hand[reader] is None

    def done(self, reader: QueueReader) -> None:
        """The message in hand of an ordered queue is done with."""
        if reader in self._in_hand:
            del self._in_hand[reader]
            self.add(reader)
            self._left(reader)

    def that_leave(
        self, readers: Mapping[MessageQueue, QueueReader], mine: Collection[MessageQueue]
    ) -> list[MessageQueue]:
        """Queues that are no longer `mine` and may go now.

        An ordered one of which a message is in hand goes when that is done with, and until then
        nothing else of it is handed out: whoever has it next would handle it at the same time.
        """
        found = []
        for queue, reader in readers.items():
            if queue in mine:
                self._leaving.discard(reader)
                self.add(reader)
            elif self._in_hand.get(reader) is not None:
                self._leaving.add(reader)
            else:
                found.append(queue)
        return found

    def _left(self, reader: QueueReader) -> None:
        if reader in self._leaving:
            self._may_leave()

    def remove(self, reader: QueueReader) -> None:
        """It holds nothing any more, and what is in hand is not asked for."""
        self._in_hand.pop(reader, None)
        self._leaving.discard(reader)
        if reader in self._readers:
            self._readers.remove(reader)

    def _may_hand_out(self, reader: QueueReader) -> bool:
        if self._locks is None:
            return True
        if reader in self._in_hand or reader in self._leaving:
            return False
        return self._locks.is_held(reader.queue)
