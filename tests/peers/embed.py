"""`scripts/bench embed [KEY=VALUE ...]`: embedded Raft logs under one load, by turns in one run.

    subject             what a client of it writes                      synced before the answer
    ours                node.propose(command), a counter's result        yes, on a majority
    hashicorp           raft.Apply, a counter's result                   yes, on a majority
    dragonboat          nodehost.Propose, a counter's result             yes, on a majority
    our dict            await values.set(key, value) in tasks            yes, on a majority
    pysyncobj           values.set(key, value, callback=…), its defaults no
    pysyncobj tuned     the same, a tick of 2 ms, appends every 4 ms     no

Three processes of each subject run on this machine, with the proposer inside the leader, and inside
a follower where the library passes proposals on. Each round takes every subject once; figures are
medians of the rounds. Each row carries the disk of the same minute (`dledger bench disk`), and the
share of the processors that other programs took.

    rounds           of all subjects (default 3)
    windows          entries in flight (default 1,64,1024)
    seconds          of load for each window (default 4)
    warm_up_seconds  of load before it that does not count (default 1)
    body_size        bytes per entry (default 1024)
    subjects         some of them, "all" (default)
    folder           where to work
    file             a JSON line for each row goes there
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from cluster.bench.disk import measure
from cluster.bench.embed import EmbedOptions, group, load, own_node, wait_for_leader
from cluster.bench.interpreter import description
from cluster.commands.bench import options_of
from cluster.commands.errors import CommandError
from tests.interop.harness import toolchains

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Options:
    """What the module's text says of each; "" for none."""

    rounds: int = 3
    windows: tuple[int, ...] = (1, 64, 1024)
    seconds: float = 4.0
    warm_up_seconds: float = 1.0
    body_size: int = 1024
    subjects: str | tuple[str, ...] = "all"
    folder: str = ""
    file: str = ""

    def of_embed(self) -> EmbedOptions:
        """For the harness that our own bench uses."""
        return EmbedOptions(
            self.folder, self.windows, self.seconds, self.warm_up_seconds, self.body_size
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """`command(options)`: how a node is started; `places`: where the proposer is."""

    name: str
    command: Callable[[EmbedOptions], Callable[[dict[str, Any]], Sequence[str]]]
    places: tuple[str, ...]


def _program(name: str) -> Callable[[EmbedOptions], Callable[[dict[str, Any]], Sequence[str]]]:
    return lambda _: lambda config: [str(programs() / name), json.dumps({"config": config})]


def _pysyncobj(tuned: bool) -> Callable[[EmbedOptions], Callable[[dict[str, Any]], Sequence[str]]]:
    def command(config: dict[str, Any]) -> Sequence[str]:
        given = json.dumps({"config": config, "tuned": tuned})
        return [sys.executable, "-m", "tests.peers.pysyncobj_node", given]

    return lambda _: command


SUBJECTS = (
    Subject("ours", lambda options: own_node(options, "machine"), ("leader", "follower")),
    Subject("hashicorp", _program("hashicorp"), ("leader",)),
    Subject("dragonboat", _program("dragonboat"), ("leader", "follower")),
    Subject("our dict", lambda options: own_node(options, "dict"), ("leader",)),
    Subject("pysyncobj", _pysyncobj(False), ("leader",)),
    Subject("pysyncobj tuned", _pysyncobj(True), ("leader",)),
)


def programs() -> Path:
    """The folder of the Go programs, made when it is not there. Raises toolchains.Missing."""
    source = HERE / "go"
    others = source / "nats"  # a module of its own: scripts/bench messages
    files = [path for path in source.rglob("*") if path.is_file() and others not in path.parents]

    def build(folder: Path) -> None:
        toolchains.go_build(source, folder, "./hashicorp", "./dragonboat")

    toolchains.need("go")
    return toolchains.built("raft-peers", files, "", build)


def run(options: Options) -> list[dict[str, Any]]:
    """Measure; one row for each round, subject, place and window. Raises RuntimeError, Missing."""
    chosen = [one for one in SUBJECTS if options.subjects == "all" or one.name in options.subjects]
    if any(one.name in ("hashicorp", "dragonboat") for one in chosen):
        programs()
    rows = []
    for number in range(options.rounds):
        for subject in chosen:
            for row in _measure(subject, options):
                row = {"round": number, **row}
                rows.append(row)
                if options.file:
                    with Path(options.file).open("a") as file:
                        file.write(json.dumps(row) + "\n")
    return rows


def _measure(subject: Subject, options: Options) -> Iterator[dict[str, Any]]:
    of_embed = options.of_embed()
    with tempfile.TemporaryDirectory(prefix="peers-", dir=options.folder or None) as name:
        disk = asdict(measure(Path(name)))
        with group(Path(name), subject.command(of_embed)) as nodes:
            leader = wait_for_leader(nodes)
            for place in subject.places:
                at = (
                    leader if place == "leader" else next(one for one in nodes if one is not leader)
                )
                for window in options.windows:
                    others = _Others()
                    row = load(nodes, at, window, of_embed)
                    yield {
                        "subject": subject.name,
                        "place": place,
                        **row,
                        "others_share": others.share(),
                        "disk": disk,
                    }


class _Others:
    """Which share of the processors programs took that are not ours, since it was made."""

    def __init__(self) -> None:
        self._total, self._own = self._look()

    def share(self) -> float:
        """0 to 1."""
        total, own = self._look()
        all_of_it = max(sum(total) - sum(self._total), 1e-9)
        busy = all_of_it - (total.idle - self._total.idle) - (total.iowait - self._total.iowait)
        return max(0.0, (busy - (own - self._own)) / all_of_it)

    @staticmethod
    def _look() -> tuple[Any, float]:
        me = psutil.Process()
        own = 0.0
        for process in (me, *me.children(recursive=True)):
            used = process.cpu_times()
            own += used.user + used.system
        return psutil.cpu_times(), own


@dataclass(frozen=True, slots=True)
class Bar:
    """`ours` ÷ the best (or the only) of `others`, of a figure."""

    what: str
    ours: tuple[str, str]
    others: tuple[str, ...]
    window: int
    figure: str
    at_least: float | None = None
    at_most: float | None = None


BARS = (
    Bar("from the leader ÷ the best", ("ours", "leader"), ("hashicorp", "dragonboat"), 1024,
        "entries_per_second", at_least=2.5),
    Bar("from a follower ÷ the best", ("ours", "follower"), ("hashicorp", "dragonboat"), 1024,
        "entries_per_second", at_least=1.2),
    Bar("one in flight, p50 ÷ hashicorp", ("ours", "leader"), ("hashicorp",), 1, "p50_ms",
        at_most=0.8),
    Bar("dictionary ÷ pysyncobj tuned", ("our dict", "leader"), ("pysyncobj tuned",), 1024,
        "entries_per_second", at_least=3),
)  # fmt: skip


def medians(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str, int], dict[str, float]]:
    """By subject, place and window: the median of each figure over the rounds."""
    by: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        by.setdefault((row["subject"], row["place"], row["window"]), []).append(row)
    return {
        key: {
            name: statistics.median(float(row[name]) for row in some)
            for name in some[0]
            if isinstance(some[0][name], float)
        }
        for key, some in by.items()
    }


