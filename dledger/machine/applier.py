"""Committed entries → the user's machine, each command once; results to their callers here. Pure.

    entries ─► open ─► session: new? ─► a batch ─► machine.apply ─► results ─► sessions, agreement
                          ├ a duplicate: nothing                                     └─► told
                          └ no such session: told, so that its opener opens another

The log's time is the largest wall clock of a leader so far: it never runs back, and it is the same
on every node and after each restart.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from commitlog.files.system import Buffer
from dledger.errors import CommandRefused, ResultNotKept, StateMachineFailed
from dledger.machine.agreement import Agreement
from dledger.machine.entries import Command, Kind, open_entry
from dledger.machine.sessions import NOT_KEPT, Sessions, Verdict
from dledger.machine.state_machine import Entry, ReplicatedStateMachine
from dledger.replica.envelope import is_noop

C = TypeVar("C")
R = TypeVar("R")

_DONE, _REFUSED = b"\0", b"\1"
#: Space for results is looked for before each entry whose index this divides: with results of a MiB
#: at most, so many MiB more than allowed are kept at times.
ROOM_EVERY = 64
_STATE = struct.Struct(">4sIqqQ")
_STATE_MAGIC, _STATE_VERSION = b"DLRS", 1


class Told(NamedTuple):
    """The end of a command. `result`: None when its session is gone: it was not applied."""

    kind: int
    session: int
    sequence: int
    index: int  # type: ignore[assignment]  # hides tuple.index
    result: object


class _Admitted(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index
    term: int
    time_ms: int
    command: Command


class Applier(Generic[C, R]):
    """Of one node; see the module's text."""

    def __init__(
        self,
        machine: ReplicatedStateMachine[C, R],
        agreement: Agreement,
        told: Callable[[Told], None],
        voters: Callable[[], Collection[str]],
    ) -> None:
        """`told`: of each command, in order, as it is applied; `voters`: the group as it is."""
        self.machine = machine
        self.sessions = Sessions(results_bytes_max=machine.results_bytes_max)
        self._agreement, self._told, self._voters = agreement, told, voters
        self._has_batches = type(machine).apply_batch is not ReplicatedStateMachine.apply_batch
        self._time_ms = 0
        self._batch: list[_Admitted] = []
        #: Highest index that the state holds.
        self.applied = -1

    def apply(self, entries: Iterable[tuple[int, int, Buffer]], *, leads: bool) -> None:
        """Entries (index, term, body) in order. Raises StateMachineFailed, StateMachineDiverged."""
        index = self.applied
        for index, term, body in entries:
            self._take(index, term, body, leads)
        self._flush(leads)
        self.applied = index

    def _take(self, index: int, term: int, body: Buffer, leads: bool) -> None:
        if index % ROOM_EVERY == 0:
            self._flush(leads)
            self.sessions.shrink()
        try:
            command = open_entry(body)
        except ValueError as error:
            raise StateMachineFailed(index, str(error)) from error
        if command is None:
            if not is_noop(body):
                raise StateMachineFailed(
                    index, "it was appended past the machine; start a machine on a log of its own"
                )
            return
        time_ms = self._time_ms = max(self._time_ms, command.time_ms)
        self.sessions.expire(time_ms)
        if command.kind == Kind.OPEN:
            self._flush(leads)
            self.sessions.open(index, time_ms)
            self._told(Told(Kind.OPEN, 0, command.sequence, index, None))
            return
        session, sequence = command.session, command.sequence
        verdict = self.sessions.admit(session, sequence, command.lowest, time_ms)
        if verdict is Verdict.NO_SESSION:
            self._flush(leads)
            self._told(Told(command.kind, session, sequence, index, None))
        elif verdict is Verdict.APPLY:
            self._batch.append(_Admitted(index, term, time_ms, command))
            if command.kind == Kind.COMPARE:
                self._flush(leads)

    def _flush(self, leads: bool) -> None:
        batch, self._batch = self._batch, []
        if not batch:
            return
        compared = batch.pop() if batch[-1].command.kind == Kind.COMPARE else None
        if batch:
            for admitted, result in zip(batch, self._results(batch), strict=True):
                self._keep(admitted, result, leads)
        if compared is not None:
            command = compared.command
            self.sessions.keep(command.session, command.sequence, _DONE)
            self._tell(compared, None)
            self._agreement.published(command.data, self._voters())

    def _results(self, batch: Sequence[_Admitted]) -> Sequence[R | CommandRefused]:
        first, last = batch[0].index, batch[-1].index
        if not self._has_batches:
            return [self._result(admitted) for admitted in batch]
        entries = [self._entry(admitted) for admitted in batch]
        try:
            results = self.machine.apply_batch(entries)
        except Exception as error:  # whatever it is, the state may be half changed
            raise StateMachineFailed(first, f"{_say(error)}, applying up to {last}") from error
        if len(results) != len(batch):
            raise StateMachineFailed(
                first, f"apply_batch returned {len(results)} results for {len(batch)} entries"
            )
        return results

    def _result(self, admitted: _Admitted) -> R | CommandRefused:
        entry = self._entry(admitted)
        try:
            return self.machine.apply(entry)
        except CommandRefused as refused:
            return refused
        except Exception as error:  # as above
            raise StateMachineFailed(admitted.index, _say(error)) from error

    def _entry(self, admitted: _Admitted) -> Entry[C]:
        index, term, time_ms, command = admitted
        try:
            return Entry(index, term, time_ms, self.machine.decode(command.data))
        except Exception as error:  # by the user's code
            raise StateMachineFailed(index, f"decode raised {_say(error)}") from error

    def _keep(self, admitted: _Admitted, result: R | CommandRefused, leads: bool) -> None:
        data = self._bytes_of(admitted.index, result)
        command = admitted.command
        self._agreement.note(admitted.index, data, leads=leads)
        told: object = result
        if len(data) > self.machine.result_bytes_max:
            told = _not_kept(
                f"has {len(data)} bytes and {self.machine.result_bytes_max} are allowed"
            )
            data = NOT_KEPT
        self.sessions.keep(command.session, command.sequence, data)
        self._tell(admitted, told)

    def _tell(self, admitted: _Admitted, result: object) -> None:
        command = admitted.command
        found = Told(command.kind, command.session, command.sequence, admitted.index, Found(result))
        self._told(found)

    def _bytes_of(self, index: int, result: R | CommandRefused) -> bytes:
        if isinstance(result, CommandRefused):
            return _REFUSED + result.happened.encode()
        try:
            return _DONE + self.machine.encode_result(result)
        except Exception as error:  # by the user's code, or of a type that has no JSON
            raise StateMachineFailed(
                index, f"the result {result!r} has no bytes: {_say(error)}"
            ) from error

    # -- states ------------------------------------------------------------------------------------

    def result_of(self, session: int, sequence: int) -> object:
        """The `Found` result of a command that a state which was taken holds; None: it does not."""
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
        """Take a head and the state behind it, of entry `index`. Raises StateMachineFailed."""
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
        self._agreement.began_at(applied)


class Found(NamedTuple):
    """A result that is there, None included; a `CommandRefused` is one."""

    result: Any


def _not_kept(why: str) -> ResultNotKept:
    return ResultNotKept(
        f"a command was applied and its result {why}; read the state, and have apply return less"
    )


def _say(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
