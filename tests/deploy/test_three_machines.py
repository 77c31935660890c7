"""The page "Run a node", command by command, on machines of their own: 0 lost when one dies."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from cluster.settings.node import build_node, read_node
from tests.integration.nodes_by_hand import mistakes_of
from tests.integration.test_run_a_node import block, lines
from tests.interop.harness import toolchains
from tests.waiting import wait_until

from .machines import Machines, machines, why_not

NODES = ("n0", "n1", "n2")
ADDRESSES = {
    **{f"n{n}": f"10.0.0.{10 + n}" for n in range(4)},
    "ns": "10.0.0.20",
    "app": "10.0.0.99",
}
CLUSTER = ("-a", "10.0.0.20:9876")


@pytest.fixture(scope="module")
def _machines_here() -> None:
    try:
        toolchains.need("ip")
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    if why := why_not():
        pytest.skip(why)


def line(*begin: str) -> list[str]:
    """The one command of the page that begins so."""
    (found,) = lines(*begin)
    return found


def carry(here: Machines, origin: str, machine: str, *files: str) -> None:
    """As scp does: the same names, below the other machine's folder."""
    for file in files:
        (here.at(machine) / file).parent.mkdir(exist_ok=True)
        shutil.copy2(here.at(origin) / file, here.at(machine) / file)


def certificates(name: str) -> list[str]:
    return [f"tls/{file}" for file in ("authority.pem", f"{name}.pem", f"{name}.key")]


def make_three(here: Machines) -> None:
    """The files of the page's first half, made on app; each machine gets what is its own."""
    first, *_ = block("sh").splitlines()
    subprocess.run(["sh", "-c", first], cwd=here.at("app"), check=True)
    for words in lines("tls", "init"):
        here.done("app", *words)
    carry(here, "app", "ns", "cluster.secret")
    carry(here, "app", "n0", "cluster.secret")
    for name, words in zip(NODES, lines("node", "init"), strict=True):
        carry(here, "app", name, *certificates(name))
        if name != "n0":
            carry(here, "n0", name, "n0/node.toml")
        here.done(name, *words)
        raft = build_node(read_node(here.at(name) / name / "node.toml", {})).raft
        assert (raft.node_id, raft.tls_mode, raft.plain_peers()) == (name, "enforcing", [])


def of(name: str, words: list[str]) -> list[str]:
    """A command that the page says for n0, "on each machine"."""
    return [word.replace("n0/", f"{name}/") for word in words]


def serves(here: Machines, name: str) -> None:
    def looked() -> bool:
        assert here.processes[name].poll() is None, here.log(name)
        return here.run(name, *of(name, line("node", "status")))[0] == 0

    wait_until(looked, f"{name} serves", 60)


def send(here: Machines, first: int, end: int) -> None:
    texts = "".join(f"{number}\n" for number in range(first, end))
    here.done("app", "produce", "orders", *CLUSTER, stdin=texts)


@pytest.mark.usefixtures("_machines_here")
def test_the_page_works_on_machines_of_their_own(tmp_path: Path) -> None:
    with machines(tmp_path, ADDRESSES) as here:
        make_three(here)
        here.start("ns", *line("nameserver"))
        for name in NODES:
            here.start(name, *of(name, line("node", "run")))
        for name in NODES:
            serves(here, name)
        send(here, 0, 50)

        carry(here, "app", "n3", *certificates("n3"))
        carry(here, "n0", "n3", "n0/node.toml")
        here.start("n3", *line("node", "join"))
        wait_until(lambda: "from now on it starts with" in here.log("n3"), "n3 is in", 60)
        found = json.loads(here.done("app", "doctor", *CLUSTER, "-o", "json"))
        assert [one for one in found if one["id"] in {"plain-peers", "node-down"}] == []

        rows = json.loads(here.done("app", "status", *CLUSTER, "-o", "json"))
        assert {row["node"] for row in rows} == {*NODES, "n3"}
        (leader,) = (row["node"] for row in rows if row["role"] == "leader")
        here.kill(leader)
        send(here, 50, 100)
        received = here.done("app", "consume", "orders", "-n", "100", *CLUSTER).split()
        assert sorted(map(int, received)) == list(range(100))
    mistakes = [f"{path}: {said}" for path in tmp_path.glob("*.txt") for said in mistakes_of(path)]
    assert not mistakes, mistakes
