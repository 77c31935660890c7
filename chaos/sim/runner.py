"""Many seeds: chunks of them on several cores, and one table that adds up.

A results file has one JSON object a line, one line per finished chunk; a run that is started again
with the same file goes on where it stopped. Only whole chunks are in it, so nothing counts twice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from chaos.sim.world import RunResult, run_seed

#: Seeds per line of a results file: about 20 s of one core.
CHUNK = 100


@dataclass(frozen=True, slots=True)
class Plan:
    """Which seeds, on what. `nodes` 0: every fourth seed has 5 nodes, the others 3."""

    first: int
    behind: int
    nodes: int
    seconds: float

    def nodes_of(self, seed: int) -> int:
        return self.nodes or (5 if seed % 4 == 3 else 3)

    def again(self, seed: int) -> str:
        """The line that replays one seed."""
        return f"dledger sim --seed {seed} --nodes {self.nodes_of(seed)} --seconds {self.seconds:g}"

    def chunks(self) -> Iterator[Plan]:
        for first in range(self.first, self.behind, CHUNK):
            yield Plan(first, min(first + CHUNK, self.behind), self.nodes, self.seconds)

    @property
    def key(self) -> str:
        return f"{self.first}..{self.behind} nodes {self.nodes or 'mixed'} seconds {self.seconds:g}"


@dataclass(slots=True)
class Totals:
    """Sums over seeds; what the command prints. Seconds are virtual but `cpu_seconds`."""

    seeds: int = 0
    violations: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    operations: int = 0
    acked: int = 0
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    events: int = 0
    checks: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[dict[str, str]] = field(default_factory=list)

    def add(self, result: RunResult, again: str) -> None:
        self.seeds += 1
        self.seconds += result.seconds
        self.cpu_seconds += result.cpu_seconds
        self.operations += result.operations
        self.acked += result.acked
        self.lost += result.lost
        self.doubled += result.doubled
        self.reordered += result.reordered
        self.events += result.events
        self.checks += result.checks
        self.faults.update(result.faults)
        if result.violation:
            self.violations += 1
            self.failed.append(
                {
                    "seed": str(result.seed),
                    "violation": result.violation,
                    "detail": result.detail,
                    "again": again,
                }
            )

    def merge(self, other: Totals) -> None:
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults.update(other.faults)
        self.failed.extend(other.failed)

    @property
    def speedup(self) -> float:
        """Virtual seconds per second of one core."""
        return self.seconds / self.cpu_seconds if self.cpu_seconds else 0.0

    def report(self) -> dict[str, object]:
        """One object under the names of design.md, "Names fixed here"."""
        found = asdict(self)
        found["faults"] = dict(sorted(self.faults.items()))
        found["speedup"] = round(self.speedup, 1)
        found["operations_per_second"] = round(self.operations / max(self.seconds, 1e-9), 2)
        found["faults_total"] = sum(self.faults.values())
        found["seconds_per_fault"] = round(self.seconds / max(1, sum(self.faults.values())), 2)
        return found


_SUMS = (
    "seeds",
    "violations",
    "seconds",
    "cpu_seconds",
    "operations",
    "acked",
    "lost",
    "doubled",
    "reordered",
    "events",
    "checks",
)


def run_chunk(plan: Plan) -> Totals:
    """All seeds of a plan, one after the other, in this process."""
    totals = Totals()
    for seed in range(plan.first, plan.behind):
        totals.add(run_seed(seed, plan.nodes_of(seed), plan.seconds), plan.again(seed))
    return totals


def run_plan(
    plan: Plan,
    *,
    jobs: int = 1,
    results: Path | None = None,
    progress: Callable[[Totals], None] = lambda totals: None,
) -> Totals:
    """Run what `results` does not hold yet; `progress` is called after each chunk.

    Without a results file chunks are as small as keeps all `jobs` busy.
    """
    totals = Totals()
    done = _read(results) if results is not None else {}
    waiting = []
    for chunk in plan.chunks() if results is not None else _even_chunks(plan, jobs):
        if chunk.key in done:
            totals.merge(done[chunk.key])
        else:
            waiting.append(chunk)
    for chunk, found in _run_all(waiting, jobs):
        if results is not None:
            _write(results, chunk, found)
        totals.merge(found)
        progress(totals)
    totals.failed.sort(key=lambda failed: int(failed["seed"]))
    return totals


def _even_chunks(plan: Plan, jobs: int) -> Iterator[Plan]:
    seeds = plan.behind - plan.first
    size = max(1, min(CHUNK, seeds // (4 * jobs) or 1))
    for first in range(plan.first, plan.behind, size):
        yield Plan(first, min(first + size, plan.behind), plan.nodes, plan.seconds)


def _run_all(chunks: list[Plan], jobs: int) -> Iterator[tuple[Plan, Totals]]:
    if jobs <= 1 or len(chunks) <= 1:
        for chunk in chunks:
            yield chunk, run_chunk(chunk)
        return
    with ProcessPoolExecutor(jobs) as pool:
        running = {pool.submit(run_chunk, chunk): chunk for chunk in chunks}
        for future in as_completed(running):
            yield running[future], future.result()


def _read(path: Path) -> dict[str, Totals]:
    """Finished chunks of earlier runs; a line cut short by a crash is run again."""
    found: dict[str, Totals] = {}
    if not path.exists():
        return found
    for line in path.read_text().splitlines():
        try:
            row = json.loads(line)
            totals = Totals(**{name: row[name] for name in _SUMS})
            totals.faults.update(row["faults"])
            totals.failed.extend(row["failed"])
        except (ValueError, KeyError):
            continue
        found[row["chunk"]] = totals
    return found


def _write(path: Path, chunk: Plan, totals: Totals) -> None:
    row = {"chunk": chunk.key, **totals.report()}
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
