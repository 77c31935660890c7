"""What a run is going to do is known before it begins, and so is that it would do nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaos.drivers.probe import why_not_among
from chaos.faults import ALONE, BY_NAME, KINDS, Driver, Network, kinds_named
from chaos.live.command import chaos
from chaos.live.run import make_plan
from chaos.live.settings import RunSettings
from chaos.schedule import fits

from .commands import run as run_live


def _run(*words: str) -> Result:
    return CliRunner().invoke(chaos, ["run", *words])


def _refused(done: Result, said: str) -> None:
    assert done.exit_code == 254, done.output
    assert said in " ".join(done.output.split())


def test_a_run_in_which_no_fault_fits_is_refused(tmp_path: Path) -> None:
    """It would be VALID, and prove nothing."""
    out = tmp_path / "run"
    done = _run("--seconds", "5", "--seed", "1", "--faults", "kill", "--out", str(out))
    _refused(done, "no fault fits into 5 s, 2 s of quiet at either end")
    assert not out.exists()


def test_a_run_whose_faults_cannot_be_here_is_refused_with_each_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.live.run.why_not", lambda kind, _: f"needs more for a {kind}")
    _refused(_run("--faults", "kill,pause"), "(kill: needs more for a kill; pause: needs more for")
    monkeypatch.undo()
    config = tmp_path / "run.toml"
    config.write_text("[faults]\nkinds = []\n")
    _refused(_run("--config", str(config)), "none was named")


def test_one_node_is_hit_by_what_needs_no_other() -> None:
    kinds = kinds_named(["all", "choreographies"])
    planned = make_plan(RunSettings(nodes=1, seconds=120.0, kinds=kinds), 3)
    assert {"transfer", "membership", "bit-rot", "one-edge-cut"} <= planned.skipped.keys()
    assert "needs a second node" in planned.skipped["transfer"]
    assert set(planned.kinds) <= set(ALONE)
    assert {"kill", "pause", "partition", "clock"} <= set(planned.kinds)
    assert planned.schedule
    assert set(ALONE) <= BY_NAME.keys()


def test_without_proxies_one_node_has_no_links() -> None:
    links = [kind.name for kind in KINDS if kind.driver is Driver.LINK]
    for network in (Network.NAMESPACES, Network.TOXIPROXY):
        assert all(why_not_among(name, 1, network) for name in links)
    assert not why_not_among("partition", 1, Network.PROXIES)


@pytest.mark.parametrize("nodes", range(1, 6))
def test_nothing_is_planned_that_would_wait_for_ever(nodes: int) -> None:
    """Of two nodes none may miss: with --each such a fault was waited for without an end."""
    for seed in range(20):
        planned = make_plan(RunSettings(nodes=nodes), seed, each=True)
        assert all(fits(one, (), nodes) for one in planned.schedule)
        assert {one.kind for one in planned.schedule} == set(planned.kinds)
    if nodes == 2:
        assert "of 2 none may miss" in planned.skipped["power-loss"]
        assert "kill" in planned.kinds  # of both


@pytest.mark.long
def test_a_cluster_of_one_is_run_and_judged(tmp_path: Path) -> None:
    """Faults that take nothing away met on its only node, and nobody was left to aim at."""
    faults = "latency,reset,slice,client,pause,transfer"
    code, said = run_live(
        tmp_path / "run",
        *("--nodes", "1", "--seconds", "10", "--seed", "2", "--faults", faults),
        seconds_max=100,
    )
    assert (said["anomalies"], said["unknown_because"], code) == ([], [], 0)
    assert said["faults"]["took_effect"] > 1
    assert said["acked"] > 100
    env = json.loads((tmp_path / "run" / "env.json").read_text())
    assert env["skipped"] == {"transfer": "needs a second node: --nodes 3"}
