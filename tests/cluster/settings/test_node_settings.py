"""A broker's settings: RocketMQ's file, ours, and relations between sections."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.settings.node import NodeSettings, build_node, read_node
from cluster.settings.rocketmq_keys import FIXED, REFUSED, SAME, TRANSLATED
from cluster.settings.settings import SettingsError

BROKER_CONF = """
# as RocketMQ ships it
brokerClusterName = RaftCluster
brokerName=RaftNode00
listenPort=30911
namesrvAddr=127.0.0.1:9876;127.0.0.2:9876
storePathRootDir={root}
enableDLegerCommitLog=true
dLegerGroup=RaftNode00
dLegerPeers=n0-127.0.0.1:20911;n1-127.0.0.2:20912;n2-127.0.0.3:20913
dLegerSelfId=n0
flushDiskType = SYNC_FLUSH
maxMessageSize=1000000
"""


def build(folder: Path, text: str, name: str = "broker.conf") -> NodeSettings:
    path = folder / name
    path.write_text(text)
    return build_node(read_node(path, {}))


def test_a_broker_conf_of_rocketmq_starts_a_node(tmp_path: Path) -> None:
    node = build(tmp_path, BROKER_CONF.format(root=tmp_path / "store"))
    assert node.broker.cluster_name == "RaftCluster"
    assert node.broker.listen_port == 30911
    assert node.broker.name_servers == ("127.0.0.1:9876", "127.0.0.2:9876")
    assert node.broker.body_size_max == 1_000_000
    assert node.raft.node_id == node.broker.node_id == "n0"
    assert node.raft.peers["n2"] == ("127.0.0.3", 20913)
    assert node.raft.group == "RaftNode00"
    assert node.raft.data_dir == tmp_path / "store" / "dledger-n0"


def test_async_flush_answers_earlier_and_commits_as_ever(tmp_path: Path) -> None:
    root = tmp_path / "store"
    assert build(tmp_path, BROKER_CONF.format(root=root)).broker.durability == "majority-on-disk"
    text = BROKER_CONF.format(root=root).replace("SYNC_FLUSH", "ASYNC_FLUSH")
    assert build(tmp_path, text).broker.durability == "majority-in-memory"
    with pytest.raises(SettingsError, match="give majority-on-disk or majority-in-memory"):
        build(tmp_path, text + "broker.durability=somewhere\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("flushDiskType=NO_FLUSH", "give SYNC_FLUSH or ASYNC_FLUSH"),
        ("enableDLegerCommitLog=false", "always the replicated log"),
        ("brokerNam=x", "did you mean brokerName"),
        ("heartbeat_ms=5", "did you mean raft.heartbeat_ms"),
        ("dLegerPeers=127.0.0.1:1", "is not of the form id-host:port"),
        ("just words", "is not of the form key=value"),
        (
            "aclEnable=true",
            "accounts are on when their file is named: broker.acl_file; take it out",
        ),
    ],
)
def test_what_has_no_effect_or_no_meaning_is_refused(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        build(tmp_path, line + "\n")


def test_all_lines_without_a_meaning_are_told_at_once(tmp_path: Path) -> None:
    text = "haListenPort=10912\nbrokerName=b\nbrokerNam=x\njust words\n"
    with pytest.raises(SettingsError) as told:
        build(tmp_path, text)
    first, *lines = str(told.value).splitlines()
    assert first.startswith("3 lines cannot be used; take them out")
    for line, (number, said) in zip(
        lines, ((1, "raft.peers"), (3, "did you mean brokerName"), (4, "form")), strict=True
    ):
        assert f"broker.conf:{number}" in line
        assert said in line


def test_no_key_is_both_read_and_refused() -> None:
    tables = [set(table) for table in (SAME, FIXED, REFUSED, TRANSLATED)]
    assert len(set().union(*tables)) == sum(map(len, tables))


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("raft.entry_size_max=1000", "body_size_max 1000000 .* raft.entry_size_max 1000"),
        ("raft.heartbeat_ms=400", "heartbeat_interval 0.4 .* election_timeout_min 0.3"),
        ("admin.listen=10.0.0.1:80", "10.0.0.1:80 is beyond this machine"),
        ("broker.node_id=n9", "raft.node_id n0 and broker.node_id n9"),
        ("broker.in_flight_bytes_max=99999999", "99999999 .* raft.uncommitted_bytes_max 67108864"),
    ],
)
def test_relations_between_sections_name_both_values(tmp_path: Path, extra: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        build(tmp_path, BROKER_CONF.format(root=tmp_path) + extra + "\n")
