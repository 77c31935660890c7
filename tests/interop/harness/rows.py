"""Many stock clients of one cluster at once, and what each saw of each fault.

Every program makes its client at one moment, so all look at routes together: then, 30 s later and
so on. A fault comes 8 s behind a look, so that the next is 22 s away, and lasts 30 s.

    look          look                look          look
     │   break     │    mend  (ready)   │   break     │
     0 ──── 8 ──── 30 ─── 38 ────────── 60 ── 68 ──── 90    seconds
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .content import read_topic
from .running import Facts, Program, started

LOOK_SECONDS, AFTER_LOOK_SECONDS, FAULT_SECONDS = 30.0, 8.0, 30.0
# Until every JVM of a batch is at its start moment, on two cores that others use too.
START_SECONDS, WARM_SECONDS = 25.0, 4.0


class Cluster(Protocol):
    """Where the clients are told to go: a local cluster of ours, or of others (tests/peers)."""

    @property
    def nameserver(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Client:
    """One program: `{nameserver}`, `{topic}`, `{start_ms}`, `{file}`, `{home}` in its command are
    filled in.

    `failed_max`: so many failed sends a fault hold its bar; None: it has none.
    `gap_seconds`: longest silence, median and worst, that hold its bar; the same.
    `fast`: sends without a pause around a fault.
    """

    name: str
    command: Sequence[str]
    failed_max: int | None = 0
    gap_seconds: tuple[float, float] | None = None
    fast: bool = False

    @property
    def topic(self) -> str:
        return "Row" + "".join(letter for letter in self.name if letter.isalnum())


@dataclass(frozen=True, slots=True)
class Seen:
    """By one program, from one fault until its end; `…_between`: in the time before it."""

    fault: str
    number: int
    program: str
    acked: int
    failed: int
    failed_between: int
    relayed: int | None
    gap_ms: int
    gap_between_ms: int
    errors: list[str]
    load: float
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of one program's messages."""

    acked: int
    lost: int
    doubled: int


class Rows:
    """The programs of one batch while they run."""

    def __init__(
        self, local: Cluster, home: Path, out: Path, sleep: Callable[[float], None]
    ) -> None:
        """`out` gets a line of JSON for each program and fault; `sleep` waits so many seconds."""
        self.local, self._home, self._out, self._sleep = local, home, out, sleep
        self._running: dict[str, tuple[Client, Program]] = {}
        self._start_ms = 0
        self.seen: list[Seen] = []
        self.last: dict[str, Facts] = {}

    @contextlib.contextmanager
    def all_started(self, clients: Sequence[Client]) -> Iterator[None]:
        """They send until the block ends; `last` then has their last words."""
        self._start_ms = round((time.time() + START_SECONDS) * 1e3)
        with contextlib.ExitStack() as stack:
            for client in clients:
                home = self._home / client.topic
                program = stack.enter_context(started(self._filled(client, home), home))
                self._running[client.name] = client, program
            for _, program in self._running.values():
                program.until(lambda counts: counts["acked"] > 0, START_SECONDS + 180)
            # What failed while all JVMs were starting at once is of no fault.
            self._sleep(WARM_SECONDS)
            self._ask("mark")
            yield
            self.last = self._ask("stop")

    def _filled(self, client: Client, home: Path) -> list[str]:
        words = {
            "nameserver": self.local.nameserver,
            "topic": client.topic,
            "start_ms": str(self._start_ms),
            "file": str(self._home / f"{client.topic}.acked"),
            "home": str(home),
        }
        return [word.format(**words) for word in client.command]

    def _ask(self, order: str) -> dict[str, Facts]:
        return {name: program.ask(order) for name, (_, program) in self._running.items()}

    def fault(self, kind: str, number: int, during: Callable[[], object], *, look: bool) -> None:
        """Mark, `during`, mark again. `look`: begin it 8 s behind a look at the routes."""
        if look:
            since = time.time() - self._start_ms / 1e3 - AFTER_LOOK_SECONDS
            self._sleep(-since % LOOK_SECONDS)
        before = self._turned("fast")
        during()
        for name, facts in self._turned("slow").items():
            one = Seen(
                kind,
                number,
                name,
                *(facts.pop("acked"), facts.pop("failed"), before[name]["failed"]),
                *(facts.pop("relayed"), facts.pop("gap_ms"), before[name]["gap_ms"]),
                before[name]["errors"] + facts.pop("errors"),
                load=round(os.getloadavg()[0], 1),
                more=facts,
            )
            self.seen.append(one)
            with self._out.open("a") as file:
                file.write(json.dumps(asdict(one)) + "\n")

    def _turned(self, order: str) -> dict[str, Facts]:
        """What all say, each with `order` where it knows that."""
        return {
            name: program.ask(order if client.fast else "mark")
            for name, (client, program) in self._running.items()
        }

    def stored(self) -> dict[str, Stored]:
        """Compare what was acknowledged with what the cluster holds."""
        found = {}
        for name, (client, _) in self._running.items():
            file = self._home / f"{client.topic}.acked"
            acked = Counter(file.read_text().split())
            held = Counter(
                one.body.decode() for one in read_topic(self.local.nameserver, client.topic)
            )
            doubled = sum(count > 1 for count in held.values())
            found[name] = Stored(len(acked), len(acked.keys() - held.keys()), doubled)
        return found

    def of(self, name: str) -> list[Seen]:
        return [one for one in self.seen if one.program == name]


def table(kind: str, rows: Rows, stored: Mapping[str, Stored]) -> str:
    """One line a program, for people and for a page."""
    head = (
        f"| {kind} | times | failed sends, each | between | longest gap, median | worst "
        "| through relays | acknowledged | lost | doubled |"
    )
    lines = [head, "|" + "---|" * 10]
    for name, what in stored.items():
        seen = rows.of(name)
        gaps = [one.gap_ms / 1e3 for one in seen]
        relayed = [one.relayed for one in seen if one.relayed is not None]
        lines.append(
            f"| {name} | {len(seen)} | {_each([one.failed for one in seen])} "
            f"| {sum(one.failed_between for one in seen)} "
            f"| {statistics.median(gaps):.2f} s | {max(gaps):.2f} s "
            f"| {sum(relayed) if relayed else '–'} "
            f"| {what.acked} | {what.lost} | {what.doubled} |"
        )
    loads = [one.load for one in rows.seen]
    return "\n".join([*lines, f"load of the machine: {min(loads)} to {max(loads)}"])


def _each(counts: Sequence[int]) -> str:
    """ "0" where all are, else the most frequent numbers: "0 ×17, 2 ×3"."""
    found = Counter(counts)
    if len(found) == 1:
        return str(counts[0])
    return ", ".join(f"{count} ×{times}" for count, times in sorted(found.items()))


def missed(clients: Sequence[Client], rows: Rows, stored: Mapping[str, Stored]) -> list[str]:
    """The bars that do not hold, one line each."""
    said = []
    for client in clients:
        seen = rows.of(client.name)
        if stored[client.name].lost:
            said.append(f"{client.name}: {stored[client.name].lost} acknowledged and lost")
        for one in seen:
            failed = max(one.failed, one.failed_between)
            if client.failed_max is not None and failed > client.failed_max:
                said.append(f"{client.name}: {one}")
        gaps = [one.gap_ms / 1e3 for one in seen]
        if client.gap_seconds and (
            statistics.median(gaps) > client.gap_seconds[0] or max(gaps) > client.gap_seconds[1]
        ):
            said.append(f"{client.name}: gaps of {sorted(gaps)} s, not {client.gap_seconds}")
    return said
