"""`dledger bench states`: a state machine with a large state, under half of its full load.

    three processes, all with the state in memory; the leader proposes
    full     1,024 commands in flight, without states on disk: commands a second
    without  half of that, paced; the latency of each command
    with     the same with `state_mib` of state, while states are written again and again
    The last two by turns, `rounds` times; the rows and the bar are medians, as one run of 20 s has
    a p99 that another one has half or twice of.

    state_mib       of the state, in parts of 1 MiB (default 1024)
    rounds          of the last two phases (default 3)
    seconds         of each phase (default 20)
    data_file_mib   a state is written where a log file of so much begins (default 64)
    body_size       bytes of a command (default 1024)
    folder          where to work

Bar: the p99 of a command with states is at most twice the one without.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cluster.bench.embed import BAR_WINDOW, EmbedOptions, group, load, wait_for_leader

P99_RATIO_BAR = 2.0
LOAD_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class StatesOptions:
    """As the module's text says of each; "" for none."""

    folder: str = ""
    state_mib: int = 1024
    rounds: int = 3
    seconds: float = 20.0
    data_file_mib: int = 64
    body_size: int = 1024

    @classmethod
    def smoke(cls, folder: Path) -> StatesOptions:
        """Small enough for the test suite."""
        return cls(str(folder), 2, 1, 0.5, 1)


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Measure; one JSON object. Raises RuntimeError when the group does not come up."""
    given = StatesOptions(**options)
    full = phase(replace(given, state_mib=0), 0.0)
    rate = LOAD_SHARE * full["entries_per_second"]
    found: dict[str, list[dict[str, Any]]] = {"without": [], "with": []}
    phases = [("without", replace(given, state_mib=0)), ("with", given)]
    for number in range(given.rounds):
        for name, options_of in phases if number % 2 == 0 else reversed(phases):
            found[name].append(phase(options_of, rate))
    rows = {"full": full} | {name: _medians(rounds) for name, rounds in found.items()}
    ratio = rows["with"]["p99_ms"] / rows["without"]["p99_ms"]
    bars = {"p99_ratio": ratio, "p99_ratio_max": P99_RATIO_BAR, "p99_met": ratio <= P99_RATIO_BAR}
    return {"bench": "states", "options": asdict(given), **rows, "bars": bars}


def _medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of all rounds: the median of each number, and the p99 of each round."""
    numbers = [name for name, value in rounds[0].items() if isinstance(value, int | float)]
    medians = {name: statistics.median(one[name] for one in rounds) for name in numbers}
    by_node = zip(*(one["states_written"] for one in rounds), strict=True)
    return medians | {
        "p99_ms_of_rounds": [one["p99_ms"] for one in rounds],
        "states_written": [sum(of_node) for of_node in by_node],
    }


def phase(given: StatesOptions, rate: float) -> dict[str, Any]:
    """One row, of a group of its own. `rate`: commands a second, 0 for as many as there can be."""
    scratch = tempfile.TemporaryDirectory(prefix="states-bench-", dir=given.folder or None)
    with scratch as name, group(Path(name), partial(_command, given)) as nodes:
        leader = wait_for_leader(nodes)
        embed = EmbedOptions(seconds=given.seconds, body_size=given.body_size)
        if not rate:
            return load(nodes, leader, BAR_WINDOW, embed)
        paced = {"do": "paced", "rate": rate, "body_size": given.body_size}
        leader.ask(**paced, seconds=embed.warm_up_seconds)
        row = leader.ask(**paced, seconds=given.seconds)
        return row | {"states_written": [node.ask(do="states")["written"] for node in nodes]}


def _command(given: StatesOptions, config: dict[str, Any]) -> Sequence[str]:
    files = {"data_file_size": given.data_file_mib << 20, "entry_size_max": 256 << 10}
    kind = f"state {given.state_mib}"
    node = {"config": config | files, "profile": "", "kind": kind}
    return [sys.executable, "-m", "cluster.bench.embed_node", json.dumps(node)]
