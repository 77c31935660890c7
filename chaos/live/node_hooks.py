"""Requests that the judge leaves for a node of the arena in `<node>/chaos-control.json`, beside the
broker's own protocol.

    asked     {"number": 3, "clock": {"skip": 0.5, "rate": 1.02, "wall_ms": -60000},
               "failpoint": {"name": "data.sync.before", "after": 2}, "transfer": "n1",
               "sweep": true, "scrub": true, "hold_syncs": 3.0, "mistake": true,
               "record": "bytes of an entry"}
    answered  <node>/chaos-state.json   {"number": 3, "seen": "…"}

A file and not a port: it works while the process starts, and nothing listens that a release has
not.
Both are replaced as a whole. The node looks every 20 ms.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from pathlib import Path
from typing import Any

CONTROL_FILE = "chaos-control.json"
STATE_FILE = "chaos-state.json"
FOLDER_VARIABLE = "DLEDGER_CHAOS_FOLDER"
LOOK_SECONDS = 0.02


class SkewedClock:
    """`dledger.runtime.clock.Clock` that can jump ahead and run fast or slow; never backward.

    The wall clock, which no safety rests on, may jump both ways.
    """

    def __init__(self) -> None:
        self._base = self._real = time.monotonic()
        self._rate = 1.0
        self._wall_ms = 0

    def now(self) -> float:
        """Monotonic seconds, with all jumps ahead, at the rate that `skew` set."""
        return self._base + (time.monotonic() - self._real) * self._rate

    def time_ms(self) -> int:
        """Milliseconds since 1970, shifted by the last `wall_ms` and by no other skew."""
        return time.time_ns() // 1_000_000 + self._wall_ms

    def skew(self, skip: float = 0.0, rate: float = 1.0, wall_ms: int = 0) -> None:
        """Jump ahead by `skip` seconds; from then on `rate` seconds a second."""
        if skip < 0 or rate <= 0:
            raise ValueError("a monotonic clock does not run backward")
        self._base, self._real = self.now() + skip, time.monotonic()
        self._rate, self._wall_ms = rate, wall_ms


class Wishes:
    """The node's side: each question once, and its answer.

    A process that has no descriptor left (the kind `squeeze`) cannot open either file: it looks
    again, and tells again, a little later.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, -1
        self._untold: tuple[int, str] | None = None

    def look(self) -> dict[str, Any] | None:
        """Returns the newest request if it was not returned before, else None."""
        try:
            if self._untold is not None:
                answer(self._folder, *self._untold)
                self._untold = None
            asked = read(self._folder / CONTROL_FILE)
        except OSError:
            return None
        number = asked.get("number", -1)
        if number <= self._number:
            return None
        self._number = number
        return asked

    def tell(self, number: int, seen: str) -> None:
        """Answer question `number`."""
        self._untold = number, seen
        with contextlib.suppress(OSError):
            answer(self._folder, number, seen)
            self._untold = None


_numbers = itertools.count(1)


def ask(folder: Path, **what: Any) -> int:
    """Leaves a request for the node of this folder. Returns the request's number, which rises."""
    number = next(_numbers)
    _replace(folder / CONTROL_FILE, {"number": number, **what})
    return number


def forget(folder: Path) -> None:
    """The next process of this node starts without a wish."""
    (folder / CONTROL_FILE).unlink(missing_ok=True)


def answer(folder: Path, number: int, seen: str) -> None:
    """The node records its result of request `number`."""
    _replace(folder / STATE_FILE, {"number": number, "seen": seen})


def answered(folder: Path, number: int) -> str | None:
    """Returns the node's result of request `number`; None while there is none."""
    found = read(folder / STATE_FILE)
    return str(found["seen"]) if found.get("number") == number else None


def read(path: Path) -> dict[str, Any]:
    """A file's object; empty when there is none."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    except FileNotFoundError:
        return {}


def _replace(path: Path, value: object) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value), encoding="utf-8")
    temporary.replace(path)
