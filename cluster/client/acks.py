"""How far a group has come in one queue: the first message that was handed out and not acked.

handed out   5 6 7 8      acked 5 6 8      position 7: after a restart 7 and 8 come again
"""

from __future__ import annotations


class Acks:
    """Position of one queue. `start` is the first queue offset to be handed out."""

    def __init__(self, start: int) -> None:
        self._open: dict[int, None] = {}
        self._after = start

    @property
    def position(self) -> int:
        """Where the group would go on."""
        return next(iter(self._open), self._after)

    def handed_out(self, queue_offset: int) -> None:
        """A message was given to the user; they come in order."""
        assert queue_offset >= self._after, "messages of a queue are handed out in order"
        self._open[queue_offset] = None
        self._after = queue_offset + 1

    def acked(self, queue_offset: int) -> None:
        """The user is done with it; doing so twice is harmless."""
        self._open.pop(queue_offset, None)

    def taken_back(self, queue_offset: int) -> None:
        """The last message that was handed out will be handed out again."""
        assert next(reversed(self._open), None) == queue_offset, "only the last one comes back"
        del self._open[queue_offset]
        self._after = queue_offset

    def skipped_to(self, queue_offset: int) -> None:
        """Nothing between the last message handed out and this offset is for this group."""
        self._after = max(self._after, queue_offset)
