"""What clients saw: invoke → ok / fail / info, one JSON object a line (chaos.md 2.1).

    ok      it happened; `offset` says where
    fail    it certainly did not and will not happen
    info    unknown: it may have happened, or still happen (time-out, connection lost, step-down)

    {"process":"c3","kind":"append","value":"c3-17","invoked":4.25,"completed":4.31,
     "outcome":"ok","offset":118}

`level` is where an `ok` append was said to be: on the disks of a majority, or (then it is written
down) in its memory, from which a power failure may take it back (checkers/levels.py). `position`
is its byte address in the replicated log, where that was told: what stands below the log's
beginning has been deleted (checkers/beginnings.py).

    kind     value                offset                              values
    append   one unique value     its place
    read     last visible value   first place that is not filled yet
    poll                          place the consumer asked for        what it got: (place, value) …
    seek                          where the consumer goes on
    commit   consumer group       next place the group wants
    fetch    consumer group       what its position was said to be

`log` names the queue; a history of one queue leaves it out. A process has one operation at a time.
Times are seconds on one clock for all processes.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

INFINITY = float("inf")


class Outcome(enum.Enum):
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Kind(enum.Enum):
    APPEND = "append"
    READ = "read"
    POLL = "poll"
    SEEK = "seek"
    COMMIT = "commit"
    FETCH = "fetch"


class Level(enum.Enum):
    """Where a majority has an append when it is acknowledged; named as the settings name it."""

    ON_DISK = "majority-on-disk"
    IN_MEMORY = "majority-in-memory"


@dataclass(frozen=True, slots=True)
class Operation:
    """One finished operation; `completed` is infinite for `info`."""

    process: str
    kind: Kind
    value: str
    invoked: float
    completed: float
    outcome: Outcome
    offset: int = -1
    log: str = ""
    values: tuple[tuple[int, str], ...] = ()
    level: Level = Level.ON_DISK
    position: int = -1

    def __post_init__(self) -> None:
        assert self.invoked <= self.completed
        assert self.outcome is not Outcome.OK or self.offset >= 0 or self.kind is Kind.FETCH, (
            "what succeeded has a place; only a group may have none"
        )

    def to_json(self) -> str:
        fields: dict[str, object] = {
            "process": self.process,
            "kind": self.kind.value,
            "value": self.value,
            "invoked": self.invoked,
            "completed": None if self.completed == INFINITY else self.completed,
            "outcome": self.outcome.value,
            "offset": self.offset,
        }
        if self.log:
            fields["log"] = self.log
        if self.values:
            fields["values"] = self.values
        if self.level is not Level.ON_DISK:
            fields["level"] = self.level.value
        if self.position >= 0:
            fields["position"] = self.position
        return json.dumps(fields, separators=(",", ":"))


def from_json(line: str) -> Operation:
    """Read one line. Raises ValueError or KeyError when it is no operation."""
    found = json.loads(line)
    completed = found["completed"]
    return Operation(
        found["process"],
        Kind(found["kind"]),
        found["value"],
        float(found["invoked"]),
        INFINITY if completed is None else float(completed),
        Outcome(found["outcome"]),
        int(found["offset"]),
        found.get("log", ""),
        tuple((int(place), str(value)) for place, value in found.get("values", ())),
        Level(found.get("level", Level.ON_DISK.value)),
        int(found.get("position", -1)),
    )


def read_history(lines: Iterable[str]) -> Iterator[Operation]:
    """Operations of a history file; empty lines are skipped."""
    for line in lines:
        if line.strip():
            yield from_json(line)
