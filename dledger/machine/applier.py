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
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from commitlog.files.system import Buffer
from dledger.errors import CommandRefused, ResultNotKept, StateMachineFailed
from dledger.machine.agreement import Agreement
from dledger.machine.batch import Batch
from dledger.machine.entries import (
    COMMANDS_MAX,
    HEAD_SIZE,
    LATER,
    OTHER,
    Kind,
    Row,
    Run,
    commands_of,
    opened,
    runs_of,
)
from dledger.machine.given import Given, give, resumed
from dledger.machine.sessions import NOT_KEPT, Sessions, Verdict
from dledger.machine.state_head import StateHead
from dledger.machine.state_machine import (
    Entry,
    ReplicatedStateMachine,
    check_methods,
    has_checksum,
    json_bytes,
    say,
)
from dledger.replica.envelope import is_noop
from dledger.snapshots.state_file import StateFile

C = TypeVar("C")
R = TypeVar("R")

_DONE, _REFUSED = b"\0", b"\1"
# Members of enumerations as constants: finding one in its class costs more than comparing it.
_APPLY, _OPEN, _COMMAND = Verdict.APPLY, int(Kind.OPEN), int(Kind.COMMAND)
_COMMANDS = int(Kind.COMMANDS)
#: Old results are dropped before each entry whose index is a multiple of this. With results of at
#: most a MiB, up to so many MiB above the limit are kept in between.
SHRINK_EVERY = COMMANDS_MAX


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
        check_methods(machine)
        self.machine = machine
        self.sessions = Sessions(results_bytes_max=machine.results_bytes_max)
        self._agreement, self._voters = agreement, voters
        self._told, self._applied = told, applied
        is_json = type(machine).encode_result is ReplicatedStateMachine.encode_result
        self._encode_result = json_bytes if is_json else machine.encode_result
        self._has_batches = type(machine).apply_batch is not ReplicatedStateMachine.apply_batch
        self._has_checksum = has_checksum(machine)
        self._time_ms = 0
        #: The log's time of the last search for expired sessions; -1: search again.
        self._looked_ms = -1
        #: Admitted commands, to be applied together.
        self._batch = Batch(machine.decode)
        #: Commands that this process has applied.
        self.count = 0
        #: Highest index that the state holds.
        self.applied = -1
        #: That of a state which a thread gives the machine, -1 for none.
        self.restoring = -1
        #: False while an entry or a state is taken in part; one that raises stops the node.
        self.is_whole = True

    def apply(self, entries: Iterable[Row], *, leads: bool) -> None:
        """Entries (index, term, body) in order. Raises StateMachineFailed, StateMachineDiverged."""
        rows, index = iter(entries), self.applied
        self.is_whole = False
        for row in rows:
            index = row[0]
            if index % SHRINK_EVERY == 0:
                self._flush(leads)
                self.sessions.shrink()
            size = SHRINK_EVERY - index % SHRINK_EVERY
            if self._has_checksum:
                size = self._agreement.up_to_end(index, size)
                if self._agreement.ends_before(index):
                    self._flush(leads)
                    self._compare_state(index, leads)
            piece = [row, *islice(rows, size - 1)]
            index += len(piece) - 1
            assert piece[-1][0] == index, "the log has no gaps"
            self._apply_piece(piece, leads)
        self._flush(leads)
        self.applied, self.is_whole = index, True

    def _apply_piece(self, piece: Sequence[Row], leads: bool) -> None:
        """Entries among which no results are given up."""
        begin = 0
        for run in runs_of(piece):
            rows = piece[begin : run.end]
            if run.session < 0 or not self._admit_run(run, rows):
                self._apply_each(rows, leads)
            begin = run.end

    def _admit_run(self, run: Run, rows: Sequence[Row]) -> bool:
        """Add commands of one proposal to the batch, if all of them are new; else add none."""
        time_ms = self._at_time(run.time_ms)
        sequences = range(run.sequence, run.sequence + len(rows))
        if not self.sessions.admit_run(run.session, sequences, run.lowest, time_ms):
            return False
        commands = [(place, term, bytes(body[HEAD_SIZE:])) for place, term, body in rows]
        self._batch.add(run.session, sequences, commands, time_ms)
        return True

    def _at_time(self, time_ms: int) -> int:
        """The log's time at an entry with this stamp; sessions that are idle by it have expired."""
        if time_ms < self._time_ms:
            time_ms = self._time_ms
        if time_ms != self._looked_ms:
            self._time_ms = self._looked_ms = time_ms
            self.sessions.expire(time_ms)
        return time_ms

    def _apply_each(self, rows: Sequence[Row], leads: bool) -> None:
        admit = self.sessions.admit
        for index, term, body, kind, stamp, session, sequence, lowest in opened(rows):
            if kind <= OTHER:
                self._pass_over(index, body, kind)
                continue
            time_ms = self._at_time(stamp)
            if kind == _OPEN:
                self._flush(leads)
                self.sessions.open(index, time_ms)
                self._looked_ms = -1
                self._told(Told(kind, 0, sequence, index))
                continue
            if kind == _COMMANDS:
                self._flush(leads)
                self.sessions.shrink()
                self._admit_all((index, term, body), session, sequence, lowest, time_ms)
                self._flush(leads)
                continue
            verdict = admit(session, sequence, lowest, time_ms)
            if verdict is _APPLY:
                if kind == _COMMAND:
                    command = (index, term, bytes(body[HEAD_SIZE:]))
                    self._batch.add(session, [sequence], [command], time_ms)
                else:
                    self._flush(leads)
                    self._compare(session, sequence, bytes(body[HEAD_SIZE:]))
            elif verdict is Verdict.NO_SESSION:
                self._flush(leads)
                self._told(Told(kind, session, sequence, index))

    def _admit_all(self, row: Row, session: int, sequence: int, lowest: int, time_ms: int) -> None:
        """Add those of an entry's commands that are new to the batch, which is empty.

        Each has its number, whatever becomes of those before it.
        """
        index, term, body = row
        try:
            commands = commands_of(body)
        except ValueError as error:
            raise StateMachineFailed(index, f"the entry is of no release: {error}") from error
        batch, sequences = self._batch, range(sequence, sequence + len(commands))
        first = batch.first_number(index)
        rows = [(index, term, command) for command in commands]
        if self.sessions.admit_run(session, sequences, lowest, time_ms):
            batch.add(session, sequences, rows, time_ms)
            return
        for at, one in enumerate(sequences):
            batch.number = first + at - 1
            verdict = self.sessions.admit(session, one, lowest, time_ms)
            if verdict is _APPLY:
                batch.add(session, [one], rows[at : at + 1], time_ms)
            elif verdict is Verdict.NO_SESSION:
                self._told(Told(_COMMAND, session, one, index))
        batch.number = first + len(commands) - 1

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
        self.sessions.keep(session, [sequence], [_DONE])
        self._applied(session, [(sequence, None)])
        self._agreement.published(data, self._voters())

    def _compare_state(self, index: int, leads: bool) -> None:
        """Note, and as the leader publish, the state's checksum before this entry."""
        try:
            checksum = self.machine.checksum()
            self._agreement.state_is(index, checksum, leads=leads)
        except Exception as error:  # by the user's code, or a number that is too large
            raise StateMachineFailed(index - 1, f"checksum raised {say(error)}") from error

    def _flush(self, leads: bool) -> None:
        """Apply the batch, keep its results, and report them session by session."""
        entries, places, runs = self._batch.take()
        if not entries:
            return
        results = self._results(entries, places)
        self.count += len(entries)
        noted = self._encoded(places, results)
        kept, told = self._bounded(noted, results)
        begin = 0
        for session, sequences in runs:
            end = begin + len(sequences)
            self.sessions.keep(session, sequences, kept[begin:end])
            self._applied(session, list(zip(sequences, told[begin:end], strict=True)))
            begin = end
        # Last: it may propose an entry, and reported results have made a place for that.
        if len(places) > 1 and places[0] == places[-1]:
            places, noted = places[:1], [_joined(noted)]
        self._agreement.note(places, noted, leads=leads)

    def _encoded(self, places: Sequence[int], results: Sequence[R | CommandRefused]) -> list[bytes]:
        encode = self._encode_result
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
                places[at],
                f"a result of type {type(results[at]).__name__} has no bytes: {say(error)}",
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

    def _results(
        self, entries: Sequence[Entry[C]], places: Sequence[int]
    ) -> Sequence[R | CommandRefused]:
        if self._has_batches:
            return self._results_at_once(entries, places[0], places[-1])
        apply = self.machine.apply
        results: list[R | CommandRefused] = []
        for entry in entries:
            try:
                results.append(apply(entry))
            except CommandRefused as refused:
                results.append(refused)
            except Exception as error:  # whatever it is, the state may be half changed
                raise StateMachineFailed(places[len(results)], say(error)) from error
        return results

    def _results_at_once(
        self, entries: Sequence[Entry[C]], first: int, last: int
    ) -> Sequence[R | CommandRefused]:
        try:
            results = list(self.machine.apply_batch(entries))  # any sequence: it is cut in pieces
        except Exception as error:  # as above
            raise StateMachineFailed(first, f"{say(error)}, applying up to {last}") from error
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
        """Sessions, numbers and the log's time, to be written in front of the machine's state."""
        return StateHead(self.applied, self._time_ms, self.number, self.sessions.dump()).pack()

    @property
    def number(self) -> int:
        """The number of the last command, or the highest index that the state holds."""
        return max(self._batch.number, self.applied)

    @property
    def shares_entries(self) -> bool:
        """Several commands of one entry have taken numbers beyond the places in the log."""
        return self._batch.number > self.applied

    def load(self, data: bytes | StateFile, index: int) -> None:
        """Load sessions, the log's time and the machine's state as of entry `index`.

        `data`: the bytes of `head` and the state behind them. Raises StateMachineFailed.
        """
        self.begin(index)
        self.adopt(give(self.machine, data, index))

    def begin(self, index: int) -> None:
        """A state as of entry `index` is given to the machine; `adopt` follows."""
        self.is_whole, self.restoring = False, index

    def adopt(self, given: Given) -> None:
        """The machine has a state: go on behind it. Raises StateMachineFailed."""
        given.end()
        head, self.sessions, _ = given
        self.applied, self._time_ms = head.index, head.time_ms
        self._batch.number = head.number
        self._looked_ms, self.restoring, self.is_whole = -1, -1, True
        self._agreement.began_at(head.index)

    def resume(self, head: bytes, index: int) -> None:
        """As `load`, for a machine that has its state as of entry `index` already."""
        self.begin(index)
        self.adopt(resumed(self.machine, head, index))


class Found(NamedTuple):
    """Wraps a known result, so that the result None differs from no result."""

    result: Any


def _joined(results: Sequence[bytes]) -> bytes:
    """The results of the commands of one entry, as one."""
    return b"".join((struct.pack(f">{len(results)}I", *map(len, results)), *results))


def _not_kept(why: str) -> ResultNotKept:
    return ResultNotKept(
        f"a command was applied and its result {why}; read the state, and have apply return less"
    )
