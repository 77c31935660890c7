"""Variants take turns, and what is said of them is what was measured."""

from __future__ import annotations

import os
import subprocess
import sys

from pipeline.bench.turns import Job, compared, take_turns, turns_with_cpu

BURN = "import time\nwhile time.process_time() < 0.15: pass"


def test_everybody_has_a_turn_before_anybody_has_a_second() -> None:
    calls: list[str] = []
    jobs = {name: Job(10, lambda name=name: calls.append(name)) for name in ("a", "b")}
    rates = take_turns(jobs, 2)
    assert calls == ["a", "b"] * 3, "one that warms up, two that count"
    assert {name: len(found) for name, found in rates.items()} == {"a": 2, "b": 2}
    calls.clear()
    take_turns(jobs, 1, warm_ups=0)
    assert calls == ["a", "b"]


def test_processor_time_of_processes_below_counts() -> None:
    """Of one that ended within the turn, and of one that goes on."""
    command = [sys.executable, "-c", BURN + "\nprint(1, flush=True)\ninput()"]
    going: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        going.append(subprocess.Popen(command, **pipes))  # type: ignore[call-overload]
        assert going[0].stdout is not None
        assert going[0].stdout.readline()

    jobs = {
        "ended": Job(1, lambda: subprocess.run([sys.executable, "-c", BURN], check=True)),
        "going": Job(1, start),
        "idle": Job(1, lambda: None),
    }
    try:
        mine = os.getpid()
        found = turns_with_cpu(
            jobs, 1, warm_ups=0, part_of=lambda p: "mine" if p.pid == mine else "below"
        )
    finally:
        for process in going:
            process.communicate(b"\n")
    assert min(found.cpu["ended"][0], found.cpu["going"][0]) >= 0.13
    assert found.cpu["idle"][0] < 0.13
    (parts,) = found.parts["going"]
    assert parts["below"] >= 0.13 > parts["mine"]
    assert found.cpu["going"][0] == sum(parts.values())
    assert found.ratios("idle", "ended")["time"] > 1


def test_medians_and_bests_beside_a_yardstick() -> None:
    found = compared({"ours": [100.0, 300.0, 200.0], "theirs": [400.0, 400.0, 1000.0]}, "theirs")
    assert found["ours"] == {
        "rows_per_s_median": 200,
        "rows_per_s_best": 300,
        "ratio_to_theirs": 0.5,
    }
    assert found["theirs"]["ratio_to_theirs"] == 1.0
