"""A machine under test: how it is made, the commands and questions of clients, the answers.

    draw  ─► commands ─► machine.apply ─┐                  ┌─ model.apply, of its own text
    ask   ─► questions ─► look(machine) ┴─► the judge ◄────┴─ model.look

Without a model the judge asks a fresh machine of the same class: that finds what faults of the
group do to it, and no rule that the machine gets wrong everywhere alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from dledger.machine.state_machine import Entry, ReplicatedStateMachine

MakeMachine = Callable[[], ReplicatedStateMachine[Any, Any]]
#: Draws a command or a question; the number counts up, for values that are to be one of a kind.
Draw = Callable[[Random, int], Any]
#: (machine, question) → the finding.
Look = Callable[[Any, Any], Any]


class Model(Protocol):
    """The machine's rules, written to be seen through and not to be fast."""

    def apply(self, entry: Entry[Any]) -> Any:
        """The machine's result. Raises CommandRefused where it refuses, in whichever words."""
        ...

    def look(self, question: Any) -> Any:
        """The finding of `Subject.look` in a machine that has applied the same."""
        ...


def look_at_nothing(machine: object, question: object) -> None:
    """Has no effect; for machines without questions."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One kind of machine.

    Attributes:
        make: a new one, as each process begins with.
        draw: the next command of a client.
        ask: the next question of a client that reads; None: nobody reads.
        look: (machine, question) → the finding: a copy, compared by `==`.
        model: makes a model; None: a fresh machine takes its place.
    """

    make: MakeMachine
    draw: Draw
    ask: Draw | None = None
    look: Look = look_at_nothing
    model: Callable[[], Model] | None = None
