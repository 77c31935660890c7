"""A node that one runs by itself: its settings file and its folder, made once.

    NewNode ─► sections ─► node.toml (0600) ─► <root>/dledger-<name>   formatted: of a new group, or
                                                                        to join one that runs

Secrets are drawn here, or come from another node's file or a file of their own: never from an
argument, which everybody on the machine can see.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cluster.broker.node import BrokerNode
from cluster.home import write_private
from cluster.local.node_files import SHARED_SECRETS, check_sections, fresh_secrets, settings_text
from cluster.local.plan import ADMIN_PORT, CLIENT_PORT, PEER_PORT, RELAY_STEP, RELAYS_FROM
from cluster.settings.node import SECTIONS, NodeSettings, build_node, read_node
from cluster.settings.settings import SettingsError
from commitlog.address import PORT_MAX, host_of, join_address, port_of
from commitlog.files.system import OS_FILES
from dledger.config import is_loopback
from dledger.durable import identity

DEFAULT_ADMIN = f"127.0.0.1:{ADMIN_PORT}"
NOTE = """\
# Node {name}, made by dledger node. It holds secrets: keep it readable by its owner only.
# What else can be set: conf/broker.toml. Check it with: dledger config check FILE.
"""

#: What one node's file says of this node alone; everything else is the same on every node.
OWN_SETTINGS: dict[str, frozenset[str]] = {
    "raft": frozenset(
        {"node_id", "peers", "data_dir", "listen", "dial", "source_host", "service", "seed"}
    ),
    "broker": frozenset(
        {
            *("node_id", "root", "listen_host", "listen_port", "relay_port", "advertised"),
            *("peers", "peers_advertised", "source_host"),
        }
    ),
    "admin": frozenset({"listen", "token"}),
    "log": frozenset({"file"}),
}

_MEMBER = re.compile(r"([^=\s]+)=(\[[^]\s]+\]|[^:\s]+)(?::(\d{1,5}))?(?::(\d{1,5}))?")


class Place(NamedTuple):
    """Where a member is reached, "host:port". `client` is "" where the file does not say."""

    client: str
    peer: str

    @property
    def host(self) -> str:
        """Host of `client`; "" where `client` is ""."""
        return host_of(self.client)


def read_member(text: str) -> tuple[str, Place]:
    """NAME=HOST[:CLIENT_PORT[:PEER_PORT]]. Raises SettingsError."""
    found = _MEMBER.fullmatch(text)
    if found is None:
        raise SettingsError(f"{text!r} is no member; write NAME=HOST[:CLIENT_PORT[:PEER_PORT]]")
    name, host, client, peer = found.groups()
    for port in (client, peer):
        if port and int(port) > PORT_MAX:
            raise SettingsError(f"{text!r}: port {port} must be 0 to {PORT_MAX}; choose another")
    return name, Place(f"{host}:{client or CLIENT_PORT}", f"{host}:{peer or PEER_PORT}")


def read_place(text: str) -> Place:
    """HOST[:CLIENT_PORT[:PEER_PORT]]. Raises SettingsError."""
    try:
        return read_member(f"n={text}")[1]
    except SettingsError:
        raise SettingsError(
            f"{text!r} is no address; write HOST[:CLIENT_PORT[:PEER_PORT]]"
        ) from None


@dataclass(frozen=True, slots=True)
class Shared:
    """The settings that all nodes of a group share.

    Attributes:
        members: node → where it is reached.
        settings: section → key → value.
    """

    members: Mapping[str, Place] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)

    def get(self, section: str, key: str) -> object:
        """The value of a setting; None if it is not set."""
        return self.settings.get(section, {}).get(key)

    def plain_peers(self) -> list[str]:
        """Members beyond this machine, of several that no setting of TLS was given for."""
        if self.get("raft", "tls_mode") is not None or len(self.members) < 2:
            return []
        hosts = {name: host_of(place.peer) for name, place in self.members.items()}
        return [name for name, host in hosts.items() if not is_loopback(host)]

    def with_settings(self, values: Mapping[str, object]) -> Shared:
        """The same with "section.key" → value over it."""
        merged = {section: dict(found) for section, found in self.settings.items()}
        for name, value in values.items():
            section, _, key = name.partition(".")
            merged.setdefault(section, {})[key] = value
        return Shared(self.members, merged)

    def with_default(self, values: Mapping[str, object]) -> Shared:
        """The same with those of `values` that it does not set."""
        missing = {
            name: value for name, value in values.items() if self.get(*name.split(".", 1)) is None
        }
        return self.with_settings(missing)

    def with_member(self, name: str, place: Place) -> Shared:
        """The same with one member more, or at another place."""
        return Shared({**self.members, name: place}, self.settings)


def fresh_names() -> dict[str, object]:
    """Random names of a new cluster: its id and its secrets."""
    return {"raft.cluster_id": secrets.token_hex(8), **fresh_secrets()}


def shared_with(file: Path) -> Shared:
    """The settings of the whole group, from another node's file. Raises SettingsError."""
    settings = read_node(file, {})
    node = build_node(settings)
    raft, broker = node.raft, node.broker
    own = broker.advertised or f"{broker.listen_host}:{broker.listen_port}"
    clients = {**broker.peers, raft.node_id: own}
    members = {
        name: Place(clients.get(name, ""), _address(address))
        for name, address in raft.peers.items()
    }
    values = {
        section: {
            key: item.value for key, item in given.items() if key not in OWN_SETTINGS[section]
        }
        for section, given in settings.given.items()
    }
    return Shared(members, values)


