"""Many seeds: chunks of them on several cores, and one ledger that adds up (chaos/counts).

A run that is started again with the same ledger goes on where it stopped. Only whole chunks are in
it, so nothing counts twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from zlib import crc32

from chaos.counts.ledger import SIMULATOR, add_row, seeds_of_this_code
from chaos.sim.course import FROM_SEED, Course
from chaos.sim.profile import USUAL, Profile
from chaos.sim.schedules import Schedules
from chaos.sim.world import RunResult, run_seed
from chaos.tools.pool import map_unordered

#: Seeds per line of a ledger: about 20 s of one core.
CHUNK = 100


@dataclass(frozen=True, slots=True)
class Plan:
    """The seeds to run, and how. `nodes` 0: every fourth seed has 5 nodes, the others 3."""

    first: int
    behind: int
    nodes: int
    seconds: float
    profile: Profile = USUAL
    course: Course = FROM_SEED
    schedules: Schedules | None = None

    def nodes_of(self, seed: int) -> int:
        """Cluster size of a seed: `nodes`; if that is 0, 5 for every fourth seed, else 3."""
        return self.nodes or (5 if seed % 4 == 3 else 3)

    def again(self, seed: int) -> str:
        """The line that replays one seed."""
        line = f"dledger sim --seed {seed} --nodes {self.nodes_of(seed)} --seconds {self.seconds:g}"
        words = [line, *self.profile.words()]
        if self.schedules is not None:
            words.append(f"--config {self.schedules.config}")
        return " ".join([*words, self.course.words()]).rstrip()

    def run(self, seed: int, *, story: bool = False) -> RunResult:
        """Run one seed of it."""
        return run_seed(
            seed,
            self.nodes_of(seed),
            self.seconds,
            story=story,
            profile=self.profile,
            course=self.recorded(seed).course,
        )

    def recorded(self, seed: int) -> Plan:
        """Returns the plan with fixed faults, because only those can be left out one by one: a
        schedule becomes that of the seed, and a drawn run that keeps some faults gets the faults of
        the whole run.
        """
        if self.schedules is not None and self.course.schedule is None:
            schedule = self.schedules.of(seed, self.nodes_of(seed), self.seconds)
            return replace(self, course=replace(self.course, schedule=schedule))
        if self.course.schedule is not None:
            return self
        if self.course.kept is None or self.course.begun:
            return self
        whole = replace(self, course=FROM_SEED).run(seed)
        return replace(self, course=replace(self.course, begun=whole.begun))

    def chunks(self) -> Iterator[Plan]:
        """Cut at multiples of CHUNK, so that other ranges find the same chunks finished."""
        first = self.first
        while first < self.behind:
            behind = min(first // CHUNK * CHUNK + CHUNK, self.behind)
            yield replace(self, first=first, behind=behind)
            first = behind

    @property
    def counted_as(self) -> str:
        """Which kind of runs these are: counted apart from others."""
        faults = "calm" if self.course.calm else "drawn"
        if self.schedules is not None:
            faults = Path(self.schedules.config).stem
        return " ".join([faults, *self.profile.words()])

    @property
    def key(self) -> str:
        """Identifies the plan in a ledger: seeds, nodes, seconds, profile, schedules, course."""
        words = [f"{self.first}..{self.behind} nodes {self.nodes or 'mixed'}"]
        words.append(f"seconds {self.seconds:g}")
        words += self.profile.words()
        if self.schedules is not None:
            words.append(f"schedules {crc32(repr(self.schedules.bounds).encode()):08x}")
        if self.course is not FROM_SEED:
            words.append(self.course.words())
        return " ".join(words)


@dataclass(slots=True)
class Totals:
    """Sums over seeds, as the command prints them. Seconds are virtual, except `cpu_seconds`."""

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
        """Counts one seed; `again` is the line that replays it."""
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
        """Adds the totals of other seeds, their faults and failures included."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.faults.update(other.faults)
        self.failed.extend(other.failed)

    @property
    def speedup(self) -> float:
        """Virtual seconds per second of one core."""
        return self.seconds / self.cpu_seconds if self.cpu_seconds else 0.0

    def report(self) -> dict[str, object]:
        """One object under the names of docs/decisions.md, "Names"."""
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
        totals.add(plan.run(seed), plan.again(seed))
    return totals


def run_plan(
    plan: Plan,
    *,
    jobs: int = 1,
    ledger: Path | None = None,
    progress: Callable[[Totals], None] = lambda totals: None,
) -> Totals:
    """Runs the chunks that `ledger` does not hold yet for this code; calls `progress` after each
    chunk.

    Without a ledger chunks are as small as keeps all `jobs` busy.
    """
    totals = Totals()
    done = _finished(ledger) if ledger is not None else {}
    if ledger is None:
        chunks = _even_chunks(plan, jobs)
    else:
        for found in (done[chunk.key] for chunk in plan.chunks() if chunk.key in done):
            totals.merge(found)
        chunks = (chunk for chunk in plan.chunks() if chunk.key not in done)
    for chunk, found in _run_all(chunks, min(jobs, plan.behind - plan.first)):
        if ledger is not None:
            row = {"chunk": chunk.key, **found.report()}
            add_row(ledger, SIMULATOR, plan.counted_as, row)
        totals.merge(found)
        progress(totals)
    totals.failed.sort(key=lambda failed: int(failed["seed"]))
    return totals


def _even_chunks(plan: Plan, jobs: int) -> Iterator[Plan]:
    seeds = plan.behind - plan.first
    size = max(1, min(CHUNK, seeds // (4 * jobs) or 1))
    for first in range(plan.first, plan.behind, size):
        yield replace(plan, first=first, behind=min(first + size, plan.behind))


def _run_all(chunks: Iterable[Plan], jobs: int) -> Iterator[tuple[Plan, Totals]]:
    if jobs > 1:
        return map_unordered(run_chunk, chunks, jobs)
    return ((chunk, run_chunk(chunk)) for chunk in chunks)


def _finished(ledger: Path) -> dict[str, Totals]:
    """Chunks of earlier runs of this code."""
    found: dict[str, Totals] = {}
    for row in seeds_of_this_code(ledger):
        totals = Totals(**{name: row[name] for name in _SUMS})
        totals.faults.update(row["faults"])
        totals.failed.extend(row["failed"])
        found[row["chunk"]] = totals
    return found
