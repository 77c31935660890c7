"""Generated histories of live runs: acknowledged in memory, the power cut, beginnings deleted.

Each starts from a legal or broken history of one or two queues (tests/chaos/checkers/generated.py),
which becomes one that a live run might have left, or nearly: most edits are lawful, some are not.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from chaos.checkers.levels import Blackout
from chaos.history import Kind, Level, Operation, Outcome
from tests.chaos.checkers.generated import broken, legal
from tests.chaos.checkers.golden_cases import Case

Queue = tuple[list[Operation], list[tuple[int, str]]]
ENTRY_BYTES = 100


def power_failures(random: Random) -> Case:
    """Some were acknowledged in memory; ends of logs, or what is in them, are gone."""
    case = Case("", frozenset())
    for at in range(6 if random.random() < 0.2 else 3):
        if random.random() < 0.5:
            began = random.uniform(-1, 14) if at else random.uniform(2, 8)
            case.blackouts.append(Blackout(began, began + random.expovariate(1)))
    logs = {}
    for name in ("a", "b")[: random.randrange(1, 3)]:
        history, log = _early(*_played(random, name), random)
        case.history += history
        logs[name] = log
    if len(logs) == 2 and random.random() < 0.4:  # held, but not where it was said to be
        told = [op.value for op in case.history if op.level is Level.IN_MEMORY and op.log == "a"]
        gone = sorted(set(told) - {value for _, value in logs["a"]})
        if gone:
            logs["b"].append((logs["b"][-1][0] + 1 if logs["b"] else 0, random.choice(gone)))
    case.replicas["n1"] = logs
    if random.random() < 0.3:
        case.replicas["n2"] = {name: log[: random.randrange(99)] for name, log in logs.items()}
    random.shuffle(case.history)
    return case


def without_beginning(random: Random) -> Case:
    """Positions were told, most of them; logs begin at one, or not quite; readers had seen more."""
    case = Case("", frozenset())
    case.begins = random.randrange(1, 13) * ENTRY_BYTES
    first = case.begins // ENTRY_BYTES + random.choice([0, 0, 0, 0, -1, 1])
    history, log = _played(random, "")
    if random.random() < 0.3:
        history, log = _early(history, log, random)
    case.history = [_at_position(op, random) for op in [*history, *_readers(log, random)]]
    kept = [row for row in log if row[0] >= first]
    case.replicas = {"n1": {"": kept}}
    if random.random() < 0.3:
        case.replicas["n2"] = {"": kept[random.choice([0, 0, 1]) :]}
    if random.random() < 0.2:
        case.blackouts.append(Blackout(random.uniform(0, 9), 10.0))
    case.everything_read = random.random() < 0.3
    return case


def _played(random: Random, name: str) -> Queue:
    history, log = (broken if random.random() < 0.3 else legal)(random)
    few = random.random() < 0.5
    moved = [
        replace(
            op,
            log=name,
            value=f"{name}{op.value}" if op.value else "",
            process=f"p{at % 3}" if few else f"{op.process}{name}",
        )
        for at, op in enumerate(history)
    ]
    return moved, [(offset, f"{name}{value}") for offset, value in log]


def _early(history: list[Operation], log: list[tuple[int, str]], random: Random) -> Queue:
    share = random.choice([0.2, 0.8, 1.0])
    told = [
        replace(op, level=Level.IN_MEMORY)
        if op.kind is Kind.APPEND and op.outcome is Outcome.OK and random.random() < share
        else op
        for op in history
    ]
    early = {op.value for op in told if op.level is Level.IN_MEMORY}
    left = list(log)
    if random.random() < 0.8:
        for _ in range(random.randrange(6)):
            if left and (left[-1][1] in early or random.random() < 0.2):
                left.pop()
    if random.random() < 0.2 and left:
        left.pop(random.randrange(len(left)))
    if random.random() < 0.2:  # who comes after it gets the place, and is seen there
        offset = left[-1][0] + 1 if left else 0
        value = f"later{told[0].log}"
        left.append((offset, value))
        again = Operation("l", Kind.APPEND, value, 15, 16, Outcome.OK, offset, told[0].log)
        read = Operation("r", Kind.READ, value, 17, 18, Outcome.OK, offset + 1, told[0].log)
        told += [again, read]
    return told, left


def _at_position(op: Operation, random: Random) -> Operation:
    """As if all the log were this queue's, but for what nobody was told."""
    if op.kind is not Kind.APPEND or op.offset < 0 or random.random() < 0.1:
        return op
    off = random.choice([-3, 3]) if random.random() < 0.05 else 0
    return replace(op, position=max(0, op.offset + off) * ENTRY_BYTES)


def _readers(log: list[tuple[int, str]], random: Random) -> list[Operation]:
    """They poll from the beginning, late, in ragged answers; or read an end that is an old one."""
    found, at, time = [], 0, 10.0
    for _ in range(random.randrange(4)):
        rows = tuple(log[at : at + random.randrange(1, 5)])
        if rows and random.random() < 0.1:
            rows = (*rows[:-1], (rows[-1][0], f"ghost{at}"))
        if rows:
            outcome = Outcome.INFO if random.random() < 0.1 else Outcome.OK
            found.append(
                Operation("c", Kind.POLL, "", time, time + 1, outcome, rows[0][0], "", rows)
            )
            if random.random() < 0.3:
                offset, value = random.choice(log) if random.random() < 0.2 else rows[-1]
                found.append(
                    Operation("r", Kind.READ, value, time, time + 1, Outcome.OK, offset + 1)
                )
        at, time = at + len(rows) + (random.random() < 0.1), time + 2
    return found
