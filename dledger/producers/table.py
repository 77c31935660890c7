"""The table of producers: recognises a retry, so that a message is stored once (rule R8).

    producer  drawn at random by a client for one run of it
    stream    what its numbers count in: "topic/queue" for a broker, anything for an embedder
    sequence  0, 1, 2, … without a gap per (producer, stream), one per entry; producers that number
              by batches leave gaps before a batch's row 0 (`commitlog.records.producer_numbers`)

        sequences   0 ─────────── committed ─────────── uncommitted ──► next
                    └── applied layer ──┘└── overlay (leader only) ──┘

Two layers (rule R9). The *applied* layer is a fold over committed entries and equal on every
replica: it depends on the log alone. The *overlay* holds what this leader appended and what stood
between applied and last when its leadership began; it is dropped when the leadership ends.

A duplicate is answered only when its original commits: `check` tells up to which index to wait, so
a retried batch whose first half survived a crash is completed and answered as a whole.

How a leader uses it:

    skip, wait_for, _ = table.check(producer, stream, sequence, count)  # or SequenceGap, …
    … append the entries from number `skip` on …
    table.appended(producer, stream, sequence + skip, count - skip, first_index)
    … answer when applied ≥ max(wait_for, index of the last one appended) …

and every replica: `table.committed(…)` in log order, from `apply`.

`appended` returns what it added. A leader whose entries are refused (certainly not written) gives
that to `take_back`, the newest first. Nothing else of the overlay can be undone that way: entries
that are settled and not folded yet stand in no other place. `owned` says whose an id is, for a
service that knows its clients by accounts.

Bounded: by producers, by streams, and by age in the log's own time. Over a number the least
recently used producer of the owner that has most goes first (`owners.py`), over the age the
least recently used of all, with all its streams and its owner. Its next entry is then refused as
`OutcomeUnknown`, never taken twice; if one is on the way, its numbers and the owner come back with
it. In the producer's other streams the table tells no gap then: what is missing may be stored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from commitlog.records.producer_numbers import begins_batch
from dledger.core.types import NO_INDEX, Index
from dledger.errors import OutcomeUnknown, SequenceGap
from dledger.producers.owners import Departed, Shares
from dledger.producers.runs import Addition, Producer, Run, Stream, run_at

PRODUCERS_MAX = 10_000
#: About 250 bytes each: 25 MB at most.
STREAMS_MAX = 100_000
#: As Kafka's transactional ids: a week of log time.
IDLE_MS_MAX = 7 * 24 * 3600 * 1000


class Admission(NamedTuple):
    """The decision about `count` offered entries: skip the first ones, append the rest.

    `skip`: so many from the front are in the log already (maybe all of them).
    `wait_for`: an answer must wait until this index is applied, -1 when nothing is skipped.
    `first_index`: index of the first skipped entry, -1 when that is not known (see `run_of`).
    """

    skip: int
    wait_for: Index
    first_index: Index


_FRESH = Admission(0, NO_INDEX, NO_INDEX)


class ProducerTable:
    """Pure; one per replica. Not thread-safe: used on the replica's thread."""

    def __init__(
        self,
        *,
        producers_max: int = PRODUCERS_MAX,
        streams_max: int = STREAMS_MAX,
        idle_ms_max: int = IDLE_MS_MAX,
    ) -> None:
        assert producers_max > 0
        assert streams_max > 0
        self._producers_max, self._streams_max = producers_max, streams_max
        self._idle_ms_max = idle_ms_max
        self._applied: OrderedDict[str, Producer] = OrderedDict()  # least recently used first
        self._streams = 0
        self._shares, self._departed = Shares(), Departed(producers_max)
        self._overlay: dict[tuple[str, str], Stream] = {}
        #: Told of each producer that is forgotten, with its streams.
        self.forgot: Callable[[str, Iterable[str]], None] = _nobody_hears

    def __len__(self) -> int:
        """Producers in the applied layer."""
        return len(self._applied)

    def next_sequence(self, producer: str, stream: str) -> int:
        """The number that must come next, uncommitted entries counted; 0 for an unknown one."""
        over = self._overlay.get((producer, stream))
        if over is not None:
            return over.last + 1
        under = self._find(producer, stream)
        return 0 if under is None else under.last + 1

    def check(self, producer: str, stream: str, sequence: int, count: int = 1) -> Admission:
        """May entries numbered `sequence`.. be appended? Leaves the table as it is.

        Raises SequenceGap when an earlier one is missing, and OutcomeUnknown when it may be stored:
        the producer says that it has sent before, and what it sent may have been forgotten.
        """
        assert count > 0
        assert sequence >= 0
        over = self._overlay.get((producer, stream))
        under = None if over is not None else self._find(producer, stream)
        known = over or under
        expected = 0 if known is None else known.last + 1
        if sequence == expected:
            return _FRESH
        if sequence > expected:
            if begins_batch(producer, sequence):
                return _FRESH
            if known is None and not (self._has_sent(producer) and self._is_whole(producer)):
                raise OutcomeUnknown(
                    f"nothing is known of producer {producer} any more in {stream}, so its number "
                    f"{sequence} may be stored already; look for it, or send it as a new producer"
                )
            raise SequenceGap(producer, expected, sequence)
        skip = min(count, expected - sequence)
        return Admission(
            skip,
            self._wait_for(producer, stream, sequence + skip - 1),
            self._index_of(producer, stream, sequence),
        )

    def appended(
        self,
        producer: str,
        stream: str,
        sequence: int,
        count: int,
        first_index: Index,
        last_index: Index | None = None,
    ) -> Addition | None:
        """The leader has appended entries numbered `sequence`.. at indexes `first_index`.. .

        `last_index`: where the last one is, when others stand between them. Returns what
        `take_back` needs, None when `count` is 0.
        """
        if not count:
            return None
        following = self.next_sequence(producer, stream)
        key = (producer, stream)
        over = self._overlay.get(key)
        forgotten = over is None and self._find(producer, stream) is None
        assert sequence == following or (
            sequence > following and (begins_batch(producer, sequence) or forgotten)
        ), "checked before it was appended; the producer may be forgotten since"
        run = run_at(sequence, count, first_index, last_index)
        before: tuple[Run, ...] = ()
        if over is None:
            over = self._overlay[key] = Stream(run)
        else:
            before = tuple(over.runs)
            over.extend(run)
        return Addition(key, over, before, tuple(over.runs))

    def take_back(self, addition: Addition) -> None:
        """The entries of this addition were refused: as if `appended` had not been called.

        The newest addition to a stream goes first. Harmless after `drop_uncommitted`.
        """
        over = self._overlay.get(addition.key)
        if over is not addition.stream:
            return  # dropped with its leadership
        assert tuple(over.runs) == addition.after, "only the newest addition can be taken back"
        under = self._find(*addition.key)
        applied = -1 if under is None else under.last
        if addition.before and addition.before[-1].last > applied:
            over.runs[:] = addition.before
        else:
            del self._overlay[addition.key]

    def committed(
        self,
        producer: str,
        stream: str,
        sequence: int,
        index: Index,
        time_ms: int,
        count: int = 1,
        last_index: Index | None = None,
    ) -> None:
        """Fold `count` committed entries into the applied layer; called in log order.

        They stand at `index`.. in a row, or up to `last_index` with others between them.

        `time_ms` is the stamp in the log (never this machine's clock), so that every replica
        forgets the same producers.
        """
        found = self._heard(producer, time_ms)
        last = sequence + count - 1
        under = found.streams.get(stream)
        if under is None:
            found.streams[stream] = Stream(run_at(sequence, count, index, last_index))
            self._streams += 1
            self._shares.grew(found.owner)
        elif last > under.last:
            under.extend(run_at(sequence, count, index, last_index))
        over = self._overlay.get((producer, stream))
        if over is not None and over.last <= last:
            del self._overlay[producer, stream]
        self._forget(time_ms)

    def owned(self, producer: str, owner: str, time_ms: int) -> None:
        """Fold a committed record: the id belongs to `owner` until its numbers are forgotten."""
        self._give(producer, self._heard(producer, time_ms), owner)
        self._forget(time_ms)

    def owner(self, producer: str) -> str | None:
        """The id's owner, also while a number of it is on the way; None: no one, or unknown."""
        found = self._applied.get(producer)
        if found is not None:
            return found.owner
        owner = self._departed.owner(producer)
        return owner if owner is not None and self._has_sent(producer) else None

    def __contains__(self, producer: str) -> bool:
        """Is anything known of it, uncommitted entries counted?"""
        return producer in self._applied or self._has_sent(producer)

    def has_capacity(self, producers: int, streams: int, time_ms: int) -> bool:
        """True if so many new producers and streams fit until log time `time_ms`, none forgotten.

        Then `committed` may be called for a whole batch of entries per stream, in the order of
        their last entries, with the same result as for each entry.
        """
        if not self._applied:
            return True
        oldest = next(iter(self._applied.values()))
        return (
            len(self._applied) + producers <= self._producers_max
            and self._streams + streams <= self._streams_max
            and oldest.time_ms >= time_ms - self._idle_ms_max
        )

    def drop_uncommitted(self) -> None:
        """The leadership ended, or begins: forget all that is not committed (R9).

        A new leader then calls `appended` for each entry in (applied, last] before its first own.
        """
        self._overlay.clear()

    def export(self) -> Iterator[tuple[str, int, str, Run]]:
        """Applied layer as (producer, time_ms, stream, run), oldest first, for snapshots."""
        for producer, state in self._applied.items():
            for stream, found in state.streams.items():
                for run in found.runs:
                    yield producer, state.time_ms, stream, run

    def export_owners(self) -> Iterator[tuple[int, str, int, str]]:
        """Owned ids as (place among all producers, id, time_ms, owner), oldest first."""
        for place, (producer, it) in enumerate(self._applied.items()):
            if it.owner is not None:
                yield place, producer, it.time_ms, it.owner

    def export_departed(self) -> Iterator[tuple[str, str | None]]:
        """(id, owner) of producers that were pushed out, oldest first."""
        return self._departed.rows()

    def export_partly_known(self) -> tuple[list[str], bool]:
        """(ids of which streams were forgotten, may the same be true of every id that comes?)."""
        partly = [producer for producer, it in self._applied.items() if not it.is_whole]
        return partly, not self._departed.is_complete

    def restore_owners(self, rows: Iterable[tuple[int, str, int, str]]) -> None:
        """Take rows of `export_owners`, after `committed` was called for the rows of `export`."""
        order = list(self._applied)
        for place, producer, time_ms, owner in rows:
            if producer not in self._applied:  # it has an owner, and no numbers yet
                self._applied[producer] = Producer(time_ms, None, is_whole=True)
                order.insert(place, producer)
            self._applied[producer].owner = owner
        self._applied = OrderedDict((producer, self._applied[producer]) for producer in order)
        self._shares = Shares()
        for producer, it in self._applied.items():
            self._shares.heard(it.owner, producer)
            for _ in it.streams:
                self._shares.grew(it.owner)

    def restore_forgotten(
        self,
        departed: Iterable[tuple[str, str | None]],
        partly: Iterable[str] | None,
        *,
        all_may_be: bool,
    ) -> None:
        """Take over `export_departed` and `export_partly_known`, after the owners.

        `partly` None: that was not written down.
        """
        for producer, owner in departed:
            self._departed.add(producer, owner)
        for producer in self._applied if partly is None else partly:
            self._applied[producer].is_whole = False
        self._departed.is_complete = self._departed.is_complete and not all_may_be

    def _heard(self, producer: str, time_ms: int) -> Producer:
        """The producer's row, made if need be; it becomes the most recently used one."""
        found = self._applied.get(producer)
        if found is None:
            is_whole = self._is_whole(producer)
            owner = self._departed.take(producer)
            found = self._applied[producer] = Producer(time_ms, owner, is_whole=is_whole)
        else:
            self._applied.move_to_end(producer)
            found.time_ms = max(found.time_ms, time_ms)
        self._shares.heard(found.owner, producer)
        return found

    def _give(self, producer: str, found: Producer, owner: str) -> None:
        self._shares.moved(producer, len(found.streams), found.owner, owner)
        found.owner = owner

    def _find(self, producer: str, stream: str) -> Stream | None:
        found = self._applied.get(producer)
        return None if found is None else found.streams.get(stream)

    def _has_sent(self, producer: str) -> bool:
        """Are any of its numbers known, uncommitted ones counted? Asked before an error only."""
        found = self._applied.get(producer)
        if found is not None and found.streams:
            return True
        return any(key[0] == producer for key in self._overlay)

    def _is_whole(self, producer: str) -> bool:
        """Are all streams known that it has opened?"""
        found = self._applied.get(producer)
        if found is not None:
            return found.is_whole
        return self._departed.is_complete and producer not in self._departed

    def _runs(self, producer: str, stream: str) -> Iterator[Run]:
        for layer in (self._find(producer, stream), self._overlay.get((producer, stream))):
            if layer is not None:
                yield from layer.runs

    def _wait_for(self, producer: str, stream: str, sequence: int) -> Index:
        """Index at which `sequence` is in the log for certain.

        Indexes grow with sequences, so the next known run serves when its own is forgotten.
        """
        for run in self._runs(producer, stream):
            if run.last >= sequence:
                if run.is_dense:
                    return Index(run.first_index + max(0, sequence - run.first))
                return run.last_index if sequence >= run.first else run.first_index
        raise AssertionError("the newest run ends at the last sequence")

    def run_of(self, producer: str, stream: str, sequence: int) -> Run | None:
        """The run that holds `sequence`, None when that is no longer known."""
        for run in self._runs(producer, stream):
            if run.first <= sequence <= run.last:
                return run
        return None

    def _index_of(self, producer: str, stream: str, sequence: int) -> Index:
        run = self.run_of(producer, stream, sequence)
        if run is None or not run.is_dense:
            return NO_INDEX
        return Index(run.first_index + sequence - run.first)

    def _forget(self, now_ms: int) -> None:
        """Evict whole producers, numbers and owner together."""
        applied = self._applied
        while len(applied) > 1:
            producer = self._superfluous(now_ms)
            if producer is None:
                return
            gone = applied.pop(producer)
            self._streams -= len(gone.streams)
            self._shares.gone(gone.owner, producer, len(gone.streams))
            self._departed.add(producer, gone.owner)
            self.forgot(producer, gone.streams)

    def _superfluous(self, now_ms: int) -> str | None:
        """Which producer has to go next, None when all may stay."""
        producer, oldest = next(iter(self._applied.items()))
        if oldest.time_ms < now_ms - self._idle_ms_max:
            return producer
        if len(self._applied) > self._producers_max:
            return self._shares.with_most_producers(self._applied)
        if self._streams > self._streams_max:
            return self._shares.with_most_streams(self._applied)
        return None


def _nobody_hears(producer: str, streams: Iterable[str]) -> None:
    """Until a leader keeps something about producers beside this table."""
