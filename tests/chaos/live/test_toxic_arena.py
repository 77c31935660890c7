"""Links through toxiproxy: the official server where Go is, ours everywhere."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.checkers.verdict import Word
from chaos.drivers import toxics
from chaos.drivers.probe import faults_in, why_not
from chaos.faults import Network
from chaos.live import nemesis, toxic_links
from chaos.live.arena import proxied
from chaos.live.command import chaos
from chaos.live.run import Ran, make_plan, run
from chaos.live.settings import RunSettings, load
from chaos.live.toxic_links import OFFICIAL, OURS, ToxicLinks, serving, which_server
from chaos.toxiproxy import official
from chaos.workloads import Workload
from cluster.local import plan

LOAD = Workload(queues=2, producers=4, keyed=1, readers=1, registers=1, rate=80.0, asks=4.0)
NETWORKS = (Network.TOXIPROXY, Network.TOXIPROXY_OWN)


def test_each_directed_pair_and_each_node_has_a_proxy() -> None:
    links = ToxicLinks(proxied(plan.plan(3))[1].links)
    names = {link.name for link in links.links}
    assert len(names) == len(links.links) == 15
    pairs = {f"{a}-{b}" for a in ("n0", "n1", "n2") for b in ("n0", "n1", "n2") if a != b}
    peers = {f"peer-{pair}" for pair in pairs}
    assert {link.name for link in links.of(["n0", "n1", "n2"], "peer")} == peers
    clients = links.of(["n0", "n1", "n2"], "client")
    assert {link.name for link in clients} == {f"client-client-n{number}" for number in range(3)}
    edge = {link.name for link in links.between("n0", "n1") if link.kind == "peer"}
    assert edge == {"peer-n0-n1", "peer-n1-n0"}


@pytest.mark.parametrize("network", NETWORKS)
def test_kinds_through_toxiproxy(network: Network) -> None:
    assert faults_in(network)["partition"] is toxics.partition
    assert not why_not("clog", network)
    assert not why_not("old-leader-returns-with-queue", network)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("kind", ["loss", "corrupt", "replay", "syn-hole", "membership"])
def test_what_toxiproxy_cannot_do_is_skipped_with_the_reason(kind: str, network: Network) -> None:
    assert why_not(kind, network).startswith("needs the link proxies")


def test_the_network_is_chosen_in_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[run]\nnetwork = "toxiproxy-own"\n')
    assert load(file).network is Network.TOXIPROXY_OWN


def test_without_go_ours_is_used_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(official, "find", lambda: None)
    monkeypatch.setattr(official, "go", lambda: None)
    with serving(own_one=False) as (url, server):
        assert server == OURS
        assert url.startswith("http://127.0.0.1:")
    assert "no Go tool chain" in capsys.readouterr().err
    listed = json.loads(CliRunner().invoke(chaos, ["faults", "-o", "json"]).output)["toxiproxy"]
    assert listed["server"] == which_server() == f"{OURS}, since no Go tool chain was found"
    assert listed["kinds"] == list(toxics.FAULTS)


def test_the_official_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official, "find", lambda: "/usr/bin/toxiproxy-server")
    assert which_server() == f"{OFFICIAL} (/usr/bin/toxiproxy-server)"
    assert "the official server" in CliRunner().invoke(chaos, ["faults"]).output


@pytest.fixture(scope="module", params=NETWORKS)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    if request.param is Network.TOXIPROXY and not (official.find() or official.go()):
        pytest.skip("not here: the official toxiproxy server needs Go")
    settings = RunSettings(
        seconds=20.0,
        kinds=tuple(toxics.FAULTS),
        network=request.param,
        workload=LOAD,
        gap_seconds_max=20.0,
    )
    root: Path = tmp_path_factory.mktemp("toxics")
    return asyncio.run(run(make_plan(settings, 11, each=True), root))


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", toxics.FAULTS)
def test_a_toxic_takes_effect(ran: Ran, kind: str, request: pytest.FixtureRequest) -> None:
    (one,) = [one for one in ran.evidence.happened if one.planned.kind == kind]
    assert one.seen, one.error
    assert not one.error
    wanted = OFFICIAL if "own" not in request.node.callspec.params["ran"] else OURS
    assert wanted in one.seen


@pytest.mark.long
@pytest.mark.timeout(400)
def test_nothing_is_lost_through_toxiproxy(ran: Ran) -> None:
    assert ran.judgement.verdict.anomalies == ()
    assert ran.judgement.word is Word.VALID
    assert ran.judgement.verdict.acked > 300


@pytest.mark.long
@pytest.mark.timeout(400)
def test_toxics_that_do_nothing_are_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No proof of effect comes from a server that sets no toxic and takes no proxy down."""

    async def nothing(*_: object, **__: object) -> None:
        """Toxics are lost on their way."""

    monkeypatch.setattr(toxic_links.ToxicLinks, "add", nothing)
    monkeypatch.setattr(toxic_links.ToxicLinks, "down", nothing)
    monkeypatch.setattr(nemesis, "TRIES_MAX", 1)
    kinds = tuple(kind for kind in toxics.FAULTS if not kind.startswith("old-leader"))
    settings = RunSettings(
        seconds=8.0, kinds=kinds, network=Network.TOXIPROXY_OWN, workload=LOAD, acked_min=1
    )
    ran = asyncio.run(run(make_plan(settings, 11, each=True), tmp_path))
    assert {one.planned.kind: one.seen for one in ran.evidence.happened} == dict.fromkeys(kinds, "")
    assert ran.judgement.word is Word.UNKNOWN
