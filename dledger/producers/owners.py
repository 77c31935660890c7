"""Which producers each owner has, and which producers were pushed out of the table.

    Shares     owner ─► its producers, least recently used first, and how many streams they have
    Departed   producer that was pushed out ─► its owner; a bounded number of them

The table makes space at the cost of the owner that takes most of it, so that an account that uses
ever new ids pushes out its own and no other's. Producers without an owner count as one owner's.

A producer can be pushed out while a message of its is on the way. The numbers of that message are
known again when it is committed, and two more things have to be known with them: whose the producer
is, and that its other numbers were forgotten. `Departed` keeps both until then, with the same
fairness. All follows from the log alone, so every replica has the same.
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
    """Each owner's producers and streams in the table's applied layer."""

    def __init__(self) -> None:
        self._owners: dict[str, _Share] = {}

    def heard(self, owner: str | None, producer: str) -> None:
        """Note that `producer` is the most recently used one of its owner."""
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
        """The same for the owner of the producers with most streams."""
        return self._first(lambda share: share.streams, order)

    def _first(self, size: Callable[[_Share], int], order: Iterable[str]) -> str:
        most = max(map(size, self._owners.values()))
        shares = (share for share in self._owners.values() if size(share) == most)
        candidates = {next(iter(share.producers)) for share in shares}
        if len(candidates) == 1:
            return candidates.pop()
        return next(producer for producer in order if producer in candidates)


class Departed:
    """The last `count_max` producers that were pushed out, with their owners.

    Over the number the one goes that was pushed out first, of the owner that has most of them here.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._owners: OrderedDict[str, str | None] = OrderedDict()
        self._shares = Shares()
        #: Is each producer that was ever pushed out either here or in the table again?
        self.is_complete = True

    def __contains__(self, producer: str) -> bool:
        return producer in self._owners

    def add(self, producer: str, owner: str | None) -> None:
        """Remember the owner of a producer that was pushed out; None: it had no owner."""
        self._owners[producer] = owner
        self._shares.heard(owner, producer)
        if len(self._owners) > self._count_max:
            gone = self._shares.with_most_producers(self._owners)
            self._shares.gone(self._owners.pop(gone), gone, 0)
            self.is_complete = False

    def take(self, producer: str) -> str | None:
        """Remove a producer that is known again; returns its owner, None for none."""
        if producer not in self._owners:
            return None
        owner = self._owners.pop(producer)
        self._shares.gone(owner, producer, 0)
        return owner

    def owner(self, producer: str) -> str | None:
        """Owner of a producer that was pushed out; None: it had none, or is not here."""
        return self._owners.get(producer)

    def rows(self) -> Iterator[tuple[str, str | None]]:
        """(producer, owner), the one that was pushed out first comes first, for snapshots."""
        yield from self._owners.items()
