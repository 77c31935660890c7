"""The ready objects as machines under test: how each is made, and which commands its clients draw.

python -m chaos.testing.objects lock 0..300        prints a line a seed, ends at a violation
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any

from chaos.testing.cluster import Draw, run_seed
from chaos.testing.plugin import seeds_of
from dledger.machine.state_machine import ReplicatedStateMachine
from dledger.objects.counter import CounterMachine
from dledger.objects.dictionary import DictMachine
from dledger.objects.kv_machine import KeyValueMachine
from dledger.objects.lock import LockMachine

_KEYS = "abc"
_LEASES_MS = (200, 2000, 60_000)


def _counter(random: Random, number: int) -> int:
    return number


def _dictionary(random: Random, number: int) -> list[Any]:
    key, verb = random.choice(_KEYS), random.choice(("set", "set", "setdefault", "pop", "update"))
    if verb == "pop":
        return [verb, key]
    return [verb, {key: number, "d": -number}] if verb == "update" else [verb, key, number]


def _lock(random: Random, number: int) -> list[Any]:
    """An election is a lock that its holder renews, so this is its machine, too."""
    verb = random.choice(("acquire", "acquire", "renew", "release"))
    owner = random.choice(("one", "two", "three"))
    return [verb, random.choice(_KEYS), owner, random.choice(_LEASES_MS)]


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


OBJECTS: dict[str, tuple[Callable[[], ReplicatedStateMachine[Any, Any]], Draw]] = {
    "counter": (CounterMachine, _counter),
    "dictionary": (DictMachine, _dictionary),
    "lock": (LockMachine, _lock),
    "kv": (KeyValueMachine, _kv),
}


def main(name: str, seeds: str) -> None:
    """Run seeds of one object; raises MachineViolation at the first that is wrong."""
    make, draw = OBJECTS[name]
    for seed in seeds_of(seeds):
        print(name, run_seed(make, draw, seed), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
