"""Small histories of one log: legal ones, made by playing a log, and ones broken by one edit."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from chaos.history import INFINITY, Kind, Operation, Outcome

Generated = tuple[list[Operation], list[tuple[int, str]]]


def legal(random: Random) -> Generated:
    """Play a log: each operation takes effect at one moment between its begin and its end."""
    count = random.randrange(1, 13)
    moments = sorted(random.uniform(0, 10) for _ in range(count))
    log: list[tuple[int, str]] = []
    end = 0
    history = []
    for at, moment in enumerate(moments):
        begin = moment - random.expovariate(1)
        completed = moment + random.expovariate(1)
        process, value = f"p{at}", f"v{at}"  # a process each: sessions are judged apart
        chance = random.random()
        if chance < 0.3:
            last = log[-1][1] if log else ""
            history.append(Operation(process, Kind.READ, last, begin, completed, Outcome.OK, end))
        elif chance < 0.4:
            history.append(Operation(process, Kind.APPEND, value, begin, completed, Outcome.FAIL))
        elif chance < 0.5:
            history.append(Operation(process, Kind.APPEND, value, begin, INFINITY, Outcome.INFO))
        else:
            offset = end + (random.random() < 0.2)  # an entry that is no message before it
            log.append((offset, value))
            end = offset + 1
            unknown = random.random() < 0.15
            history.append(
                Operation(
                    process,
                    Kind.APPEND,
                    value,
                    begin,
                    INFINITY if unknown else completed,
                    Outcome.INFO if unknown else Outcome.OK,
                    -1 if unknown else offset,
                )
            )
    random.shuffle(history)
    return history, log


def broken(random: Random) -> Generated:
    """A legal history with one edit; some edits change nothing that matters."""
    history, log = legal(random)
    at = random.randrange(len(history))
    op = history[at]
    choice = random.randrange(7)
    if choice == 0 and log:
        log.pop(random.randrange(len(log)))
    elif choice == 1 and len(log) > 1:
        one, other = random.sample(range(len(log)), 2)
        log[one], log[other] = (log[one][0], log[other][1]), (log[other][0], log[one][1])
    elif choice == 2 and log:
        log.append((log[-1][0] + 1, random.choice([log[0][1], "ghost"])))
    elif choice == 3 and op.outcome is Outcome.OK:
        history[at] = replace(op, offset=max(op.offset + random.choice([-2, -1, 1, 2]), 0))
    elif choice == 4 and op.kind is Kind.READ:
        history[at] = replace(op, value=random.choice(["", "ghost", *(v for _, v in log)]))
    elif choice == 5 and op.kind is Kind.APPEND:
        history[at] = replace(op, outcome=Outcome.FAIL, offset=-1)
    elif op.completed < INFINITY:
        away = random.uniform(-6, 6)
        history[at] = replace(op, invoked=op.invoked + away, completed=op.completed + away)
    return history, log
