"""Applies committed entries to the user's machine, each command once, and reports results. Pure.

    entries ─► open ─► session: new? ─► a batch ─► machine.apply ─► results ─► sessions, agreement
                          ├ a duplicate: no effect                                   └─► `applied`
                          └ no such session: `told`, so that its opener opens another

The log's time is the largest wall clock of a leader so far: it never runs back, and it is the same
on every node and after each restart.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

from commitlog.files.system import Buffer
from dledger.errors import CommandRefused, ResultNotKept, StateMachineFailed
from dledger.machine.agreement import Agreement
from dledger.machine.entries import HEAD_SIZE, LATER, OTHER, Kind, opened
from dledger.machine.sessions import NOT_KEPT, Sessions, Verdict
from dledger.machine.state_machine import Entry, ReplicatedStateMachine
from dledger.replica.envelope import is_noop

C = TypeVar("C")
R = TypeVar("R")

_DONE, _REFUSED = b"\0", b"\1"
# Members of enumerations as constants: finding one in its class costs more than comparing it.
_APPLY, _OPEN, _COMMAND = Verdict.APPLY, int(Kind.OPEN), int(Kind.COMMAND)
#: Old results are dropped before each entry whose index is a multiple of this. With results of at
#: most a MiB, up to so many MiB above the limit are kept in between.
SHRINK_EVERY = 64
_STATE = struct.Struct(">4sIqqQ")
_STATE_MAGIC, _STATE_VERSION = b"DLRS", 1


class Told(NamedTuple):
    """An event of a session that is not a result.

    Kind OPEN: request `sequence` opened the session `index`. Other kinds: the session has ended, so
    the command `sequence` was not applied.
    """

    kind: int
    session: int
    sequence: int
    index: int  # type: ignore[assignment]  # hides tuple.index


Results = Sequence[tuple[int, object]]
"""(sequence, result) of commands of one session, in order; a `CommandRefused` is a result."""

_Admitted = tuple[int, int, int, int, int, bytes]
"""A command to be applied: index, term, log's time in ms, session, sequence, bytes."""


