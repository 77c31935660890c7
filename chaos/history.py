"""What clients saw: invoke → ok / fail / info, one JSON object a line (chaos.md 2.1).

    ok      it happened; `offset` says where
    fail    it certainly did not and will not happen
    info    unknown: it may have happened, or still happen (time-out, connection lost, step-down)

    {"process":"c3","kind":"append","value":"c3-17","invoked":4.25,"completed":4.31,
     "outcome":"ok","offset":118}

An *append* puts one unique value into the log; `offset` is its place. A *read* asks for the end of
the log: `offset` is the first place that is not filled yet, `value` the last visible value.
A process has one operation at a time. Times are seconds on one clock for all processes.
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

    def __post_init__(self) -> None:
        assert self.invoked <= self.completed
        assert self.outcome is not Outcome.OK or self.offset >= 0

    def to_json(self) -> str:
        return json.dumps(
            {
                "process": self.process,
                "kind": self.kind.value,
                "value": self.value,
                "invoked": self.invoked,
                "completed": None if self.completed == INFINITY else self.completed,
                "outcome": self.outcome.value,
                "offset": self.offset,
            },
            separators=(",", ":"),
        )


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
    )


def read_history(lines: Iterable[str]) -> Iterator[Operation]:
    """Operations of a history file; empty lines are skipped."""
    for line in lines:
        if line.strip():
            yield from_json(line)
