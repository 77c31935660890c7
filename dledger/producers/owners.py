"""Which producers each owner has, and the owners of producers that were pushed out of the table.

    Shares     owner ─► its producers, least recently used first, and how many streams they have
    Departed   producer that was pushed out ─► its owner, the newest ones only

The table makes room at the cost of the owner that takes most of it, so that an account that uses
ever new ids pushes out its own and no other's. Producers without an owner count as one owner's.

A producer can be pushed out while a message of its is on the way. Its numbers are known again when
that message is committed, and its owner has to be known again with them: `Departed` keeps it until
then. Both follow from the log alone, so every replica has the same ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator


class _Share:
    __slots__ = ("producers", "streams")

    def __init__(self) -> None:
        self.producers: OrderedDict[str, None] = OrderedDict()
        self.streams = 0


class Shares:
    """Of the table's applied layer."""

    def __init__(self) -> None:
        self._owners: dict[str, _Share] = {}

    def heard(self, owner: str | None, producer: str) -> None:
        """It is the most recently used one of its owner."""
        share = self._owners.get(owner or "")
        if share is None:
            share = self._owners[owner or ""] = _Share()
        share.producers[producer] = None
        share.producers.move_to_end(producer)

    def grew(self, owner: str | None) -> None:
        """A producer of that owner has one more stream."""
        self._owners[owner or ""].streams += 1

    def moved(self, producer: str, streams: int, old: str | None, new: str | None) -> None:
        """The producer has another owner; it was heard just now."""
        self.gone(old, producer, streams)
        self.heard(new, producer)
        self._owners[new or ""].streams += streams

    def gone(self, owner: str | None, producer: str, streams: int) -> None:
        """The table has forgotten it."""
        share = self._owners[owner or ""]
        del share.producers[producer]
        share.streams -= streams
        if not share.producers:
            assert share.streams == 0, "streams are those of known producers"
            del self._owners[owner or ""]

    def with_most_producers(self, order: Iterable[str]) -> str:
        """The least recently used producer of the owner that has most producers.

        `order`: all producers, least recently used first. It tells between owners that have as
        many.
        """
        return self._first(lambda share: len(share.producers), order)

    def with_most_streams(self, order: Iterable[str]) -> str:
        """The same for the owner whose producers have most streams."""
        return self._first(lambda share: share.streams, order)

    def _first(self, size: Callable[[_Share], int], order: Iterable[str]) -> str:
        most = max(map(size, self._owners.values()))
        shares = (share for share in self._owners.values() if size(share) == most)
        candidates = {next(iter(share.producers)) for share in shares}
        if len(candidates) == 1:
            return candidates.pop()
        return next(producer for producer in order if producer in candidates)


class Departed:
    """Owners of the last `count_max` owned producers that were pushed out."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._owners: OrderedDict[str, str] = OrderedDict()

    def add(self, producer: str, owner: str | None) -> None:
        """It is pushed out. None: there is no owner to be remembered."""
        if owner is None:
            return
        self._owners[producer] = owner
        self._owners.move_to_end(producer)
        if len(self._owners) > self._count_max:
            self._owners.popitem(last=False)

    def take(self, producer: str) -> str | None:
        """Its owner, as it is known again."""
        return self._owners.pop(producer, None)

    def owner(self, producer: str) -> str | None:
        return self._owners.get(producer)

    def rows(self) -> Iterator[tuple[str, str]]:
        """(producer, owner), oldest first, for snapshots."""
        yield from self._owners.items()
