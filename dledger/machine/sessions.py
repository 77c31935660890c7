"""Sessions: which commands were applied, so that one that comes twice is applied once. Pure.

    session 812   lowest 40   results {41: …, 43: …}      42 is still on its way
                  40 was answered and forgotten            (dissertation 6.3)

    a sequence below lowest            forgotten: its caller has its answer, or has given up
    one that has a result              a duplicate
    one of a session that is not here  never applied: it may have been, before the session went

The table is a fold over the log, so it is the same on every node and part of each snapshot. It is
bounded by rules that need the log alone: a session goes when the log's time is an hour behind its
last command, and the one that was idle longest goes when there are too many. Results that take too
much space are dropped, those of the session that was idle longest first; that their commands were
applied stays known. Space is looked for at certain indexes only (applier.py): nodes apply the same
entries in different batches, and between two entries of a batch the tables differ.
"""

from __future__ import annotations

import enum
import struct
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

#: Each process that proposes has one.
SESSIONS_MAX = 10_000
#: Of the log's time. Its opener opens another one when it has something to propose again.
IDLE_MS_MAX = 3_600_000
#: Commands of one session that are on their way at once; its opener lets no more begin.
WINDOW = 65_536

#: Bytes of all results, each with so many beside its own.
RESULTS_BYTES_MAX, RESULT_OVERHEAD = 64 << 20, 100
#: Kept instead of a result that was given up.
NOT_KEPT = b"\2"

_NONE: Mapping[int, bytes | None] = {}
_COUNT = struct.Struct(">I")
_SESSION = struct.Struct(">qqqI")
_RESULT = struct.Struct(">qI")


class Verdict(enum.Enum):
    """The decision on a command."""

    APPLY = enum.auto()
    DUPLICATE = enum.auto()
    FORGOTTEN = enum.auto()
    NO_SESSION = enum.auto()


_APPLY = Verdict.APPLY
#: No result has these bytes: each begins with a byte that says its kind.
_ABSENT = b""


