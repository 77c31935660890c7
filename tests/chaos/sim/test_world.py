"""Whole runs: clean seeds, replay, and bugs that must be noticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from chaos.sim import world
from chaos.sim.command import sim
from chaos.sim.kinds.table import RANDOM_KINDS
from chaos.sim.members import KINDS as MEMBER_KINDS
from chaos.sim.members import LOSS_KIND
from chaos.sim.random_nemesis import KINDS
from chaos.sim.runner import Plan, Totals
from chaos.sim.scheduler import Scheduler
from chaos.sim.world import World, run_seed


@pytest.mark.parametrize("seed", range(8))
def test_a_seed_is_clean(seed: int) -> None:
    nodes = 5 if seed % 4 == 3 else 3
    result = run_seed(seed, nodes, 20.0)
    assert not result.violation, Plan(seed, seed + 1, nodes, 20.0).again(seed)
    assert result.acked > 0
    assert sum(result.faults.values()) >= 4
    assert result.checks > 500


def test_a_seed_in_which_nothing_was_acknowledged_proves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(world, "open_clients", lambda environment: [])
    result = run_seed(0, 3, 2.0)
    assert (result.violation, result.acked) == ("nothing-acknowledged", 0)


@pytest.mark.parametrize(
    ("seeds", "seconds"),
    [(2, 10.0), pytest.param(50, 30.0, marks=pytest.mark.long)],
    ids=["short", "bar"],
)
def test_a_seed_gives_the_same_run_in_every_process(seeds: int, seconds: float) -> None:
    """The bar of docs/spec/chaos.md 6 is 50 seeds run twice."""
    traces = [_traces_in_a_process(seeds, seconds, hash_seed) for hash_seed in ("1", "2")]
    assert traces[0] == traces[1]
    assert len(set(traces[0])) == seeds


_REPLAY = """
from chaos.sim.runner import Plan
for seed in range({seeds}):
    print(Plan(0, 0, 0, {seconds}).run(seed).trace_hash)
"""


def _traces_in_a_process(seeds: int, seconds: float, hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _REPLAY.format(seeds=seeds, seconds=seconds)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    return done.stdout.split()


def test_other_seeds_are_other_runs() -> None:
    assert len({run_seed(seed, 3, 3.0).trace_hash for seed in range(3)}) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_alone_is_used_and_survived(kind: str) -> None:
    run = World(7, 3, 8.0)
    run.options.faults.update(dict.fromkeys(KINDS, 0.0) | {kind: 1.0})
    result = run.run()
    assert not result.violation, result.detail
    assert set(result.faults) == {kind}


def test_every_kind_that_is_drawn_has_its_deed() -> None:
    assert set(RANDOM_KINDS) == {*KINDS, *MEMBER_KINDS, LOSS_KIND}


def _run_broken(monkeypatch: pytest.MonkeyPatch, target: str, name: str, value: object) -> str:
    """Violations that some of the first seeds show with a rule taken out."""
    monkeypatch.setattr(f"{target}.{name}", value)
    for seed in range(12):
        result = run_seed(seed, 3, 30.0)
        if result.violation:
            return result.violation
    return ""


def test_an_acknowledgement_before_fsync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: object) -> None:
        self.done = True  # type: ignore[attr-defined]

    found = _run_broken(monkeypatch, "dledger.log.log_tasks.LogSync", "run", run)
    assert found in ("flushed-not-durable", "not-on-majority")


def test_a_wrong_majority_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _run_broken(monkeypatch, "dledger.core.quorum", "majority", lambda voters: 1)
    assert found


def test_a_cluster_that_never_answers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "LIVENESS_MAX", 3.0)
    monkeypatch.setattr("chaos.sim.network.Network.send", lambda *arguments: None)
    assert run_seed(1, 3, 2.0).violation == "liveness"


def test_scheduler_runs_in_order_of_time_then_of_asking() -> None:
    scheduler, seen = Scheduler(), []
    scheduler.at(2.0, seen.append, "c")
    scheduler.at(1.0, seen.append, "a")
    scheduler.after(1.0, seen.append, "b")
    scheduler.at(9.0, seen.append, "never")
    scheduler.run_until(5.0)
    assert seen == ["a", "b", "c"]
    assert (scheduler.now, scheduler.handled) == (5.0, 3)


def test_the_command_prints_one_object_and_the_line_that_replays() -> None:
    done = CliRunner().invoke(sim, ["--seeds", "0..2", "--seconds", "3", "-o", "json"])
    assert done.exit_code == 0
    found = json.loads(done.output)
    assert found["violations"] == 0
    assert found["seeds"] == 2
    assert {"speedup", "acked", "lost", "doubled", "reordered"} <= set(found)
    assert Plan(0, 9, 0, 60.0).again(3) == "dledger sim --seed 3 --nodes 5 --seconds 60"


def test_a_failing_run_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dledger.core.quorum.majority", lambda voters: 1)
    done = CliRunner().invoke(sim, ["--seed", "0", "--nodes", "3", "--seconds", "10"])
    assert done.exit_code == 1
    assert "again: dledger sim --seed 0 --nodes 3 --seconds 10 -v" in done.output
    assert "smaller: dledger chaos shrink --seed 0 --nodes 3 --seconds 10" in done.output


@pytest.mark.parametrize("words", [[], ["--seeds", "5"], ["--seeds", "5..5"], ["--seed", "x"]])
def test_wrong_use_is_said(words: list[str]) -> None:
    assert CliRunner().invoke(sim, words).exit_code == 254


def test_empty_totals_divide_nothing_by_nothing() -> None:
    assert Totals().report()["speedup"] == 0.0
