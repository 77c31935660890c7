"""`dledger node join` and `replace`: a fourth node, a dead one's place, and what is refused."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.nodes_by_hand import SMALL_FLAGS, ByHand, by_hand, dledger, done, init_three
from tests.waiting import wait_until

DONE = "from now on it starts with"


def members(reach: str) -> dict[str, str]:
    """Name → standing."""
    rows = json.loads(done("member", "list", "-a", reach, "-o", "json"))["members"]
    return {row["node"]: row["standing"] for row in rows}


def new_node(nodes: ByHand, verb: str, name: str, *options: str, at: str, reach: str) -> None:
    """Start `dledger node join|replace` as a process, and wait until it says that it is done."""
    before = nodes.log(name).count(DONE) if (nodes.folder / f"{name}.txt").exists() else 0
    command = ["cluster.cli", "node", verb, str(nodes.file(name)), "-a", reach, *SMALL_FLAGS]
    secrets = ["--like", str(nodes.file("n0"))]
    where = ["--at", at, "--admin", f"{at}:8080"]
    nodes.start(name, *command, *secrets, *where, *options)

    def is_in() -> bool:
        assert nodes.processes[name].poll() in (None, 0), nodes.log(name)
        return nodes.log(name).count(DONE) > before

    wait_until(is_in, f"{name} is taken in", 60)


@dataclass(frozen=True, slots=True)
class Three:
    """n0, n1 and n2, which serve, and their name server."""

    nodes: ByHand
    hosts: list[str]
    name_server: str


@pytest.fixture(scope="module")
def three(
    tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> Iterator[Three]:
    """One group for this file; each test says what it leaves to the next."""
    with by_hand(tmp_path_factory.mktemp("three")) as nodes:
        hosts = [new_address() for _ in range(4)]
        name_server = nodes.name_server(hosts[3])
        init_three(nodes, hosts, name_server)
        for name in ("n0", "n1", "n2"):
            assert stat.S_IMODE(nodes.file(name).stat().st_mode) == 0o600
            nodes.run(name)
        for name in ("n0", "n1", "n2"):
            nodes.serves(name)
        yield Three(nodes, hosts, name_server)


def test_any_node_stands_for_the_cluster(three: Three) -> None:
    """Every command that takes -a takes a node's address, too. Changes nothing of the group."""
    node = ["-a", f"{three.hosts[2]}:10911"]
    done("topic", "create", "by-node", *node)
    done("produce", "by-node", *node, stdin="hi\n")
    assert done("consume", "by-node", "-n", "1", *node) == "hi\n"
    assert "by-node" in done("topic", "list", *node)
    assert "n1" in done("member", "list", *node)
    done("group", "list", *node)
    done("verify", *node)
    rows = json.loads(done("status", *node, "-o", "json"))
    assert [row["node"] for row in rows] == ["n0", "n1", "n2"]
    assert sorted(row["role"] for row in rows) == ["follower", "follower", "leader"]
    for row in rows:
        assert row["up"]
        assert row["first"] == 0 <= row["applied"] <= row["committed"] <= row["last"]
        assert (row["disk"], row["failed"]) == ("good", "")
    asked = json.loads(done("status", "-a", three.name_server, "-o", "json"))
    assert [row["node"] for row in asked] == ["n0", "n1", "n2"]


