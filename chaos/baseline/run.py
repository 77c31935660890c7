"""One course against the baseline: load, fault, heal, every replica's values, verdict."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from chaos.baseline.courses import ACKED_AFTER, ACKED_BEFORE, COURSES, Scene
from chaos.baseline.nodes import Nodes, NotAnswering, real_power_why_not
from chaos.baseline.writers import Writers
from chaos.checkers.anomaly import Anomaly, Log
from chaos.checkers.verdict import Verdict, Word, count, judge
from chaos.history import Operation

SETTLE_SECONDS_MAX = 15.0
HEAL_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one course; `seen` is its observed effect, "" if it had none."""

    course: str
    seed: int
    verdict: Verdict
    seen: str
    seconds: float
    history: tuple[Operation, ...]
    logs: Mapping[str, Log]


async def run_course(
    course: str, seed: int, root: Path, *, real_power: bool | None = None
) -> Result:
    """Raises KeyError for a course there is not, NotAnswering when the cluster never starts.

    `real_power`: None for real power cuts where this machine can have them.
    """
    carry_out, began = COURSES[course], time.monotonic()
    real = course == "power-all" and not real_power_why_not() if real_power is None else real_power
    trouble: list[Anomaly] = []
    logs: dict[str, Log] = {}
    seen = ""
    async with Nodes(root, real) as nodes:
        writers = Writers(nodes)
        try:
            if not await writers.until_acked(ACKED_BEFORE):
                raise NotAnswering("the cluster acknowledged too little before any fault")
            try:
                seen = await carry_out(Scene(nodes, writers, Random(f"{course}/{seed}")))
                if not await writers.until_acked(ACKED_AFTER, HEAL_SECONDS_MAX):
                    trouble.append(
                        Anomaly("unavailable", "too few acknowledgements after it healed")
                    )
            except NotAnswering as error:
                trouble.append(Anomaly("not-up-again", str(error)))
        finally:
            await writers.stop()
        logs, settled = await _settle(nodes)
    if not settled:
        trouble.append(Anomaly("not-converged", f"not equal after {SETTLE_SECONDS_MAX:g} s"))
    history = tuple(writers.history)
    found = judge(history, logs, acked_min=ACKED_BEFORE)
    anomalies = [*found.anomalies, *trouble]
    word = Word.INVALID if anomalies else found.word if seen else Word.UNKNOWN
    verdict = count(word, found.acked, anomalies)
    return Result(course, seed, verdict, seen, time.monotonic() - began, history, logs)


async def _settle(nodes: Nodes) -> tuple[dict[str, Log], bool]:
    """Every answering replica's values, when they are equal and stay so, or time is up."""
    end = time.monotonic() + SETTLE_SECONDS_MAX
    before: dict[str, Log] = {}
    while True:  # bounded by the time
        logs: dict[str, Log] = {}
        for node in nodes.nodes:
            try:
                values = json.loads(await nodes.ask(node, "dump"))
            except NotAnswering:
                continue
            logs[node.name] = list(enumerate(values))
        same = len(logs) == len(nodes.nodes) and len({str(log) for log in logs.values()}) == 1
        if same and logs == before:
            return logs, True
        if time.monotonic() > end:
            return logs, False
        before = logs
        await asyncio.sleep(0.5)
