"""The settings file of each node of a local cluster, written from the profile at every start.

`settings_text` and `fresh_secrets` also serve a node that is run by itself (`new_node.py`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from cluster.home import write_private
from cluster.local.nameserver_files import SECTION as NAMESERVER_SECTION
from cluster.local.profile import Member, Profile
from cluster.settings.node import SECTIONS, NodeSettings, build_node
from cluster.settings.settings import Settings
from cluster.settings.values import to_toml
from commitlog.address import port_of

# A log file of RocketMQ's default size is 1 GiB and is allocated at once; three nodes that only try
# something out should not take three of them.
DATA_FILE_SIZE = 256 << 20
INDEX_FILE_SIZE = 32 << 20
SHARED_SECRETS = ("raft.secret", "broker.cluster_secret")

Sections = Mapping[str, Mapping[str, object]]

NOTE = (
    "# Written by dledger up from profile.json at every start; change settings with --set there.\n"
)


def node_sections(root: Path, profile: Profile, member: Member) -> dict[str, dict[str, object]]:
    """Every setting that is not at its default, by section."""
    peers = profile.peers(member)
    sections: dict[str, dict[str, object]] = {
        "raft": {
            "node_id": member.process,
            "cluster_id": profile.cluster_id,
            "peers": {other.process: other.peer for other in peers},
            "dial": dict(member.dialled),
            "data_file_size": DATA_FILE_SIZE,
            "index_file_size": INDEX_FILE_SIZE,
        },
        "broker": {
            "root": str(data_folder(root, member)),
            "listen_host": member.host,
            "listen_port": port_of(member.client),
            "advertised": member.advertised or member.client,
            "peers": {
                other.process: member.forwards.get(other.process, other.client)
                for other in peers
                if other is not member
            },
            # What clients are told of a leader: they do not dial as the nodes do.
            "peers_advertised": {
                other.process: other.advertised
                for other in peers
                if other is not member and other.advertised
            },
            "source_host": member.host,
            "name_servers": list(profile.nameservers),
        },
        "admin": {"listen": member.admin},
    }
    if member.group:
        sections["raft"]["group"] = sections["broker"]["broker_name"] = member.group
    groups = profile.groups()
    if len(groups) > 1:
        # Leaders spread over the nodes, so that each takes a share of the load.
        sections["raft"]["preferred_leader"] = peers[
            groups.index(member.group) % len(peers)
        ].process
    for name, value in profile.settings.items():
        section, _, key = name.partition(".")
        if section != NAMESERVER_SECTION:
            sections.setdefault(section, {})[key] = value
    if member.relay:
        sections["broker"]["relay_port"] = port_of(member.relay)
    return sections


def check_sections(sections: Sections) -> NodeSettings:
    """Check the settings as the start of a node does. Raises SettingsError."""
    settings = Settings(SECTIONS)
    for section, values in sections.items():
        for key, value in values.items():
            settings.add(section, key, value, "--set")
    return build_node(settings)


def settings_text(note: str, sections: Sections) -> str:
    """A settings file: `note`, then each section with its values."""
    text = note
    for section, values in sections.items():
        lines = [f"{key} = {to_toml(value)}" for key, value in values.items()]
        text += f"\n[{section}]\n" + "\n".join(lines) + "\n"
    return text


def fresh_secrets() -> dict[str, str]:
    """Each secret that all nodes of a cluster share, drawn now: "section.key" → text."""
    return {name: secrets.token_hex(32) for name in SHARED_SECRETS}


def data_folder(root: Path, member: Member) -> Path:
    """The replica's store root: <root>/<node>/data, data-<group> for a further group."""
    return root / member.process / (f"data-{member.group}" if member.group else "data")


def write_node_file(root: Path, profile: Profile, member: Member) -> Path:
    """Write <root>/<node>/node.toml (node-<group>.toml), for its owner only; returns its path."""
    name = f"node-{member.group}.toml" if member.group else "node.toml"
    path = root / member.process / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, settings_text(NOTE, node_sections(root, profile, member)))
    return path
