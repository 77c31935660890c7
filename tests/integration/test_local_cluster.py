"""`dledger up / down / ps / status / logs` on real processes, and what goes wrong around them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from cluster.commands.local import up
from cluster.commands.status import last_ends, local_rows, margins
from cluster.local import admin, one_address, plan, processes
from cluster.local.launcher import LauncherError, LocalCluster
from cluster.local.profile import BROKER
from tests.command_line import run
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def broken_later(
    tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> Iterator[LocalCluster]:
    """One cluster for this file, started by the command line as a user would."""
    root = tmp_path_factory.mktemp("cli") / "local"
    found = dledger(root, "up", "--any-port", "--set", "raft.data_file_size=16777216")
    assert found.returncode == 0, found.stderr
    cluster = LocalCluster(root)
    yield cluster
    cluster.down()


def dledger(root: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command, *rest = arguments
    options = ["--root", str(root)] if command in {"up", "down", "ps", "status", "logs"} else []
    environment = {**os.environ, "DLEDGER_HOME": str(root.parent)}
    return run(command, *options, *rest, env=environment, stdin=stdin)


def test_the_five_minute_tour(broken_later: LocalCluster) -> None:
    root = broken_later.root
    rows = json.loads(dledger(root, "ps", "-o", "json").stdout)
    assert [row["node"] for row in rows] == ["ns", "n0", "n1", "n2"]
    assert all(psutil.pid_exists(row["pid"]) for row in rows)
    # Not a start of Python for each: what tests/command_line.py saves.
    assert {Path(f"/proc/{row['pid']}/cmdline").read_bytes().split(b"\0")[2] for row in rows} == {
        b"tests.command_line"
    }
    rows = [json.loads(line) for line in dledger(root, "status", "-o", "jsonl").stdout.splitlines()]
    assert sorted(row["role"] for row in rows) == ["follower", "follower", "leader"]

    sent = dledger(root, "produce", "tour", "-k", "k", stdin="hi\nthere\n")
    assert (sent.returncode, sent.stderr) == (0, "2 acknowledged\n")
    got = dledger(root, "consume", "tour", "-n", "2", "-f", "%k %v\\n")
    assert (got.returncode, got.stdout) == (0, "k hi\nk there\n")
    shown = dledger(root, "topic", "list").stdout.split()
    assert "tour" in shown
    assert not {"TBW102", "BenchmarkTest", "broker-a", "DefaultCluster"} & set(shown)
    assert "BenchmarkTest" in dledger(root, "topic", "list", "--all").stdout
    unknown = dledger(root, "leader", "move", "nowhere")
    assert (unknown.returncode, "know no broker name nowhere" in unknown.stderr) == (4, True)
    rows = json.loads(dledger(root, "topic", "describe", "tour", "-o", "json").stdout)
    assert sum(row["messages"] for row in rows) == 2
    assert "serves" in dledger(root, "logs", "n0").stdout


def test_up_with_a_token_and_the_consoles_account_is_ready(tmp_path: Path) -> None:
    """Each node's admin HTTP asks for the token then, and what looks at readiness shows it."""
    account = tmp_path / "console.toml"
    account.write_text('accessKey = "console"\nsecretKey = "a-secret-of-the-console"\n')
    settings = [f"admin.account_file={account}", "admin.token=a-token-of-twenty-characters"]
    root, options = tmp_path / "local", [f"--set={one}" for one in settings]
    made = dledger(root, "up", "-n", "1", "--any-port", *options)
    try:
        assert made.returncode == 0, made.stderr
        (row,) = json.loads(dledger(root, "status", "-o", "json").stdout)
        assert row["role"] == "leader"
        member = LocalCluster(root).profile.member("n0")
        assert admin.get(member.admin, "/readyz")[0] == 401
    finally:
        assert dledger(root, "down", "--purge").returncode == 0


def test_up_again_changes_nothing(broken_later: LocalCluster) -> None:
    before = {name: processes.known(broken_later.folder(name)) for name in broken_later.running()}
    found = dledger(broken_later.root, "up")
    assert found.returncode == 0
    assert "everything was running" in found.stdout
    after = {name: processes.known(broken_later.folder(name)) for name in broken_later.running()}
    assert before == after


def test_up_with_other_settings_is_refused(broken_later: LocalCluster) -> None:
    found = dledger(broken_later.root, "up", "--set", "raft.heartbeat_ms=50")
    assert found.returncode == 2
    assert "was made with other members, ports or settings" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-n", "5"), "has 3 nodes and not 5; dledger member add n3 --start --yes adds one"),
        (
            ("-n", "1"),
            "has 3 nodes and not 1; dledger member remove n2 --stop --yes takes one away",
        ),
        (("-g", "2"), "made with --groups 1 and not 2"),
        (("--nameservers", "3"), "made with --nameservers 1 and not 3"),
    ],
)
def test_up_with_other_counts_says_what_to_do(
    broken_later: LocalCluster, arguments: Sequence[str], said: str
) -> None:
    found = dledger(broken_later.root, "up", *arguments)
    assert found.returncode == 2
    assert said in found.stderr
    assert "--root DIR makes another" in found.stderr
    assert dledger(broken_later.root, "up", "-n", "3").returncode == 0, "as it is"


@pytest.mark.parametrize("place", ["data", "data/dledger-n0"])
def test_a_running_node_is_not_exported(
    broken_later: LocalCluster, place: str, tmp_path: Path
) -> None:
    found = dledger(
        broken_later.root, "export", str(broken_later.folder("n0") / place), str(tmp_path / "out")
    )
    assert found.returncode == 4, found.stderr
    assert "a running node has" in found.stderr
    assert "dledger down stops" in found.stderr
    assert not (tmp_path / "out").exists()