@dataclass(slots=True)
class Session:
    """`results` by sequence, as bytes; None while the command is being applied."""

    lowest: int
    used_ms: int
    results: dict[int, bytes | None] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes that its results count for."""
        return sum(map(_size, self.results.values()))


class Sessions:
    """The table; see the module's text. Sessions are kept in the order of their last use."""

    def __init__(
        self,
        sessions_max: int = SESSIONS_MAX,
        idle_ms_max: int = IDLE_MS_MAX,
        results_bytes_max: int = RESULTS_BYTES_MAX,
    ) -> None:
        self._sessions_max, self._idle_ms_max = sessions_max, idle_ms_max
        self._results_bytes_max = results_bytes_max
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        #: The session that was used last.
        self._newest = -1
        #: That all results count for.
        self.results_bytes = 0

    def __contains__(self, session: int) -> bool:
        return session in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, session: int, time_ms: int) -> None:
        """A session begins: its number is the index of the entry that opened it."""
        self._sessions[session] = Session(0, time_ms)
        self._newest = session

    def expire(self, time_ms: int) -> None:
        """Let go of those that the rules give up, at the log's time `time_ms`.

        Called again at the same time it finds no more, unless one was opened in between.
        """
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            is_idle = time_ms - oldest.used_ms > self._idle_ms_max
            if not is_idle and len(self._sessions) <= self._sessions_max:
                return
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, gone = self._sessions.popitem(last=False)
        self.results_bytes -= gone.size

    def shrink(self) -> None:
        """Give up results, and then sessions, when they take more than they may; between batches.

        A quarter more than needed, so that it is seldom done.
        """
        if self.results_bytes <= self._results_bytes_max:
            return
        goal = self._results_bytes_max * 3 // 4
        for session in self._sessions.values():
            for sequence, result in session.results.items():
                if self.results_bytes <= goal:
                    return
                assert result is not None, "no space is made in the middle of a batch"
                if len(result) > len(NOT_KEPT):
                    session.results[sequence] = NOT_KEPT
                    self.results_bytes -= len(result) - len(NOT_KEPT)
        while self.results_bytes > goal and len(self._sessions) > 1:
            self._drop_oldest()

    def admit(self, session: int, sequence: int, lowest: int, time_ms: int) -> Verdict:
        """Is this command to be applied? Then it is noted, and `keep` follows."""
        known = self._sessions.get(session)
        if known is None:
            return Verdict.NO_SESSION
        self._use(session, known, lowest, time_ms)
        if sequence in known.results:
            return Verdict.DUPLICATE
        if not known.lowest <= sequence < known.lowest + WINDOW:
            return Verdict.FORGOTTEN
        known.results[sequence] = None
        self.results_bytes += RESULT_OVERHEAD
        return _APPLY

    def admit_run(self, session: int, sequences: range, lowest: int, time_ms: int) -> bool:
        """`admit` of consecutive commands, if all of them are to be applied; else admits none."""
        known = self._sessions.get(session)
        if known is None:
            return False
        least = max(lowest, known.lowest)
        is_in_window = least <= sequences.start and sequences.stop <= least + WINDOW
        if not is_in_window or not known.results.keys().isdisjoint(sequences):
            return False
        self._use(session, known, lowest, time_ms)
        known.results.update(dict.fromkeys(sequences))
        self.results_bytes += RESULT_OVERHEAD * len(sequences)
        return True

    def _use(self, session: int, known: Session, lowest: int, time_ms: int) -> None:
        known.used_ms = time_ms
        if session != self._newest:  # most commands are of the session of the one before
            self._sessions.move_to_end(session)
            self._newest = session
        if lowest > known.lowest:
            self._forget(known, lowest)

    def _forget(self, known: Session, lowest: int) -> None:
        """Let go of the results of commands below `lowest`."""
        passed: Iterable[int] = range(known.lowest, lowest)
        if lowest - known.lowest > WINDOW:
            passed = [done for done in known.results if done < lowest]
        known.lowest = lowest
        gone = list(map(known.results.pop, passed, repeat(_ABSENT)))
        count = len(gone) - gone.count(_ABSENT)
        self.results_bytes -= RESULT_OVERHEAD * count + sum(map(len, filter(None, gone)))

    def keep(self, session: int, sequences: Sequence[int], results: Sequence[bytes]) -> None:
        """The results of admitted commands of a session, in the order of their sequences here."""
        known = self._sessions.get(session)
        if known is None:
            return
        kept = known.results
        if not all(
            map(kept.__contains__, sequences)
        ):  # a later one of the batch has forgotten some
            pairs = zip(sequences, results, strict=True)
            found = [pair for pair in pairs if pair[0] in kept]
            sequences, results = [one for one, _ in found], [result for _, result in found]
        kept.update(zip(sequences, results, strict=True))
        self.results_bytes += sum(map(len, results))

    def results(self, session: int) -> Mapping[int, bytes | None]:
        """All results of a session that are kept, by sequence; none for one that is gone."""
        known = self._sessions.get(session)
        return _NONE if known is None else known.results

    def result(self, session: int, sequence: int) -> bytes | None:
        """The result of an applied command, while it is kept."""
        known = self._sessions.get(session)
        return None if known is None else known.results.get(sequence)

    def dump(self) -> bytes:
        """count 4 | count × (session 8 | lowest 8 | used_ms 8 | results 4 | results × (sequence 8
        | size 4 | bytes))."""
        parts = [_COUNT.pack(len(self._sessions))]
        for number, session in self._sessions.items():
            kept = len(session.results)
            parts.append(_SESSION.pack(number, session.lowest, session.used_ms, kept))
            for sequence, result in session.results.items():
                assert result is not None, "nothing is dumped in the middle of a batch"
                parts += _RESULT.pack(sequence, len(result)), result
        return b"".join(parts)

    def load(self, data: bytes) -> None:
        """Take another table. Raises struct.error for bytes that are none."""
        self._sessions.clear()
        self._newest = -1
        self.results_bytes = 0
        (count,) = _COUNT.unpack_from(data)
        at = _COUNT.size
        for _ in range(count):
            number, lowest, used_ms, kept = _SESSION.unpack_from(data, at)
            at += _SESSION.size
            session = self._sessions[number] = Session(lowest, used_ms)
            for _ in range(kept):
                sequence, size = _RESULT.unpack_from(data, at)
                at += _RESULT.size
                session.results[sequence] = data[at : at + size]
                at += size
            self.results_bytes += session.size


def _size(result: bytes | None) -> int:
    return RESULT_OVERHEAD + (0 if result is None else len(result))