@pytest.mark.timeout(120)
def test_what_is_refused(three: Three, tmp_path: Path, new_address: Callable[[], str]) -> None:
    """n0, n1, n2 serve afterwards."""
    nodes, name_server = three.nodes, three.name_server
    reach = ["-a", name_server]
    like = ["--like", str(nodes.file("n0"))]
    at = ["--at", new_address(), "--admin", ""]
    file = nodes.file("n3")

    for verb, options, sentence in (
        ("join", [*at, *like], "the new node has no name"),
        ("join", [*at, *like, "--name", "n1"], "broker-a has a member n1 already"),
        ("join", [*like, "--name", "n3"], "the new node has no address"),
        ("join", [*at, "--name", "n3"], "the cluster has a secret (raft.secret)"),
        ("join", [*like, "--name", "n3", "--at", "x:y"], "'x:y' is no address"),
        ("replace", [*at, *like, "--dead", "n9"], "broker-a has no member n9; it has n0"),
        ("replace", [*at, *like, "--dead", "n1"], "n1 is alive"),
        ("replace", [*at, *like, "--dead", "n1", "--name", "n3"], "n1 is alive"),
    ):
        code, said = dledger("node", verb, str(file), *options, *reach)
        assert code != 0, (options, said)
        assert sentence in said
        assert not file.parent.exists(), options
    leader = json.loads(done("member", "list", *reach, "-o", "json"))["leader"]
    one, two = (name for name in ("n0", "n1", "n2") if name != leader)
    taken = [*at, *like, "--dead", one, "--name", two, "--force"]
    code, said = dledger("node", "replace", str(file), *taken, *reach)
    assert (code != 0, f"a member {two}" in said) == (True, True), said
    assert not file.parent.exists()
    for options in ([], ["--force"], ["--force", *at, "--name", "n3"]):
        code, said = dledger(
            "node", "replace", str(file), *like, "--dead", leader, *options, *reach
        )
        assert (code, "dledger leader move broker-a" in said) == (4, True), said
        assert not file.parent.exists()

    # A folder that still holds what the node knew is not thrown away.
    nodes.kill("n1")
    code, said = dledger("node", "replace", str(nodes.file("n1")), "--dead", "n1", *reach)
    assert (code != 0, "still holds n1, with all that it knew" in said) == (True, True)
    nodes.run("n1")
    nodes.serves("n1")

    # Of another secret: no peer lets it in, and the group stays as it was.
    secret = tmp_path / "secret"
    secret.write_text("another-secret-than-theirs")
    command = ["cluster.cli", "node", "join", str(file), "--name", "n3", *at, *reach]
    nodes.start("n3", *command, "--secret-file", str(secret))
    said = nodes.fails("n3")
    assert "n3 is not let in:" in said
    assert "give every node the same secret" in said
    assert sorted(members(name_server)) == ["n0", "n1", "n2"]

    # Forced: a member that lives gives its name to another machine, and is not heard any more.
    shutil.rmtree(file.parent)
    leader = json.loads(done("member", "list", *reach, "-o", "json"))["leader"]
    follower = next(name for name in ("n1", "n2") if name != leader)
    old = nodes.processes.pop(follower)
    nodes.processes["old"] = old
    nodes.file(follower).rename(tmp_path / "old.toml")
    new_node(
        *(nodes, "replace", follower, "--dead", follower, "--force"),
        *("--folder", str(nodes.folder / "forced")),
        at=new_address(),
        reach=name_server,
    )
    assert members(name_server) == dict.fromkeys(("n0", "n1", "n2"), "voter")
    assert old.poll() is None, "it runs on, and nobody hears it"
    nodes.kill("old")
    told = nodes.log(follower).count("comes back as incarnation")
    assert told <= 20, "each of its links says so, not each attempt"


@pytest.mark.timeout(180)
def test_one_joins_and_dead_ones_are_replaced(three: Three, new_address: Callable[[], str]) -> None:
    nodes, hosts, name_server = three.nodes, three.hosts, three.name_server
    done("produce", "orders", "-a", name_server, stdin="1\n")

    # A fourth, which asks any node for the settings, and stops when it is in.
    any_node = f"{hosts[0]}:10911"
    new_node(nodes, "join", "n3", "--name", "n3", "--then-stop", at=new_address(), reach=any_node)
    assert nodes.processes.pop("n3").wait() == 0
    assert members(name_server) == dict.fromkeys(("n0", "n1", "n2", "n3"), "voter")
    nodes.run("n3")
    nodes.serves("n3")

    # One that is dead, with its disk and its machine, under its own name at another address.
    nodes.kill("n1")
    shutil.rmtree(nodes.file("n1").parent)
    new_node(nodes, "replace", "n1", "--dead", "n1", at=new_address(), reach=name_server)
    nodes.serves("n1")
    assert members(name_server) == dict.fromkeys(("n0", "n1", "n2", "n3"), "voter")

    # Another, by one of a new name.
    nodes.kill("n2")
    rows = json.loads(done("status", "-a", name_server, "-o", "json"))
    assert {row["node"]: row["up"] for row in rows} == {
        **dict.fromkeys(("n0", "n1", "n3"), True),
        "n2": False,
    }
    new_node(
        *(nodes, "replace", "n4", "--dead", "n2", "--name", "n4"),
        at=new_address(),
        reach=f"{hosts[0]}:10911",
    )
    assert members(name_server) == dict.fromkeys(("n0", "n1", "n3", "n4"), "voter")

    # Whoever is asked, also the one that moved, passes on to whoever leads.
    for leader in ("n1", "n4", "n0"):
        done("leader", "move", "broker-a", leader, "-a", name_server)
        done("produce", "orders", "-a", name_server, stdin=f"{leader}\n")
    got = done("consume", "orders", "-n", "4", "-a", name_server).split()
    assert sorted(got) == ["1", "n0", "n1", "n4"]

    row = json.loads(done("node", "status", str(nodes.file("n3")), "-o", "json"))[0]
    assert row["members"] == ["n0", "n1", "n3", "n4"]
    assert row["dispatched"] <= row["applied"] <= row["committed"] <= row["last"]
    assert nodes.stop("n0") == 0
    code, said = dledger("node", "status", str(nodes.file("n0")))
    assert (code, "n0 does not answer" in said) == (3, True)
    nodes.kill("n1")
    wait_until(
        lambda: dledger("node", "status", str(nodes.file("n3")))[0] == 4,
        "one of two that are left says that it does not serve",
    )
    code, said = dledger("status", "-a", name_server)
    assert (code, "no node leads at the moment" in said) == (4, True)