def read_secret(file: Path) -> dict[str, object]:
    """The first line of a file, for both secrets that nodes share. Raises SettingsError."""
    try:
        lines = file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read as a secret: {error}") from error
    if len(lines) != 1:
        raise SettingsError(
            f"{file} has {len(lines)} words; give one, for example of: openssl rand -hex 32"
        )
    return dict.fromkeys(SHARED_SECRETS, lines[0])


@dataclass(frozen=True, slots=True)
class NewNode:
    """The options for a new node.

    Attributes:
        name: node id.
        shared: members, this one among them, and settings of the group, secrets among them.
        folder: store root; the log lies below it.
        listen: host to listen on, "" for the host in its own member's address.
        admin: "host:port" of the admin HTTP, "" for none.
    """

    name: str
    shared: Shared
    folder: Path
    listen: str = ""
    admin: str = DEFAULT_ADMIN

    def sections(self) -> dict[str, dict[str, object]]:
        """Every setting that is not at its default, by section. Raises SettingsError."""
        members = self.shared.members
        if self.name not in members:
            raise SettingsError(
                f"{self.name} is not among the members {', '.join(members)}; name it with "
                "--member, or let a running cluster take it in: dledger node join"
            )
        here = members[self.name]
        sections = {name: dict(self.shared.settings.get(name, {})) for name in SECTIONS}
        listen = self.listen or here.host
        peer_port, client_port = port_of(here.peer), port_of(here.client)
        sections["raft"] = {
            "node_id": self.name,
            "peers": {name: place.peer for name, place in members.items()},
            **({"listen": join_address(listen, peer_port)} if self.listen else {}),
            **sections["raft"],
        }
        sections["broker"] = {
            "root": str(self.folder.absolute()),
            "listen_host": listen,
            "listen_port": client_port,
            **self._relay_port(members, here),
            "advertised": here.client,
            "peers": {
                name: place.client
                for name, place in members.items()
                if name != self.name and place.client
            },
            **sections["broker"],
        }
        if self.admin:
            own: dict[str, object] = {"listen": self.admin}
            if not is_loopback(host_of(self.admin)):
                own["token"] = secrets.token_hex(16)
            sections["admin"] = {**own, **sections["admin"]}
        return {name: values for name, values in sections.items() if values}

    def _relay_port(self, members: Mapping[str, Place], here: Place) -> dict[str, object]:
        """A port for its relay, unless something else of these members has it."""
        port = port_of(here.client) + RELAY_STEP
        address = join_address(here.host, port)
        taken = {address for place in members.values() for address in (place.client, place.peer)}
        is_free = address not in taken and not self.admin.endswith(f":{port}")
        has_relay = len(members) >= RELAYS_FROM and is_free and port < 1 << 16
        return {"relay_port": port} if has_relay else {}


def make(
    file: Path, node: NewNode, formatted: Callable[[NodeSettings], None] | None
) -> NodeSettings:
    """Write the settings file, for its owner only, and have the node's folder formatted.

    `formatted`: does that; None for a file that goes to another machine.

    Raises SettingsError for settings that the node would refuse and for a file that exists,
    StoreLayoutError when the folder is in use. Nothing was changed then.
    """
    if file.exists():
        raise SettingsError(f"{file} exists; choose another name, or remove it if it is not needed")
    sections = node.sections()
    settings = check_sections(sections)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_private(file, settings_text(NOTE.format(name=node.name), sections))
    if formatted is not None:
        try:
            formatted(settings)
        except BaseException:
            file.unlink()
            raise
    return settings


def format_first(settings: NodeSettings) -> None:
    """Make the folder of a node of a new group."""
    BrokerNode.format(settings.raft)


def is_formatted(settings: NodeSettings) -> bool:
    """Whether the node's folder was formatted before."""
    return (Path(settings.raft.data_dir) / identity.FILE_NAME).exists()


def format_to_join(settings: NodeSettings) -> None:
    """Make the folder of a node that a running group takes in; one that was made so stays.

    Raises SettingsError for the folder of a node that was there from the beginning.
    """
    folder = Path(settings.raft.data_dir)
    if not is_formatted(settings):
        BrokerNode.format(settings.raft, joins=True)
    elif identity.read(OS_FILES, folder).voters != ():
        raise SettingsError(
            f"{folder} still holds {settings.raft.node_id}, with all that it knew; start it with "
            "dledger node run, or move the folder away if it must not be used"
        )


def _address(address: tuple[str, int]) -> str:
    return join_address(*address)
