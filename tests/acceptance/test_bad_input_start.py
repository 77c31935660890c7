"""Starts that must not happen: said in one sentence, with a code, and nothing on disk changes."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.settings.node import build_node, read_node
from cluster.settings.settings import SettingsError
from tests.waiting import limit

from .conftest import MESSAGES, TOPIC, body_of
from .frames import pull_fields, raw
from .node_process import (
    ADMIN_PORT,
    CLIENT_PORT,
    PEER_PORT,
    ROOT,
    Ended,
    NodeProcess,
    dledger,
    name_server_at_taken_port,
)

FAILED, USAGE, RETRY = 1, 2, 4


def is_one_sentence(ended: Ended) -> bool:
    return "Traceback" not in ended.text and len(ended.sentence) > 20


def test_two_processes_on_one_folder(node: NodeProcess, new_address: Callable[[], str]) -> None:
    with node.running(), raw(node.client) as client:
        second = NodeProcess(node.folder, new_address())
        ended = second.fails()
        assert ended.code == RETRY, ended.text
        assert "is open in another process" in ended.sentence
        assert "stop the other one first" in ended.sentence
        assert is_one_sentence(ended)
        answer = client.ask(11, pull_fields(TOPIC, 0, MESSAGES - 1))
        assert body_of(MESSAGES - 1) in answer.body, "the first one is not disturbed"


def test_a_running_node_can_be_looked_at(node: NodeProcess) -> None:
    """inspect never writes and takes no lock: the node goes on, and stops cleanly."""
    with node.running() as process:
        seen = dledger("inspect", str(node.root), home=node.folder)
        assert re.search(rf"{TOPIC}  messages by queue  0: {MESSAGES}", seen.text), seen.text
        assert process.poll() is None
    assert process.returncode == 0


@pytest.mark.parametrize("port", [CLIENT_PORT, PEER_PORT, ADMIN_PORT])
def test_a_taken_port(port: int, node: NodeProcess) -> None:
    """The admin port is taken last: by then the node has opened its log, and may have led."""
    before = node.hashes(node.log / "data")
    if port == ADMIN_PORT:
        before.popitem()
    with socket.create_server((node.host, port)):
        ended = node.fails()
    assert ended.code == FAILED, ended.text
    assert is_one_sentence(ended), ended.text
    assert re.search(rf"{node.host}\D+{port}", ended.sentence), ended.text
    assert node.hashes(node.log / "data").items() >= before.items()


def test_a_taken_port_of_a_name_server(free_address: str) -> None:
    ended = name_server_at_taken_port(free_address)
    assert ended.code == FAILED, ended.text
    assert is_one_sentence(ended)
    assert "in use" in ended.sentence


WRONG_SETTINGS = [
    ("broker.listenPort=1", "unknown setting broker.listenPort.*did you mean"),
    ("nothing.at_all=1", "unknown setting nothing.at_all"),
    ("raft.heartbeat_ms=fast", "raft.heartbeat_ms.*whole number.*'fast'"),
    ("raft.heartbeat_ms=400", r"heartbeat_interval 0\.4 .* 0\.3"),
    ("raft.heartbeat_ms=0", "heartbeat_ms 0"),
    ("raft.producers_max=0", "producers_max 0"),
    ("raft.window_frames_max=-1", "window_frames_max -1"),
    ("raft.entry_size_max=2000000", "entry_size_max 2000000 .* data_file_size 1048576"),
    ("broker.body_size_max=400000", "body_size_max 400000 .* raft.entry_size_max 300000"),
    ("broker.body_size_max=0", "body_size_max 0"),
    ("broker.in_flight_bytes_max=90000000", "in_flight_bytes_max 90000000 .* 67108864"),
    ("broker.dispatch_chunk_max=9000", "dispatch_chunk_max 9000 .* dispatch_lag_max 8000"),
    ("broker.node_id=n7", "raft.node_id n0 and broker.node_id n7"),
    ("broker.disk_full_ratio=7", r"disk_full_ratio 7\.0 "),
    ("broker.listen_port=99999", "listen_port 99999"),
    ("broker.listen_port=-1", "listen_port -1"),
    ("broker.pull_count_max=0", "pull_count_max 0"),
    ("broker.idle_seconds_max=nan", "idle_seconds_max nan"),
    ("broker.export_seconds=inf", "export_seconds inf"),
    ("broker.checkpoint_seconds=-1", "checkpoint_seconds -1"),
    ("broker.queue_file_size=0", "queue_file_size 0"),
    ("broker.queue_file_size=30", "queue_file_size 30 "),
    ("broker.index_slot_count=900000000", "index_slot_count 900000000 .* index_entry_count 4000"),
    ("broker.connections_max=-1", "connections_max -1"),
    ("broker.name_servers=nonsense", "'nonsense'.*host:port"),
    ("broker.peers=n1=127.0.0.1:99999", "127.0.0.1:99999.*host:port"),
    ("admin.listen=0.0.0.0:8080", "no access control"),
    ("broker.listen_host=0.0.0.0", r"0\.0\.0\.0 is beyond this machine and cluster_secret"),
    ("broker.listen_host=192.0.2.1", r"192\.0\.2\.1 is beyond this machine and cluster_secret"),
    ("broker.advertised=0.0.0.0:10911", r"0\.0\.0\.0:10911, which no client can dial"),
    ("raft.listen=0.0.0.0:20911", r"0\.0\.0\.0:20911, beyond this machine, needs secret"),
]


@pytest.mark.parametrize(("flag", "said"), WRONG_SETTINGS)
def test_settings_that_cannot_work(flag: str, said: str, tmp_path: Path) -> None:
    """What `node_main`, `dledger up --set` and `dledger config check` all call."""
    node = NodeProcess(tmp_path, "127.0.0.1")
    file = Path(node.command()[-1])
    with pytest.raises(SettingsError, match=said):
        build_node(read_node(file, {}, [flag]))


def test_a_wildcard_needs_an_address_for_clients(tmp_path: Path) -> None:
    file = Path(NodeProcess(tmp_path, "127.0.0.1").command()[-1])
    flags = ["broker.listen_host=0.0.0.0", "broker.cluster_secret=long enough"]
    with pytest.raises(SettingsError, match="set advertised to one that is"):
        build_node(read_node(file, {}, flags))
    build_node(read_node(file, {}, [*flags, "broker.advertised=192.0.2.1:10911"]))


@pytest.mark.parametrize(("flag", "said"), [WRONG_SETTINGS[0], WRONG_SETTINGS[8]])
def test_settings_that_cannot_work_end_the_process(flag: str, said: str, node: NodeProcess) -> None:
    before = node.hashes()
    ended = node.fails("--set", flag)
    assert ended.code == USAGE, ended.text
    assert re.search(said, ended.sentence), ended.text
    assert is_one_sentence(ended)
    assert node.hashes() == before


def test_a_host_that_does_not_exist(node: NodeProcess) -> None:
    flags = ("--set", "broker.cluster_secret=long enough")
    ended = node.fails("--set", "broker.listen_host=nowhere.invalid", *flags)
    assert ended.code == FAILED, ended.text
    assert "cannot listen on nowhere.invalid" in ended.sentence
    assert is_one_sentence(ended)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("raft.cluster_id=another", "belongs to cluster 'acceptance' and .* 'another'"),
        ("raft.group=another", "belongs to group 'default' and .* 'another'"),
    ],
)
def test_a_folder_of_somebody_else(flag: str, said: str, node: NodeProcess) -> None:
    before = node.hashes()
    ended = node.fails("--set", flag)
    assert ended.code == FAILED, ended.text
    assert re.search(said, ended.sentence), ended.text
    assert is_one_sentence(ended)
    assert node.hashes() == before


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path, free_address: str) -> None:
    node = NodeProcess(tmp_path / "nowhere", free_address)
    ended = node.fails()
    assert ended.code == FAILED, ended.text
    assert "never formatted" in ended.sentence
    assert not node.log.exists()


@pytest.mark.parametrize("flag", ["-O", "-OO"])
def test_no_node_without_assertions(flag: str, node: NodeProcess) -> None:
    before = node.hashes(node.root)
    ended = node.fails(python=(flag,))
    assert ended.code == USAGE, ended.text
    assert "start Python without -O" in ended.sentence
    assert is_one_sentence(ended)
    assert node.hashes(node.root) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "cluster.cli", "ps"],
        ["-m", "cluster.local.nameserver_main", "--listen", "127.0.0.1:0"],
        ["-c", "from commitlog import MessageStore; MessageStore('never')"],
        [
            "-c",
            "import asyncio; from dledger import RaftConfig, ReplicatedLog\n"
            "config = RaftConfig('n0', {'n0': ('127.0.0.1', 1)}, 'never', cluster_id='c')\n"
            "asyncio.run(ReplicatedLog(config).start())",
        ],
    ],
    ids=["dledger", "name server", "MessageStore", "ReplicatedLog"],
)
def test_nothing_starts_without_assertions(arguments: list[str], tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-O", *arguments],
        capture_output=True,
        text=True,
        timeout=limit(60),
        cwd=tmp_path,
        env={**os.environ, "DLEDGER_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )
    assert found.returncode != 0
    assert "start Python without -O" in found.stderr
    assert not list(tmp_path.iterdir())