def judged(rows: Sequence[dict[str, Any]]) -> list[tuple[Bar, float]]:
    """Each bar whose subjects were all measured, with its ratio."""
    found = medians(rows)
    ratios = []
    for bar in BARS:
        ours = found.get((*bar.ours, bar.window))
        others = [
            figures[bar.figure]
            for (subject, _, window), figures in found.items()
            if subject in bar.others and window == bar.window
        ]
        if ours is not None and {s for s, _, w in found if w == bar.window} >= set(bar.others):
            best = max(others) if bar.at_least is not None else min(others)
            ratios.append((bar, ours[bar.figure] / best))
    return ratios


def table(rows: Sequence[dict[str, Any]]) -> str:
    """For people: medians, then ratios."""
    lines = [
        "| subject | proposer in | in flight | entries/s | p50 ms | p99 ms "
        "| CPU µs an entry: it, another | others' CPU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (subject, place, window), row in medians(rows).items():
        lines.append(
            f"| {subject} | {place} | {window:,} | {row['entries_per_second']:,.0f} "
            f"| {row['p50_ms']:.2f} | {row['p99_ms']:.2f} "
            f"| {row['leader_cpu_us']:.1f}, {row['follower_cpu_us']:.1f} "
            f"| {row['others_share']:.0%} |"
        )
    lines += ["", "| ratio | measured | goal | met |", "|---|---|---|---|"]
    for bar, ratio in judged(rows):
        goal = f"≥ {bar.at_least:g}" if bar.at_least is not None else f"≤ {bar.at_most:g}"
        lines.append(
            f"| {bar.what} | {ratio:.2f} | {goal} | {'yes' if met(bar, ratio) else 'no'} |"
        )
    return "\n".join(lines)


def met(bar: Bar, ratio: float) -> bool:
    """Does the ratio hold the bar?"""
    return (bar.at_least is None or ratio >= bar.at_least) and (
        bar.at_most is None or ratio <= bar.at_most
    )


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] != ["embed"] or {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0 if {"-h", "--help"} & set(arguments) else 2
    try:
        options = options_of(Options, "scripts/bench embed", arguments[1:])
        if isinstance(options.windows, int):
            options = replace(options, windows=(options.windows,))
        if isinstance(options.subjects, str) and options.subjects != "all":
            options = replace(options, subjects=(options.subjects,))
        rows = run(options)
    except CommandError as error:
        print(error.message)
        return error.exit_code
    except toolchains.Missing as missing:
        print(missing)
        return 1
    print(table(rows))
    print(f"Python: {description()}")
    return 0 if all(met(bar, ratio) for bar, ratio in judged(rows)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
