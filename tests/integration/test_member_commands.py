"""`dledger member` as a user meets it: one joins, one leaves, a majority is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.commands.members import member
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from tests.waiting import RAFT_TIMINGS, wait_until

SMALL = RAFT_TIMINGS | {
    "raft.data_file_size": str(16 << 20),
    "raft.index_file_size": str(1 << 20),
}


def run(cluster: LocalCluster, *arguments: str) -> tuple[int, str]:
    command, *rest = arguments
    local = ["--root", str(cluster.root)] if command in ("add", "remove") else []
    reach = [] if command == "recover" else ["-a", cluster.nameserver]
    found = CliRunner().invoke(member, [command, *rest, *local, *reach])
    return found.exit_code, found.output + (str(found.exception) if found.exception else "")


def listed(cluster: LocalCluster) -> dict[str, Any]:
    code, said = run(cluster, "list", "-o", "json")
    assert code == 0, said
    found: dict[str, Any] = json.loads(said)
    return found


def standings(cluster: LocalCluster) -> dict[str, str]:
    return {row["node"]: row["standing"] for row in listed(cluster)["members"]}


@pytest.mark.timeout(90)
def test_members_by_command(tmp_path: Path, new_address: Callable[[], str]) -> None:
    hosts = [new_address() for _ in range(4)]
    cluster = LocalCluster.create(tmp_path / "local", plan.plan(3, hosts), SMALL, tied=True)
    cluster.up()
    try:
        assert standings(cluster) == dict.fromkeys(("n0", "n1", "n2"), "voter")
        code, said = run(cluster, "remove", "n0")
        assert (code, "nothing was changed; --yes does it" in said) == (0, True)
        assert "2 decide; 0 more may fail now: the next loss stops the group" in said
        assert "n0" in standings(cluster)

        cluster.add_node("n3", new_address())
        wait_until(
            lambda: "n3 has called and is no member" in run(cluster, "list")[1], "the call of n3"
        )
        code, said = run(cluster, "add", "n3", "--yes")
        assert code == 0, said
        wait_until(lambda: standings(cluster).get("n3") == "voter", "n3 as a voter")

        code, said = run(cluster, "remove", "n0", "--yes")
        assert code == 0, said
        cluster.forget_node("n0")
        cluster.wait_ready()
        assert sorted(standings(cluster)) == ["n1", "n2", "n3"]
        code, said = run(cluster, "remove", "n9", "--yes")
        assert code != 0
        assert "no member has this name" in said
    finally:
        cluster.down()

    folder = tmp_path / "local" / "n3" / "data" / "dledger-n3"
    code, said = run(cluster, "recover", str(folder))
    assert code != 0
    assert "say --unsafe" in said
    code, said = run(cluster, "recover", str(folder), "--unsafe")
    assert code == 0, said
    assert "Never start n1, n2 again" in said
    assert "nothing was changed" in said
    code, said = run(cluster, "recover", str(folder), "--unsafe", "--yes", "-o", "json")
    assert code == 0, said
    assert json.loads(said)[0]["done"] is True
