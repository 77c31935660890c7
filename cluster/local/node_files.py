"""The settings file of each node of a local cluster, written from the profile at every start."""

from __future__ import annotations

from pathlib import Path

from cluster.local.profile import BROKER, Member, Profile
from cluster.node_settings import SECTIONS, build_node
from cluster.settings import Settings
from cluster.settings_values import to_toml

# A log file of RocketMQ's default size is 1 GiB and is allocated at once; three nodes that only try
# something out should not take three of them.
DATA_FILE_SIZE = 256 << 20
INDEX_FILE_SIZE = 32 << 20

NOTE = (
    "# Written by dledger up from profile.json at every start; change settings with --set there.\n"
)


def node_sections(root: Path, profile: Profile, member: Member) -> dict[str, dict[str, object]]:
    """Every setting that is not at its default, by section."""
    brokers = profile.of_kind(BROKER)
    sections: dict[str, dict[str, object]] = {
        "raft": {
            "node_id": member.name,
            "cluster_id": profile.cluster_id,
            "peers": {other.name: other.peer for other in brokers},
            "dial": dict(member.dialled),
            "data_file_size": DATA_FILE_SIZE,
            "index_file_size": INDEX_FILE_SIZE,
        },
        "broker": {
            "root": str(root / member.name / "data"),
            "listen_host": member.host,
            "listen_port": int(member.client.rpartition(":")[2]),
            "advertised": member.advertised or member.client,
            "peers": {
                other.name: member.forwards.get(other.name, other.client)
                for other in brokers
                if other is not member
            },
            "source_host": member.host,
            "name_servers": list(profile.nameservers),
        },
        "admin": {"listen": member.admin},
    }
    for name, value in profile.settings.items():
        section, _, key = name.partition(".")
        sections.setdefault(section, {})[key] = value
    return sections


def check_sections(sections: dict[str, dict[str, object]]) -> None:
    """Raises SettingsError for what a node would refuse at its start."""
    settings = Settings(SECTIONS)
    for section, values in sections.items():
        for key, value in values.items():
            settings.add(section, key, value, "--set")
    build_node(settings)


def write_node_file(root: Path, profile: Profile, member: Member) -> Path:
    """Write <root>/<node>/node.toml and return its path."""
    path = root / member.name / "node.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = NOTE
    for section, values in node_sections(root, profile, member).items():
        lines = [f"{key} = {to_toml(value)}" for key, value in values.items()]
        text += f"\n[{section}]\n" + "\n".join(lines) + "\n"
    path.write_text(text, encoding="utf-8")
    return path
