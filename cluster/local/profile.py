"""The launcher's cluster: members, their addresses and folders, as JSON in the cluster's root.

    <root>/profile.json    this file; replaced as a whole, so a crash leaves the old or the new; it
                           holds the cluster's secrets, so nobody but its owner can read it
    <root>/ports.json      the addresses only, for scripts and for clients without an address:
                           {"ns": {"client": "127.0.0.1:9876"}, "n0": {"client": ..., "peer": ...}}

The default root is $DLEDGER_HOME/local, or ~/.dledger/local.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from cluster.home import home_folder, write_private
from commitlog.address import host_of
from commitlog.advice import Advised

VERSION = 1
NAMESERVER = "nameserver"
BROKER = "broker"
ADMIN_TOKEN_VARIABLE = "DLEDGER_ADMIN_TOKEN"


class NoCluster(Advised):
    """No local cluster is known under the root."""

    advice = "start one with dledger up"
    retriable = False
    exit_code = 3

    def __init__(self, root: Path) -> None:
        super().__init__(f"no local cluster is known in {root}; start one with dledger up")


class ProfileError(Advised):
    """A profile file cannot be read as one."""

    advice = "forget the cluster with dledger down --purge"
    retriable = False


@dataclass(frozen=True, slots=True)
class Member:
    """A name server, or one replica of one group. Addresses are "host:port", "" for none; a name
    server has only `client`, and `peer` where there are several.

    Attributes:
        name: "ns", "ns1", ... or "n0", "n1", ...; "n0.broker-b" for node n0's replica of a further
            group.
        kind: NAMESERVER or BROKER.
        client: where clients dial; what the routes advertise unless `advertised` is set.
        peer: where the other nodes dial.
        admin: HTTP.
        relay: where it takes stock clients' sends while it follows (docs/relays.md).
        advertised: what the routes tell clients instead of `client`, "" for `client` itself.
        dialled: where this node dials a peer instead of its `peer` address (a proxy on the link).
        forwards: the same for the client requests that it passes on, instead of `client`.
        group: broker name of a further group; "" for the first one.
        node: whose process runs it and whose id it has in its group; "" for its own name.
    """

    name: str
    kind: str
    client: str
    peer: str = ""
    admin: str = ""
    advertised: str = ""
    dialled: dict[str, str] = field(default_factory=dict)
    forwards: dict[str, str] = field(default_factory=dict)
    group: str = ""
    node: str = ""
    relay: str = ""

    @property
    def process(self) -> str:
        """The member that owns the process of this one: "n0" for "n0.broker-b"."""
        return self.node or self.name

    @property
    def host(self) -> str:
        """The host of its client address."""
        return host_of(self.client)

    def listens(self) -> dict[str, str]:
        """Purpose → address that this process binds."""
        found = {
            "client": self.client,
            "peer": self.peer,
            "admin": self.admin,
            "relay": self.relay,
        }
        return {purpose: address for purpose, address in found.items() if address}


@dataclass(frozen=True, slots=True)
class Profile:
    """A local cluster. Its `repr` shows no setting: some are secrets.

    Attributes:
        cluster_id: drawn when it was formatted; nodes of another cluster are refused.
        members: name servers first, then the first group's replicas, then further groups'.
        settings: "section.key" → text, given to every broker.
        formatted: every node's folder was formatted; it never happens again.
    """

    cluster_id: str
    members: tuple[Member, ...]
    settings: dict[str, str] = field(default_factory=dict, repr=False)
    formatted: bool = False
    version: int = VERSION

    def member(self, name: str) -> Member:
        """Raises ProfileError for a name that the cluster does not have."""
        for member in self.members:
            if member.name == name:
                return member
        names = ", ".join(member.name for member in self.members)
        raise ProfileError(f"there is no node {name} in this cluster; name one of {names}")

    def of_kind(self, kind: str) -> list[Member]:
        """Members of that kind (BROKER or NAMESERVER), in the profile's order."""
        return [member for member in self.members if member.kind == kind]

    def processes(self) -> list[Member]:
        """One member for each process, in the order in which they are started."""
        return [member for member in self.members if not member.node]

    def replicas(self, process: str) -> list[Member]:
        """Every replica that lives in a broker's process, the first group's first."""
        return [member for member in self.members if member.process == process]

    def peers(self, member: Member) -> list[Member]:
        """Every replica of the member's group, itself among them."""
        return [other for other in self.of_kind(BROKER) if other.group == member.group]

    def groups(self) -> list[str]:
        """Broker names of further groups, "" (the first one) before them."""
        return list(dict.fromkeys(member.group for member in self.of_kind(BROKER)))

    @property
    def admin_token(self) -> str | None:
        """The token of each broker's admin HTTP; None where none is set, as is usual on loopback.

        A node takes the environment's word over its file's, so the environment comes first.
        """
        given = os.environ.get(ADMIN_TOKEN_VARIABLE) or self.settings.get("admin.token")
        return given or None

    @property
    def nameservers(self) -> list[str]:
        """host:port of each name server, for clients."""
        return [member.client for member in self.of_kind(NAMESERVER)]


def default_root() -> Path:
    """Where `dledger up` keeps its cluster."""
    return home_folder() / "local"


def profile_path(root: Path) -> Path:
    """The file of a cluster's profile."""
    return root / "profile.json"


def exists(root: Path) -> bool:
    """True if `root` holds a cluster."""
    return profile_path(root).exists()


def load(root: Path) -> Profile:
    """Raises NoCluster, or ProfileError when the file is not a profile."""
    path = profile_path(root)
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found.get("version") != VERSION:
            raise ProfileError(
                f"{path} has version {found.get('version')!r} and this program writes {VERSION}; "
                "stop that cluster with the program that started it"
            )
        rows = found.pop("members")
        _refuse_strange(path, Profile, found)
        for row in rows:
            _refuse_strange(path, Member, row)
        members = tuple(Member(**row) for row in rows)
        return Profile(members=members, **found)
    except FileNotFoundError:
        raise NoCluster(root) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ProfileError(
            f"{path} is not a profile ({error}); forget it with: dledger down --purge"
        ) from error


def _refuse_strange(path: Path, kind: type, row: dict[str, Any]) -> None:
    strange = sorted(set(row) - {field.name for field in fields(kind)})
    if strange:
        raise ProfileError(
            f"{path} has {', '.join(strange)}, which this release does not know; use the release "
            "that wrote it"
        )


def save(root: Path, profile: Profile) -> None:
    """Write profile.json and ports.json."""
    root.mkdir(parents=True, exist_ok=True)
    write_private(profile_path(root), _text(asdict(profile)))  # settings may be secrets
    ports = root / "ports.json"
    temporary = ports.with_suffix(".tmp")
    listens = {member.name: member.listens() for member in profile.members}
    temporary.write_text(_text(listens), encoding="utf-8")
    temporary.replace(ports)


def _text(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
