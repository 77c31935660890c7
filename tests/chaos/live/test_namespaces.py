"""Networks of their own, where root and the tools are; elsewhere skipped with the reason."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.checkers.verdict import Word
from chaos.drivers import netfilter
from chaos.drivers.probe import FAULTS, faults_in, in_namespaces, why_not
from chaos.drivers.tools import run_tool
from chaos.faults import CHOREOGRAPHIES, Network
from chaos.live import namespaces
from chaos.live.command import chaos
from chaos.live.namespaces import Namespaces
from chaos.live.run import Ran, make_plan, run
from chaos.live.settings import RunSettings, load
from chaos.tools.exit_codes import USAGE
from chaos.workloads import Workload

from ...interop.harness import toolchains

LOAD = Workload(queues=2, producers=4, keyed=1, readers=1, registers=1, rate=80.0, asks=4.0)


@pytest.fixture(scope="module")
def _namespaces_here() -> None:
    """CI can install tools, but not make us root or give us a right."""
    try:
        if not os.geteuid():
            toolchains.need(*namespaces.TOOLS)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    if why := namespaces.why_not():
        pytest.skip(f"not here: {why}")


def test_kinds_below_tcp_are_kinds_of_links() -> None:
    assert set(netfilter.FAULTS) <= set(FAULTS)
    assert faults_in(Network.NAMESPACES)["loss"] is netfilter.loss
    assert faults_in(Network.NAMESPACES)["kill"] is FAULTS["kill"]
    assert faults_in(Network.PROXIES) == FAULTS


@pytest.mark.parametrize("kind", ["clog", "corrupt", "membership", CHOREOGRAPHIES[0].name])
def test_what_needs_proxies_is_skipped_with_the_reason(kind: str) -> None:
    assert why_not(kind, Network.NAMESPACES).startswith("needs the link proxies")


def test_the_network_is_chosen_in_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[run]\nnetwork = "namespaces"\n')
    assert load(file).network is Network.NAMESPACES
    assert RunSettings().network is Network.PROXIES


def test_a_machine_without_them_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert namespaces.why_not() == "needs root"
    assert set(in_namespaces().values()) == {"needs root"}
    listed = json.loads(CliRunner().invoke(chaos, ["faults", "-o", "json"]).output)["namespaces"]
    assert listed == dict.fromkeys(netfilter.FAULTS, "needs root")
    out = str(tmp_path / "out")
    asked = CliRunner().invoke(chaos, ["run", "--network", "namespaces", "--out", out])
    assert asked.exit_code == USAGE
    assert "needs root" in asked.output


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespaces, "TOOLS", ("sh", "nft-of-the-test"))
    assert namespaces.why_not().startswith("needs nft-of-the-test (packages")


@pytest.mark.usefixtures("_namespaces_here")
def test_namespaces_leave_nothing_behind() -> None:
    made = Namespaces(["n0", "n1"])
    made.open()
    try:
        assert made.host("n1") in made.run("n1", "ip", "-4", "address")
        assert made.host("n1") not in made.run("n0", "ip", "-4", "address")
        assert made.block in run_tool("ip", "route", "show", "table", "local")
        namespaces.sweep()  # this process lives
        assert (namespaces.MOUNTS / made.name("n0")).exists()
    finally:
        made.close()
    assert not list(namespaces.MOUNTS.glob(f"dl{os.getpid()}-*"))
    assert not list(namespaces.INTERFACES.glob(f"dl{os.getpid()}*"))
    assert made.block not in run_tool("ip", "route", "show", "table", "local")


@pytest.fixture(scope="module")
def ran(_namespaces_here: None, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    settings = RunSettings(
        seconds=24.0,
        kinds=tuple(netfilter.FAULTS),
        network=Network.NAMESPACES,
        workload=LOAD,
        gap_seconds_max=20.0,
    )
    root: Path = tmp_path_factory.mktemp("namespaces")
    return asyncio.run(run(make_plan(settings, 11, each=True), root))


@pytest.mark.long
@pytest.mark.timeout(200)
@pytest.mark.parametrize("kind", netfilter.FAULTS)
def test_a_fault_below_tcp_takes_effect(ran: Ran, kind: str) -> None:
    (one,) = [one for one in ran.evidence.happened if one.planned.kind == kind]
    assert one.seen, one.error
    assert not one.error


@pytest.mark.long
@pytest.mark.timeout(200)
def test_nothing_is_lost_below_tcp(ran: Ran) -> None:
    verdict = ran.judgement.verdict
    assert verdict.anomalies == ()
    assert ran.judgement.word is Word.VALID
    assert verdict.acked > 300
    assert not list(namespaces.MOUNTS.glob(f"dl{os.getpid()}-*"))


class _Kernel:
    """Namespaces as files of a folder; it refuses to delete one so many times."""

    def __init__(self, folder: Path, refusals: dict[str, int]) -> None:
        self.folder, self.refusals = folder, refusals
        for node in ("n0", "n1", "n2"):
            (folder / f"dl7-{node}").touch()

    def run_tool(self, *words: str) -> str:
        name = words[-1]
        if self.refusals.get(name, 0) > 0:
            self.refusals[name] -= 1
            raise OSError(f"{name} is busy")
        (self.folder / name).unlink()
        return ""


@pytest.mark.parametrize(("refusals", "stays"), [(3, []), (1000, ["dl7-n0"])])
def test_a_refused_removal_is_asked_again_and_keeps_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refusals: int, stays: list[str]
) -> None:
    kernel = _Kernel(tmp_path, {"dl7-n0": refusals})
    monkeypatch.setattr(namespaces, "MOUNTS", tmp_path)
    monkeypatch.setattr(namespaces, "INTERFACES", tmp_path / "none")
    monkeypatch.setattr(namespaces, "run_tool", kernel.run_tool)
    pauses: list[float] = []
    monkeypatch.setattr(namespaces.time, "sleep", pauses.append)
    if stays:
        with pytest.raises(OSError, match=r"networks of a run stay: dl7-n0 .*dl7-n0 is busy"):
            namespaces.remove("dl7")
    else:
        namespaces.remove("dl7")
        assert pauses == list(namespaces.REMOVAL_PAUSES_SECONDS[:3])
    assert [path.name for path in tmp_path.iterdir()] == stays