def test_a_killed_node_comes_back_on_its_files(broken_later: LocalCluster) -> None:
    leader = broken_later.leader()
    assert leader is not None
    broken_later.kill(leader)
    assert not broken_later.is_running(leader)
    said = f"broker-a: 2 decide; 0 more may fail now: the next loss stops the group ({leader} does "
    wait_until(
        lambda: any(line.startswith(said) for line in margins(local_rows(broken_later))),
        "a leader that knows that the next loss would be one too many",
    )
    found = dledger(broken_later.root, "up")
    assert f"started {leader};" in found.stdout, found.stderr
    ends = {line.partition(":")[0]: line for line in last_ends(local_rows(broken_later))}
    assert f"ended with SIGKILL by process {os.getpid()} (" in ends[leader]
    assert len(broken_later.running()) == 4


def test_http_of_a_node(broken_later: LocalCluster) -> None:
    member = broken_later.profile.of_kind(BROKER)[0]
    assert admin.get(member.admin, "/healthz") == (200, b"healthy\n")
    assert admin.get(member.admin, "/readyz") == (200, b"ready\n")
    code, body = admin.get(member.admin, "/metrics")
    assert code == 200
    for name in ("dledger_role", "dledger_committed_index", "rocketmq_messages_in_total"):
        assert f"\n{name}{{" in body.decode()
    code, body = admin.get(member.admin, "/api/v1/status")
    assert json.loads(body)["node_id"] == member.name


def test_a_frozen_majority_is_not_ready_and_status_says_who_is_missing(
    broken_later: LocalCluster,
) -> None:
    wait_until(lambda: broken_later.leader() is not None, "a leader")
    leader = broken_later.leader()
    assert leader is not None
    others = [name for name in broken_later.brokers if name != leader]
    try:
        for name in others:
            broken_later.pause(name)
        wait_until(lambda: broken_later.leader() is None, "a leader that has let go")
        found = dledger(broken_later.root, "status")
        assert found.returncode == 4
        assert f"not answering: {' '.join(others)}" in found.stderr
        alone = broken_later.profile.member(leader).admin
        assert admin.get(alone, "/readyz") == (503, b"no leader is known\n")
        assert admin.get(alone, "/healthz")[0] == 200, "alive: it is left alone"
        with pytest.raises(
            LauncherError, match=r"n0 was not ready after 0 s \((no leader|it does)"
        ):
            broken_later.wait_ready(0)
    finally:
        for name in others:
            broken_later.resume(name)
        broken_later.wait_ready()


def test_without_a_majority_produce_says_that_nothing_is_certain_and_what_to_look_at(
    broken_later: LocalCluster,
) -> None:
    try:
        broken_later.kill("n1")
        broken_later.kill("n2")
        found = dledger(broken_later.root, "produce", "tour", "--timeout", "2", stdin="x\n")
        assert found.returncode in {4, 5}, found.stderr
        assert "dledger status shows which nodes run" in found.stderr
    finally:
        broken_later.up()


def test_down_stops_ours_and_nothing_else(broken_later: LocalCluster) -> None:
    """Another Python process that looks like a node goes on living."""
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "node_main"])
    try:
        found = dledger(broken_later.root, "down")
        assert found.returncode == 0
        assert found.stderr == ""  # nothing had to be killed
        assert broken_later.running() == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
        broken_later.up()


def test_an_emptied_folder_is_refused_not_formatted_again(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    """Rule R6: two nodes that were formatted again would elect an empty log."""
    cluster = make_cluster()
    cluster.kill("n1")
    shutil.rmtree(cluster.folder("n1") / "data")
    with pytest.raises(LauncherError, match=r"n1 ended while it was starting: .*format"):
        cluster.up()
    assert not list((cluster.folder("n1")).glob("data/dledger-n1/data/*"))
    assert cluster.is_running("n0")
    assert cluster.is_running("n2")


def test_a_taken_port_names_the_process_and_the_way_out(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    hosts = [new_address() for _ in range(2)]
    cluster = LocalCluster.create(tmp_path / "local", plan.plan(1, hosts), tied=True)
    said = f"process {os.getpid()} .*--any-port"
    with (
        socket.create_server((hosts[1], plan.CLIENT_PORT)),
        pytest.raises(LauncherError, match=said),
    ):
        cluster.up()
    assert cluster.running() == []


def test_a_stale_profile_starts_on_the_same_data(make_cluster: Callable[..., LocalCluster]) -> None:
    """After a reboot the process ids in the folder belong to nobody, or to strangers."""
    cluster = make_cluster(nodes=1)
    for name in cluster.running():
        processes.kill([cluster.folder(name)])
        stale = {"pid": os.getpid(), "born": "of another boot 1"}
        (cluster.folder(name) / "process.json").write_text(json.dumps(stale))
    assert cluster.running() == []
    assert cluster.up() == ["ns", "n0"]


def test_a_machine_with_one_loopback_address_gets_a_cluster_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "local"
    monkeypatch.setattr(one_address, "has_host", lambda host: host == "127.0.0.1")
    small = ["--set", "raft.data_file_size=16777216", "--set", "broker.index_slot_count=10000"]
    found = CliRunner().invoke(up, ["--root", str(root), "--any-port", *small])
    try:
        assert found.exit_code == 0, found.output
        assert "this machine has no address 127.0.0.11" in found.output
        hosts = {member.host for member in LocalCluster(root).profile.members}
        assert hosts == {"127.0.0.1"}
        sent = dledger(root, "produce", "t", stdin="hi\n")
        assert (sent.returncode, sent.stderr) == (0, "1 acknowledged\n")
    finally:
        LocalCluster(root).down()