class Applier(Generic[C, R]):
    """The applier of one node; see the module's text."""

    def __init__(
        self,
        machine: ReplicatedStateMachine[C, R],
        agreement: Agreement,
        told: Callable[[Told], None],
        applied: Callable[[int, Results], None],
        voters: Callable[[], Collection[str]],
    ) -> None:
        """`applied(session, results)`: called for all commands, in order; `told`: for commands
        that were not applied, and for sessions; `voters`: returns the group's voters.
        """
        self.machine = machine
        self.sessions = Sessions(results_bytes_max=machine.results_bytes_max)
        self._agreement, self._voters = agreement, voters
        self._told, self._applied = told, applied
        self._has_batches = type(machine).apply_batch is not ReplicatedStateMachine.apply_batch
        self._time_ms = 0
        #: The log's time of the last search for expired sessions; -1: search again.
        self._looked_ms = -1
        self._batch: list[_Admitted] = []
        #: Highest index that the state holds.
        self.applied = -1

    def apply(self, entries: Iterable[tuple[int, int, Buffer]], *, leads: bool) -> None:
        """Entries (index, term, body) in order. Raises StateMachineFailed, StateMachineDiverged."""
        index, admit = self.applied, self.sessions.admit
        for index, term, body, kind, time_ms, session, sequence, lowest in opened(entries):
            if index % SHRINK_EVERY == 0:
                self._flush(leads)
                self.sessions.shrink()
            if kind <= OTHER:
                self._pass_over(index, body, kind)
                continue
            if time_ms < self._time_ms:
                time_ms = self._time_ms
            if time_ms != self._looked_ms:
                self._time_ms = self._looked_ms = time_ms
                self.sessions.expire(time_ms)
            if kind == _OPEN:
                self._flush(leads)
                self.sessions.open(index, time_ms)
                self._looked_ms = -1
                self._told(Told(kind, 0, sequence, index))
                continue
            verdict = admit(session, sequence, lowest, time_ms)
            if verdict is _APPLY:
                data = bytes(body[HEAD_SIZE:])
                if kind == _COMMAND:
                    self._batch.append((index, term, time_ms, session, sequence, data))
                else:
                    self._flush(leads)
                    self._compare(session, sequence, data)
            elif verdict is Verdict.NO_SESSION:
                self._flush(leads)
                self._told(Told(kind, session, sequence, index))
        self._flush(leads)
        self.applied = index

    def _pass_over(self, index: int, body: Buffer, kind: int) -> None:
        if kind == LATER:
            raise StateMachineFailed(
                index, "a later release wrote the entry; run that release on this node, too"
            )
        if not is_noop(body):
            raise StateMachineFailed(
                index,
                "the entry was not proposed through a machine; start machines on logs of their own",
            )

    def _compare(self, session: int, sequence: int, data: bytes) -> None:
        """Compare the results of a window that a node has published with this node's."""
        self.sessions.keep(session, [(sequence, _DONE)])
        self._applied(session, [(sequence, None)])
        self._agreement.published(data, self._voters())

    def _flush(self, leads: bool) -> None:
        """Apply the batch, keep its results, and report them session by session."""
        batch = self._batch
        if not batch:
            return
        self._batch = []
        results = self._results(batch)
        noted = self._encoded(batch, results)
        indexes, _, _, sessions, sequences, _ = zip(*batch, strict=True)
        kept, told = self._bounded(noted, results)
        begin = 0
        for session, run in groupby(sessions):
            end = begin + len(list(run))
            own = sequences[begin:end]
            self.sessions.keep(session, list(zip(own, kept[begin:end], strict=True)))
            self._applied(session, list(zip(own, told[begin:end], strict=True)))
            begin = end
        # Last: it may propose an entry, and reported results have made a place for that.
        self._agreement.note(zip(indexes, noted, strict=True), leads=leads)

    def _encoded(
        self, batch: Sequence[_Admitted], results: Sequence[R | CommandRefused]
    ) -> list[bytes]:
        encode = self.machine.encode_result
        encoded: list[bytes] = []
        try:
            for result in results:
                if isinstance(result, CommandRefused):
                    encoded.append(_REFUSED + result.happened.encode())
                else:
                    encoded.append(_DONE + encode(result))
        except Exception as error:  # by the user's code, or of a type that has no JSON
            at = len(encoded)
            raise StateMachineFailed(
                batch[at][0], f"the result {results[at]!r} has no bytes: {_say(error)}"
            ) from error
        return encoded

    def _bounded(
        self, encoded: list[bytes], results: Sequence[object]
    ) -> tuple[Sequence[bytes], Sequence[object]]:
        """Results as they are kept and as they are told; of one that is too large, only that."""
        size_max = self.machine.result_bytes_max
        if max(map(len, encoded)) <= size_max:
            return encoded, results
        kept, told = list(encoded), list(results)
        for at, data in enumerate(encoded):
            if len(data) > size_max:
                kept[at] = NOT_KEPT
                told[at] = _not_kept(f"has {len(data)} bytes and {size_max} are allowed")
        return kept, told

    def _results(self, batch: Sequence[_Admitted]) -> Sequence[R | CommandRefused]:
        entries = self._decoded(batch)
        if self._has_batches:
            return self._results_at_once(entries)
        apply = self.machine.apply
        results: list[R | CommandRefused] = []
        for entry in entries:
            try:
                results.append(apply(entry))
            except CommandRefused as refused:
                results.append(refused)
            except Exception as error:  # whatever it is, the state may be half changed
                raise StateMachineFailed(entry.index, _say(error)) from error
        return results

    def _decoded(self, batch: Sequence[_Admitted]) -> list[Entry[C]]:
        decode = self.machine.decode
        entries: list[Entry[C]] = []
        try:
            for index, term, time_ms, _, _, data in batch:
                entries.append(Entry(index, term, time_ms, decode(data)))
        except Exception as error:  # by the user's code
            index = batch[len(entries)][0]
            raise StateMachineFailed(index, f"decode raised {_say(error)}") from error
        return entries

    def _results_at_once(self, entries: Sequence[Entry[C]]) -> Sequence[R | CommandRefused]:
        first, last = entries[0].index, entries[-1].index
        try:
            results = list(self.machine.apply_batch(entries))  # any sequence: it is cut in pieces
        except Exception as error:  # as above
            raise StateMachineFailed(first, f"{_say(error)}, applying up to {last}") from error
        if len(results) != len(entries):
            raise StateMachineFailed(
                first, f"apply_batch returned {len(results)} results for {len(entries)} entries"
            )
        return results

    # -- states ------------------------------------------------------------------------------------

    def result_of(self, session: int, sequence: int) -> object:
        """The result of a command, as `Found`, from the loaded state; None if it holds none."""
        data = self.sessions.result(session, sequence)
        if data is None:
            return None
        if data == NOT_KEPT:
            return Found(_not_kept("was too large, or was dropped to make space for others"))
        if data[:1] == _REFUSED:
            return Found(CommandRefused(data[1:].decode()))
        return Found(self.machine.decode_result(data[1:]) if data[1:] else None)

    def head(self) -> bytes:
        """The sessions and the log's time, to be written in front of the machine's state.

        magic "DLRS" 4 | version 4 | index 8 | log's time 8 | size 8 | sessions; then the state
        """
        assert not self._batch, "between two calls of `apply`"
        sessions = self.sessions.dump()
        head = _STATE.pack(_STATE_MAGIC, _STATE_VERSION, self.applied, self._time_ms, len(sessions))
        return head + sessions

    def load(self, data: bytes, index: int) -> None:
        """Load sessions, the log's time and the machine's state as of entry `index`.

        `data`: the bytes of `head` and the state behind them. Raises StateMachineFailed.
        """
        try:
            magic, version, applied, time_ms, size = _STATE.unpack_from(data)
            if (magic, version) != (_STATE_MAGIC, _STATE_VERSION):
                raise ValueError(f"version {version} of a state is not of this release")
            if applied != index:
                raise ValueError(f"a state of entry {applied} stands where {index} is wanted")
            self.sessions.load(data[_STATE.size : _STATE.size + size])
            self.machine.restore(data[_STATE.size + size :])
        except Exception as error:  # by the user's code, or of a later release
            raise StateMachineFailed(index, f"restore raised {_say(error)}") from error
        self.applied, self._time_ms = applied, time_ms
        self._looked_ms = -1
        self._agreement.began_at(applied)


class Found(NamedTuple):
    """Wraps a known result, so that the result None differs from no result."""

    result: Any


def _not_kept(why: str) -> ResultNotKept:
    return ResultNotKept(
        f"a command was applied and its result {why}; read the state, and have apply return less"
    )


def _say(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
