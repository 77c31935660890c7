"""`dledger doctor`: alerts of machine and cluster, what to try, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cluster.cli import dledger
from cluster.commands import doctor
from cluster.commands.connecting import Reach
from cluster.health.machine import Machine
from cluster.nameserver.server import NameServer
from tests.cluster.broker.harness import Brokers
from tests.cluster.health.test_machine import WELL
from tests.waiting import eventually


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`run(machine, *arguments)`: the command on such a machine, which has no local cluster."""
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)

    def call(machine: Machine, *arguments: str) -> Result:
        monkeypatch.setattr(doctor, "look", lambda folder: machine)
        return CliRunner().invoke(dledger, ["doctor", "--root", str(tmp_path), *arguments])

    return call


def test_well_machine_without_a_cluster_ends_well(run: Callable[..., Result]) -> None:
    found = run(WELL)
    assert found.exit_code == 0
    assert found.stdout == (
        "nothing is wrong with this machine\nno cluster was looked at: -a HOST:PORT names one\n"
    )


def test_warning_is_told_and_does_not_fail(run: Callable[..., Result]) -> None:
    found = run(replace(WELL, memory_free=0))
    assert found.exit_code == 0
    assert "warning: this machine: 0 MiB of memory are free\n    try: end" in found.stdout


def test_critical_alert_fails(run: Callable[..., Result]) -> None:
    found = run(replace(WELL, disk_free=0), "-o", "jsonl")
    assert found.exit_code == 1
    (alert,) = [json.loads(line) for line in found.stdout.splitlines()]
    assert (alert["level"], alert["id"]) == ("critical", "disk-full")


def test_cluster_that_does_not_answer_is_an_alert(
    run: Callable[..., Result], new_address: Callable[[], str]
) -> None:
    address = f"{new_address()}:9876"
    found = run(WELL, "-a", address, "-o", "json")
    assert found.exit_code == 1, found.output
    (alert,) = json.loads(found.stdout)
    assert (alert["level"], alert["id"], alert["subject"]) == ("critical", "cluster", address)
    assert alert["message"]
    assert "check the address" in alert["try"]


async def test_node_of_three_that_is_gone_is_told(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    hosts = [new_address() for _ in range(3)]
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        brokers = Brokers(tmp_path, hosts, {"name_servers": (server.address,)})
        await brokers.start()
        try:
            reach = Reach(server.address)

            async def kinds() -> set[str]:
                return {one["id"] for one in await doctor.cluster_alerts(reach)}

            async def well() -> bool:
                return not await kinds() & {"no-leader", "no-margin", "node-down"}

            await eventually(well, "three nodes without an alert of the group")
            await brokers.stop_node(2)

            async def told() -> bool:
                return {"no-margin", "node-down"} <= await kinds()

            await eventually(told, "the alerts of the node that is gone")
        finally:
            await brokers.close()
