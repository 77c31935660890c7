"""Profiles: what a later command finds, and what it says when it finds nothing or rubbish."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.local import nameserver_files, plan, profile
from cluster.local.launcher import LauncherError, LocalCluster
from cluster.local.nameserver_main import arguments_of
from cluster.local.node_files import write_node_file
from cluster.settings.node import build_node, read_node
from cluster.settings.settings import SettingsError


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
    with pytest.raises(profile.ProfileError, match=r"no node n7 .* name one of ns, n0, n1, n2"):
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


def test_a_second_group_has_ports_folders_and_a_preferred_leader_of_its_own(tmp_path: Path) -> None:
    made = profile.Profile("c1", plan.plan(3, groups=2))
    assert made.groups() == ["", "broker-b"]
    assert [member.name for member in made.processes()] == ["ns", "n0", "n1", "n2"]
    assert [member.name for member in made.replicas("n1")] == ["n1", "n1.broker-b"]
    addresses = [a for member in made.members for a in member.listens().values()]
    assert len(set(addresses)) == len(addresses)
    nodes = [
        build_node(read_node(write_node_file(tmp_path, made, member), {}))
        for member in made.replicas("n1")
    ]
    assert [node.broker.broker_name for node in nodes] == ["broker-a", "broker-b"]
    assert [node.raft.preferred_leader for node in nodes] == ["n0", "n1"]
    assert [node.raft.node_id for node in nodes] == ["n1", "n1"]
    assert nodes[0].raft.data_dir != nodes[1].raft.data_dir
    profile.save(tmp_path, made)
    assert profile.load(tmp_path) == made


def test_several_name_servers_have_hosts_and_peers_of_their_own(tmp_path: Path) -> None:
    made = profile.Profile("c1", plan.plan(3, nameservers=3))
    assert made.nameservers == ["127.0.0.1:9876", "127.0.0.2:9876", "127.0.0.3:9876"]
    assert [member.name for member in made.processes()] == ["ns", "ns1", "ns2", "n0", "n1", "n2"]
    addresses = [a for member in made.members for a in member.listens().values()]
    assert len(set(addresses)) == len(addresses)
    (node,) = [build_node(read_node(write_node_file(tmp_path, made, made.member("n1")), {}))]
    assert list(node.broker.name_servers) == made.nameservers
    said = nameserver_files.arguments(tmp_path, made, made.member("ns1"))
    assert said[said.index("--kv-listen") + 1] == "127.0.0.2:19876"
    assert said[said.index("--kv-peers") + 1] == "127.0.0.1:19876,127.0.0.3:19876"
    assert "--kv-password-file" in said
    alone = profile.Profile("c1", plan.plan(3))
    assert alone.member("ns").peer == ""
    said = nameserver_files.arguments(tmp_path, alone, alone.member("ns"))
    assert "--kv-folder" in said
    assert "--kv-listen" not in said


def test_clients_are_told_of_a_leader_as_they_dial_it(tmp_path: Path) -> None:
    """Nodes may dial each other through links of their own; no client can use those."""
    nameserver, *nodes = plan.plan(3)
    nodes = [
        replace(
            node,
            advertised=f"{node.host}:23000",
            forwards={other.name: f"{node.host}:22000" for other in nodes if other is not node},
        )
        for node in nodes
    ]
    made = profile.Profile("c1", (nameserver, *nodes))
    broker = build_node(read_node(write_node_file(tmp_path, made, nodes[0]), {})).broker
    assert set(broker.peers.values()) == {f"{nodes[0].host}:22000"}
    assert broker.peers_advertised == {node.name: f"{node.host}:23000" for node in nodes[1:]}


def relay_ports(made: profile.Profile, folder: Path) -> dict[str, int]:
    files = {
        member.name: write_node_file(folder, made, member) for member in made.of_kind("broker")
    }
    return {name: build_node(read_node(file, {})).broker.relay_port for name, file in files.items()}


def test_three_nodes_have_relays_and_fewer_none(tmp_path: Path) -> None:
    for nodes, port in ((1, 0), (2, 0), (3, 10915)):
        made = profile.Profile("c1", plan.plan(nodes))
        assert set(relay_ports(made, tmp_path).values()) == {port}


@pytest.mark.parametrize("port", [0, 12001])
def test_the_relay_port_can_be_given(tmp_path: Path, port: int) -> None:
    """Each further group's is 10 higher, on the one host that both share."""
    made = LocalCluster.create(
        tmp_path, plan.plan(3, groups=2), {"broker.relay_port": str(port)}
    ).profile
    wanted = {
        member.name: port and port + 10 * bool(member.group) for member in made.of_kind("broker")
    }
    assert relay_ports(made, tmp_path) == wanted
    assert profile.load(tmp_path) == made


def test_name_servers_are_told_of_relays(tmp_path: Path) -> None:
    for number, (given, told) in enumerate((({}, False), ({"nameserver.relays": "off"}, True))):
        made = LocalCluster.create(tmp_path / str(number), plan.plan(3), given).profile
        said = nameserver_files.arguments(tmp_path, made, made.member("ns"))
        assert ("--no-relays" in said) == told
        relay_ports(made, tmp_path)  # a node is not asked for it
    for setting in ("nameserver.relays", "nameserver.relay"):
        with pytest.raises(SettingsError, match=r"nameserver\.relay"):
            LocalCluster.create(tmp_path / setting, plan.plan(3), {setting: "perhaps"})


def test_name_servers_are_told_of_notification_routes(tmp_path: Path) -> None:
    for number, value in enumerate((None, "on", "off")):
        given = {} if value is None else {"nameserver.notify_routes": value}
        made = LocalCluster.create(tmp_path / str(number), plan.plan(3), given).profile
        said = nameserver_files.arguments(tmp_path, made, made.member("ns"))
        assert ({"--notify-routes", "--no-notify-routes"} & {*said}) == {
            "--no-notify-routes" if value == "off" else "--notify-routes"
        }
        options = arguments_of().parse_args(said[1:])
        assert options.notify_routes is (value != "off")


def test_drawn_ports_are_not_drawn_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([20_000 + number // 3 for number in range(1000)])
    monkeypatch.setattr(plan, "free_port", lambda _: next(drawn))
    members = plan.with_any_ports(plan.plan(3))
    addresses = [address for member in members for address in member.listens().values()]
    assert len(set(addresses)) == len(addresses) == 13
