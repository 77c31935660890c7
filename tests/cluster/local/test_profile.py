"""Profiles: what a later command finds, and what it says when it finds nothing or rubbish."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from cluster.local import plan, profile
from cluster.local.launcher import LauncherError, LocalCluster
from cluster.local.node_files import write_node_file
from cluster.node_settings import build_node, read_node
from cluster.settings import SettingsError


def test_a_profile_survives_writing_and_reading(tmp_path: Path) -> None:
    made = profile.Profile("c1", plan.plan(3), {"raft.heartbeat_ms": "50"}, formatted=True)
    profile.save(tmp_path, made)
    assert profile.load(tmp_path) == made
    ports = json.loads((tmp_path / "ports.json").read_text())
    assert ports["n0"] == made.member("n0").listens()
    assert list(tmp_path.glob("*.tmp")) == []


def test_no_profile_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(profile.NoCluster, match="start one with dledger up"):
        profile.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1}', '{"version": 1, "cluster_id": "c", "members": [{}]}']
)
def test_a_damaged_profile_says_how_to_forget_it(tmp_path: Path, text: str) -> None:
    profile.profile_path(tmp_path).write_text(text)
    with pytest.raises(profile.ProfileError, match=r"dledger down --purge|version"):
        profile.load(tmp_path)


def test_an_unknown_node_names_the_known_ones() -> None:
    with pytest.raises(profile.ProfileError, match=r"no node n7 .* it has ns, n0, n1, n2"):
        profile.Profile("c1", plan.plan(3)).member("n7")


def test_addresses_are_all_different_and_below_the_ephemeral_range() -> None:
    for members in (plan.plan(9), plan.with_any_ports(plan.plan(3))):
        addresses = [a for member in members for a in member.listens().values()]
        assert len(set(addresses)) == len(addresses)
        assert all(int(address.rpartition(":")[2]) < 32768 for address in addresses)


def test_a_taken_port_is_seen(free_address: str) -> None:
    address = f"{free_address}:{plan.free_port(free_address)}"
    assert plan.can_bind(address)
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))):
        assert not plan.can_bind(address)


def test_node_files_are_settings_that_a_node_accepts(tmp_path: Path) -> None:
    made = profile.Profile("c1", plan.plan(3), {"raft.heartbeat_ms": "50"})
    file = write_node_file(tmp_path, made, made.member("n1"))
    node = build_node(read_node(file, {}))
    assert node.raft.node_id == node.broker.node_id == "n1"
    assert node.raft.heartbeat_ms == 50
    assert set(node.raft.peers) == {"n0", "n1", "n2"}
    assert set(node.broker.peers) == {"n0", "n2"}
    assert node.admin.listen == ("127.0.0.12", 8080)


def test_a_wrong_setting_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"did you mean raft\.heartbeat_ms"):
        LocalCluster.create(tmp_path, plan.plan(3), {"raft.hartbeat_ms": "50"})
    assert not profile.exists(tmp_path)


def test_a_folder_has_one_cluster(tmp_path: Path) -> None:
    LocalCluster.create(tmp_path, plan.plan(3))
    with pytest.raises(LauncherError, match="has a cluster already"):
        LocalCluster.create(tmp_path, plan.plan(3))
