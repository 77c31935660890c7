"""Chooses the reader of the next message: readers in turn, ordered queues one message at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping

from cluster.client.consumer.queue_locks import QueueLocks
from cluster.client.consumer.queue_reader import Handed, QueueReader
from cluster.client.message import ReceivedMessage
from cluster.errors import ClusterError
from cluster.protocol.json_body import MessageQueue


class ReadyReaders:
    """Readers that hold messages, in the order in which they hand out.

    A message is *in hand* between its handing out and its acknowledgement. An ordered consumer has
    at most one message of each queue in hand, and none of a queue whose lock it may have lost.

    Attributes:
        refusal: why the broker has served nothing so far; None when it has, or was not asked yet.
    """

    def __init__(self, locks: QueueLocks | None, may_leave: Callable[[], None]) -> None:
        """Make an empty list.

        Args:
            locks: those of an ordered consumer; None for any other.
            may_leave: called when the last message in hand of a queue that moves to another member
                is done.
        """
        self._locks, self._may_leave = locks, may_leave
        #: Readers of ordered queues that move to another member once their message in hand is done.
        self._leaving: set[QueueReader] = set()
        self._readers: deque[QueueReader] = deque()
        # Ordered queue's reader → its message in hand; None: that is handed out again in a moment.
        self._in_hand: dict[QueueReader, ReceivedMessage | None] = {}
        self._arrival = asyncio.Event()
        self.refusal: ClusterError | None = None
        self._was_served = False

    def __bool__(self) -> bool:
        return bool(self._readers)

    async def arrival(self, time_limit: float | None) -> bool:
        """Wait until a message may be here; False if none came in `time_limit` seconds."""
        self._arrival.clear()
        try:
            async with asyncio.timeout(time_limit):
                await self._arrival.wait()
        except TimeoutError:
            return False
        return True

    def wake(self) -> None:
        """Wake the task in `arrival`, for instance because the consumer is closed."""
        self._arrival.set()

    def refuse(self, error: ClusterError | None) -> None:
        """Tell the user this error if no pull was served yet. None: a pull was served.

        A consumer that was served once waits: an operator who pauses its group lets it go on later.
        """
        if error is None:
            self._was_served, self.refusal = True, None
        elif not self._was_served:
            self.refusal = self.refusal or error
            self._arrival.set()

    def add(self, reader: QueueReader) -> None:
        """Add `reader` if it holds messages and may hand one out."""
        if not reader.buffer or reader.is_stopped or reader in self._readers:
            return
        if not self._may_hand_out(reader):
            return
        self._readers.append(reader)
        self._arrival.set()

    def take(self, count_max: int) -> Handed:
        """Hand out the next messages of the first reader; one of an ordered queue.

        At most `count_max`. A queue with more messages than that becomes the last, so that one that
        fills up faster than its user reads holds up no other.
        """
        reader = self._readers[0]
        if self._locks is not None:
            handed = reader.take(1)
            self._in_hand[reader] = handed.messages[0]
            self._readers.popleft()
            return handed
        handed = reader.take(count_max)
        self._readers.popleft()
        if reader.buffer:
            self._readers.append(reader)
        return handed

    def comes_back(self, reader: QueueReader, message: ReceivedMessage) -> bool:
        """Note that the message in hand of an ordered queue is to be handed out again.

        False if the message is not in hand, or if that was noted before.
        """
        if self._in_hand.get(reader) is not message:
            return False
        self._in_hand[reader] = None
        self._left(reader)
        return True

    def is_coming_back(self, reader: QueueReader) -> bool:
        """True after `comes_back`, until the message is done or its queue is removed."""
        return reader in self._in_hand and self._in_hand[reader] is None

    def done(self, reader: QueueReader) -> None:
        """Note that the message in hand of an ordered queue is done."""
        if reader in self._in_hand:
            del self._in_hand[reader]
            self.add(reader)
            self._left(reader)

    def that_leave(
        self, readers: Mapping[MessageQueue, QueueReader], mine: Collection[MessageQueue]
    ) -> list[MessageQueue]:
        """The queues that are no longer `mine` and may go now.

        An ordered queue with a message in hand goes when that message is done. Until then no other
        message of it is handed out: the next member would handle it at the same time.
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
        """Forget `reader`, its message in hand and those that wait in the consumer's hand."""
        reader.hand.clear()
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
