"""Which numbers of one producer and stream stand where in the log: runs of them, newest last."""

from __future__ import annotations

from typing import NamedTuple

from dledger.core.types import Index

#: Kafka keeps the last 5 batches of a producer; ours may have more in flight per queue, so 16.
RUNS_MAX = 16


class Run(NamedTuple):
    """Sequences `first`..`last` stand at ascending indexes, from `first_index` to `last_index`.

    Dense: nothing else stands between them, so each one's index is known.
    """

    first: int
    last: int
    first_index: Index
    last_index: Index

    @property
    def is_dense(self) -> bool:
        """True if numbers and indexes advance together, so that one gives the other."""
        return self.last_index - self.first_index == self.last - self.first


def run_at(sequence: int, count: int, index: Index, last_index: Index | None) -> Run:
    """The run of `count` numbers from `index` on; `last_index`: with others between them."""
    last = Index(index + count - 1) if last_index is None else last_index
    assert last - index >= count - 1, "each entry has an index of its own"
    return Run(sequence, sequence + count - 1, index, last)


class Stream:
    """Runs of one layer, oldest first, at most RUNS_MAX of them; `runs` is never empty."""

    __slots__ = ("runs",)

    def __init__(self, run: Run) -> None:
        self.runs = [run]

    @property
    def last(self) -> int:
        """The highest number that is stored."""
        return self.runs[-1].last

    def extend(self, run: Run) -> None:
        """Adds the newest run, joined to the last if that stays dense; keeps RUNS_MAX of them."""
        runs = self.runs
        tail = runs[-1]
        if run.first == tail.last + 1 and run.first_index == tail.last_index + 1:
            joined = Run(tail.first, run.last, tail.first_index, run.last_index)
            if joined.is_dense:
                runs[-1] = joined
                return
        runs.append(run)
        if len(runs) > RUNS_MAX:
            del runs[0]


class Producer:
    """All streams of one producer, when (log time) it was last heard, and its owner.

    `is_whole`: no stream of it was ever forgotten.
    """

    __slots__ = ("is_whole", "owner", "streams", "time_ms")

    def __init__(self, time_ms: int, owner: str | None, *, is_whole: bool) -> None:
        self.time_ms, self.owner, self.is_whole = time_ms, owner, is_whole
        self.streams: dict[str, Stream] = {}


class Addition(NamedTuple):
    """The effect of one call of `appended` on a stream of the overlay: runs `before` and `after`.

    `stream` is the overlay's own; when the overlay was dropped since, it has another one, or none.
    """

    key: tuple[str, str]
    stream: Stream
    before: tuple[Run, ...]
    after: tuple[Run, ...]
