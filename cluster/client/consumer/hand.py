"""Messages between a queue's buffer and the user: in lists, or one by one; acked by the next ones.

    queue's buffer ─ as many as asked for ─► receive, receive_many
                   └ up to 64 ─► hand ─ one ─► the body of `async for`

Messages in the hand count as handed out and are not acknowledged, so the stored offset stays before
them. They are dropped with the queue's buffer: by a `seek`, or when the queue moves.
"""

from __future__ import annotations

from collections import deque

from cluster.client.consumer.queue_reader import Handed
from cluster.client.consumer.ready_readers import ReadyReaders
from cluster.client.message import ReceivedMessage

HAND_COUNT = 64
"""More: nearly nothing is gained, and the loop stays with one queue for longer."""


class Hand:
    """The hand of one consumer.

    Attributes:
        messages: those of the queue that was taken from last; that queue's reader may clear it.
    """

    def __init__(self, ready: ReadyReaders, *, acks_itself: bool, is_ordered: bool) -> None:
        """Make an empty hand.

        Args:
            acks_itself: asking for the next message acks the one before.
            is_ordered: a queue hands out its next message when the one before is acked.
        """
        self.messages: deque[ReceivedMessage] = deque()
        self._ready, self._acks_itself, self._is_ordered = ready, acks_itself, is_ordered
        self._of: Handed | None = None
        self._given: ReceivedMessage | None = None
        self._last: list[Handed] = []  # of lists: the next `take` acks them

    @property
    def size(self) -> int:
        """Bytes of the bodies held."""
        return sum([len(message.stored_body) for message in self.messages])

    # -- one by one -------------------------------------------------------------------------------

    def fill(self) -> bool:
        """True if `give` has a message: it has, or takes some of the next queue.

        Acks lists that were given before.
        """
        if self._is_ordered:
            return False
        if self._last:
            self.ack_last()
        if not self.messages:
            if not self._ready:
                return False
            self._ack_given()
            self._of = handed = self._ready.take(HAND_COUNT)
            self.messages = handed.reader.hand
            self.messages.extend(handed.messages)
        return True

    def give(self) -> ReceivedMessage:
        """The next message; acks the one before."""
        message = self.messages.popleft()
        if self._acks_itself:
            self._ack_given()
            self._given = message
        return message

    def _ack_given(self) -> None:
        if self._given is not None and self._of is not None:
            self._of.acks.acked(self._given.queue_offset)
            self._given = None

    # -- in lists ---------------------------------------------------------------------------------

    def ack_last(self) -> None:
        """Acknowledge the messages that were given last, if they are to be acked by the next."""
        self._ack_given()
        for reader, acks, messages in self._last:
            for message in messages:
                acks.acked(message.queue_offset)
            self._ready.done(reader)
        self._last.clear()

    def take(self, count_max: int) -> list[ReceivedMessage]:
        """Messages that are here, at most `count_max` or 1; the last ones were acked before."""
        found: list[ReceivedMessage] = []
        count_max = max(count_max, 1)
        while len(found) < count_max and (self.messages or self._ready):
            handed = self._take(count_max - len(found))
            if self._acks_itself:
                self._last.append(handed)
            found += handed.messages
        return found

    def _take(self, count_max: int) -> Handed:
        if not self.messages or self._of is None:
            return self._ready.take(count_max)
        count = min(count_max, len(self.messages))
        found = [self.messages.popleft() for _ in range(count)]
        return Handed(self._of.reader, self._of.acks, found)

    def forget(self, message: ReceivedMessage) -> None:
        """Do not ack `message` when the next one is asked for."""
        if self._given is message:
            self._given = None
        self._last = [
            Handed(reader, acks, others)
            for reader, acks, messages in self._last
            if (others := [other for other in messages if other is not message])
        ]
