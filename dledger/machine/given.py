"""A state is given to a machine: its head read, the rest restored; in any thread."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, NamedTuple

from dledger.errors import LaterVersion, StateMachineFailed
from dledger.machine.sessions import Sessions
from dledger.machine.state_head import StateHead, read_head
from dledger.machine.state_machine import ReplicatedStateMachine, say
from dledger.snapshots.state_file import StateFile, buffered

Finish = Callable[[], None]


class Given(NamedTuple):
    """A state that a machine has, and the node's own part of it.

    `finish`: what `restore` returned, to be called where entries are applied.
    """

    head: StateHead
    sessions: Sessions
    finish: Finish | None

    def end(self) -> None:
        """Call `finish`. Raises StateMachineFailed."""
        if self.finish is not None:
            try:
                self.finish()
            except Exception as error:  # by the user's code
                raise _raised(self.head.index, error) from error


def give(
    machine: ReplicatedStateMachine[Any, Any],
    data: bytes | StateFile,
    index: int,
    between: Callable[[], None] | None = None,
) -> Given:
    """Have the machine restore a state as of entry `index`; it is not used otherwise meanwhile.

    `data`: the head and the machine's bytes behind it; `between`: called before each read of the
    machine in a file. Raises StateMachineFailed, OSError.
    """
    if isinstance(data, bytes):
        return _give(machine, file := io.BytesIO(data), index, lambda: machine.restore_from(file))
    with data.open() as raw:
        return _give(machine, raw, index, lambda: machine.restore_from(buffered(raw, between)))


def resumed(machine: ReplicatedStateMachine[Any, Any], head: bytes, index: int) -> Given:
    """As `give`, for a machine that has its state already."""
    return _give(machine, io.BytesIO(head), index, lambda: None)


def _give(
    machine: ReplicatedStateMachine[Any, Any],
    file: io.BytesIO | io.RawIOBase,
    index: int,
    restore: Callable[[], Finish | None],
) -> Given:
    sessions = Sessions(results_bytes_max=machine.results_bytes_max)
    try:
        head = read_head(file, index)
        sessions.load(head.sessions)
        finish = restore()
    except LaterVersion:
        raise
    except Exception as error:  # by the user's code
        raise _raised(index, error) from error
    return Given(head, sessions, finish if callable(finish) else None)


def _raised(index: int, error: Exception) -> StateMachineFailed:
    return StateMachineFailed(index, f"restore raised {say(error)}")
