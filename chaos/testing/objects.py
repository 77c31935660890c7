"""The ready objects as machines under test: how each is made, its clients and its model.

python -m chaos.testing lock 0..300 runs them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from chaos.testing.cluster import CLIENTS, DENSE, NODES, MachineViolation, Report, run_subject
from chaos.testing.models import CounterModel, DictModel, KeyValueModel, LockModel
from chaos.testing.shrink import Case, Shrinking, Shrunk
from chaos.testing.subject import Subject
from dledger.errors import Compacted
from dledger.objects.counter import CounterMachine
from dledger.objects.dictionary import DictMachine
from dledger.objects.kv_machine import Item, KeyValueMachine
from dledger.objects.lock import LockMachine

_KEYS = "abc"
_LEASES_MS = (200, 2000, 60_000)


def _counter(random: Random, number: int) -> int:
    return number


def _total(machine: CounterMachine, question: object) -> int:
    return machine.total


def _dictionary(random: Random, number: int) -> list[Any]:
    key, verb = random.choice(_KEYS), random.choice(("set", "set", "setdefault", "pop", "update"))
    if verb == "pop":
        return [verb, key]
    return [verb, {key: number, "d": -number}] if verb == "update" else [verb, key, number]


def _in_dictionary(machine: DictMachine, question: str) -> Any:
    return dict(machine.values) if question == "items" else machine.values.get(question)


def _lock(random: Random, number: int) -> list[Any]:
    """An election is a lock that its holder renews, so this is its machine, too."""
    verb = random.choice(("acquire", "acquire", "renew", "release"))
    owner = random.choice(("one", "two", "three"))
    return [verb, random.choice(_KEYS), owner, random.choice(_LEASES_MS)]


def _holder(machine: LockMachine, question: str) -> list[Any] | None:
    held = machine.locks.get(question)
    return None if held is None else list(held)


def _kv(random: Random, number: int) -> list[Any]:
    key, verb = random.choice(_KEYS), random.random()
    if verb < 0.15:
        return ["grant", random.choice(_LEASES_MS)]
    if verb < 0.25:
        return [random.choice(("renew", "revoke")), random.randrange(number + 1)]
    if verb < 0.3:
        return ["compact", random.randrange(number)]
    if verb < 0.4:
        return ["look"]
    when = [[key, "revision", random.choice("=<>"), random.randrange(number)]]
    lease = random.randrange(number) if random.random() < 0.5 else 0
    puts = [["put", key, f"j{number}", lease], ["get", "", ""]]
    removal = [["delete", key, key + "\0"], ["put", "d", "j1", 0]]
    return ["transact", when if random.random() < 0.5 else [], puts, removal]


def _kv_question(random: Random, number: int) -> list[Any]:
    verb = random.choice(("get", "range", "revision", "changes", "changes"))
    if verb == "get":
        return [verb, random.choice("abcd")]
    if verb == "range":
        return [verb, random.choice(["", *_KEYS]), random.choice(["", *"cde"]), random.randrange(3)]
    return [verb] if verb == "revision" else [verb, random.randrange(number)]


def _in_kv(machine: KeyValueMachine, question: list[Any]) -> Any:
    verb, *rest = question
    if verb == "get":
        return _plain(machine.items.get(rest[0]))
    if verb == "range":
        return list(map(_plain, machine.range(*rest)))
    if verb == "revision":
        return machine.revision
    try:
        return [[*change[:2], _plain(change.item)] for change in machine.changes(rest[0])]
    except Compacted as gone:
        return ["compacted", gone.compacted]


def _plain(item: Item | None) -> list[Any] | None:
    return None if item is None else list(item)


OBJECTS: dict[str, Subject] = {
    "counter": Subject(CounterMachine, _counter, lambda *_: None, _total, CounterModel),
    "dictionary": Subject(
        DictMachine,
        _dictionary,
        lambda random, _: random.choice([*_KEYS, "items"]),
        _in_dictionary,
        DictModel,
    ),
    "lock": Subject(LockMachine, _lock, lambda random, _: random.choice(_KEYS), _holder, LockModel),
    "kv": Subject(KeyValueMachine, _kv, _kv_question, _in_kv, KeyValueModel),
}


class Outcome(NamedTuple):
    """The outcome of one seed. `violation`: "" for none; `report`: None after a violation."""

    violation: str
    detail: str
    report: Report | None


@dataclass(frozen=True, slots=True)
class ObjectPlan:
    """Seeds of one object, as `chaos.sim.runner.Plan` has those of the log."""

    name: str
    first: int
    behind: int

    def run(self, seed: int, case: Case | None = None) -> Outcome:
        """Run one of them, or less of it: `case`."""
        try:
            if case is not None:
                return Outcome("", "", self._shrinking(seed).play(case))
            return Outcome("", "", run_subject(OBJECTS[self.name], seed))
        except MachineViolation as violation:
            _, name, detail = str(violation).split(": ", 2)
            return Outcome(name, detail, None)

    def shrink(self, seed: int) -> Shrunk | None:
        """The least of a failing seed that was found to fail; None: the seed does not fail."""
        return self._shrinking(seed).shrink()

    def _shrinking(self, seed: int) -> Shrinking:
        return Shrinking(OBJECTS[self.name], seed, DENSE, nodes=NODES, clients=CLIENTS)

    @property
    def command(self) -> str:
        """The command that runs seeds of this object, or a case, given behind it."""
        return f"python -m chaos.testing {self.name}"

    def again(self, seed: int) -> str:
        """The line that runs one of them again."""
        return f"{self.command} {seed}..{seed + 1}"


if __name__ == "__main__":
    sys.exit("python -m chaos.testing OBJECT SEEDS runs them; see README.md")
