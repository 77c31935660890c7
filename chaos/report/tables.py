"""Tables of a report: checks, coverage of faults, recovery, environment."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from chaos.report import figures
from chaos.report.recorded import Recorded

CHANGES = ("membership-split", "two-changes")
#: Promise → names of the anomalies that would break it (chaos/checkers/README.md).
CHECKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("no acknowledged message lost", ("lost-prefix", "lost-middle", "lost-postfix")),
    (
        "one value at one offset for all, and no offset without",
        ("inconsistent-offsets", "offset-hole", "diverged", "log-mismatch"),
    ),
    ("nothing doubled", ("duplicate",)),
    ("nothing that nobody sent, or that was refused", ("unexpected", "G1a")),
    ("appends linearizable, order in real time", ("G0-realtime", "nonmonotonic-send")),
    ("reads current and never of what vanishes", ("stale-read", "precommitted-read")),
    ("reads of one client never go back", ("nonmonotonic-read",)),
    (
        "polls neither skip nor go back",
        ("poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll"),
    ),
    ("every message shown to a reader", ("never-read",)),
    ("positions of groups kept", ("offset-back", "offset-ahead", "offset-lost")),
    (
        "delayed messages once, in time, not before",
        ("delayed-early", "delayed-late", "delayed-lost"),
    ),
    ("halves seen once committed, not before", ("half-visible", "committed-lost", "commit-stuck")),
    ("at most one leader in a term", ("election-safety",)),
    ("votes kept", ("vote-changed",)),
    ("a node that lost its folder, or has an old one, stays away", ("amnesia",)),
    ("changes of the group one by one, with a common majority", CHANGES),
    (
        "terms and commits never go back",
        ("term-back", "commit-back", "leader-truncated", "leader-completeness"),
    ),
    ("in service while a majority is", ("unavailable",)),
    ("work goes on under each kind of fault", ("no-progress",)),
    ("every node up again, replicas at one end", ("not-converged", "not-up-again")),
    ("logs and derived files equal byte for byte", ("bytes-differ", "unreadable-replica")),
    ("no answer damaged", ("damaged-answer",)),
)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], kinds: Sequence[str] = ()) -> str:
    """Rows of text; `kinds` gives each its style class."""
    columns = "".join(f"<th>{escape(name)}</th>" for name in head)
    drawn = []
    for number, row in enumerate(rows):
        kind = f' class="{kinds[number]}"' if number < len(kinds) and kinds[number] else ""
        cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in row)
        drawn.append(f"<tr{kind}>{cells}</tr>")
    body = "".join(drawn)
    return f'<div class="wide"><table><tr>{columns}</tr>{body}</table></div>'


class Result(NamedTuple):
    """One promise; `broken`: how often, by an anomaly of one of these names.

    `silent`: why a run gave nothing to judge it by, "" when it was judged.
    """

    promise: str
    broken: int
    names: Sequence[str]
    silent: str = ""

    @property
    def word(self) -> str:
        """`FAIL`, `pass` or `not checked`."""
        return "FAIL" if self.broken else "not checked" if self.silent else "pass"


def results(verdict: Mapping[str, Any]) -> list[Result]:
    """Each promise, kept or not. Unknown names of anomalies get a promise of their own."""
    # An earlier release counted none, and its list is cut at 200.
    listed = Counter(str(one["name"]) for one in verdict["anomalies"])
    counts = listed | Counter(verdict.get("anomaly_counts", {}))
    idle = verdict.get("not_checked", {})
    known = {name for _, names in CHECKS for name in names}
    wanted = [*CHECKS, *((name, (name,)) for name in sorted(set(counts) - known))]
    return [
        Result(
            said,
            sum(counts[name] for name in names),
            names,
            "; ".join(f"{name}: {idle[name]}" for name in names if name in idle),
        )
        for said, names in wanted
    ]


def checks(run: Recorded) -> str:
    """A row for each promise, and whether all faults took effect."""
    rows: list[Sequence[object]] = []
    kinds = []
    for one in results(run.verdict):
        said = one.silent or ", ".join(one.names)
        rows.append((one.promise, one.word, one.broken or "", said))
        kinds.append({"FAIL": "fail", "pass": "pass"}.get(one.word, "unknown"))
    effect = run.verdict["faults"]
    every = effect["took_effect"] == effect["carried_out"]
    rows.append(
        (
            "every fault took effect",
            "pass" if every else "unknown",
            f"{effect['took_effect']} of {effect['carried_out']}",
            "; ".join(run.verdict["unknown_because"][:5]),
        )
    )
    kinds.append("pass" if every else "unknown")
    return table(("check", "result", "count", "anomalies it looks for"), rows, kinds)


def replicas(run: Recorded) -> str:
    """Says how long the replicas took to reach one end, and how much of their disks was
    compared.
    """
    if run.env.get("arena") == "simulator":
        return (
            "<p>At its end the simulator compares the bytes of all replicas' logs, and what each "
            "has applied with the history.</p>"
        )
    converged, copies = run.verdict["converged_seconds"], run.verdict.get("copies")
    said = "never" if converged is None else f"after {converged} s"
    drawn = f"<p>After the last fault the replicas came to one end {said}.</p>"
    if not copies:
        return drawn + "<p>Their bytes were not compared.</p>"
    said = (
        f"Compared: {copies['bytes']} bytes in {copies['files']} rows of files of each replica, "
        f"entries {copies['first_index']} to {copies['last_index']}."
    )
    drawn += f"<p>{escape(said)}</p>"
    return drawn + table(("replica", "chain hash behind the last entry"), copies["chains"].items())


def coverage(run: Recorded) -> str:
    """Kinds × targets: took effect of carried out; kinds that were skipped, with the reason."""
    found = figures.coverage(run.faults)
    targets = sorted({target for row in found.values() for target in row})
    rows: list[Sequence[object]] = []
    kinds: list[str] = []
    for kind in sorted(found):
        cells = [found[kind].get(target) for target in targets]
        shown = [f"{cell[0]} of {cell[1]}" if cell else "" for cell in cells]
        seen = sum(cell[0] for cell in cells if cell)
        count = sum(cell[1] for cell in cells if cell)
        rows.append((kind, *shown, f"{100 * seen / count:.0f} %"))
        kinds.append("unknown" if seen < count else "")
    drawn = table(("kind", *targets, "took effect"), rows, kinds)
    idle = [kind for kind in run.env["kinds"] if kind not in found]
    if idle:
        drawn += f"<p>Not drawn by this seed: {escape(', '.join(idle))}.</p>"
    skipped = run.env.get("skipped") or {}
    if skipped:
        drawn += table(("skipped here", "why"), sorted(skipped.items()))
    return drawn


def recovery(run: Recorded) -> str:
    """Seconds until ready, and longest silence that touches the fault, by kind."""
    rows = [
        (one.kind, one.times, *_three(one.ready), *_three(one.served))
        for one in figures.recoveries(run.faults, run.history)
    ]
    ready = tuple(f"ready again {name} (s)" for name in ("p50", "p99", "max"))
    silent = tuple(f"silence {name} (s)" for name in ("p50", "p99", "max"))
    return table(("kind", "count", *ready, *silent), rows)


def _three(values: Sequence[float]) -> tuple[str, str, str]:
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return ("", "", "")
    asked = (figures.quantile(known, 0.5), figures.quantile(known, 0.99), max(known))
    return (f"{asked[0]:.2f}", f"{asked[1]:.2f}", f"{asked[2]:.2f}")


def operations(run: Recorded) -> str:
    """How each kind of operation ended."""
    found = run.verdict["operations"]
    ends = ("ok", "fail", "info")
    rows = [(kind, *(found[kind].get(end, 0) for end in ends)) for kind in sorted(found)]
    return table(("operation", "ok", "fail (certain)", "info (unknown)"), rows)


def environment(run: Recorded) -> str:
    """Table of the run's environment (env.json); settings as one object each."""
    left_out = ("schedule", "skipped", "swarm")  # the last two are tables of their own
    rows = [
        (name, value if isinstance(value, str | int | float) else json.dumps(value))
        for name, value in run.env.items()
        if name not in left_out
    ]
    return table(("", "value"), rows)
