"""RaftConfig: one replica's settings, for people. Frozen; `validate` checks relations.

Times are milliseconds, sizes bytes, addresses (host, port). What the pure core needs of it is
`core()`, in seconds.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from commitlog.address import PORT_MAX
from dledger.core.config import CoreConfig
from dledger.core.types import NodeId
from dledger.membership.proof import secret_error

Address = tuple[str, int]

#: RocketMQ's file sizes (docs/spec/raft_log.md 1.1); an existing folder keeps the size it was made
#: with.
DATA_FILE_SIZE = 1 << 30
INDEX_FILE_SIZE = 32 * 5 * 1024 * 1024
#: Below 32 MiB one frame always holds the largest entry beside its headers (wire.py: 64 MiB).
ENTRY_SIZE_LIMIT = 32 << 20
# Larger than any machine; keeps sums and times within what every format can hold.
_NUMBER_MAX = 1 << 48


class TlsMode(enum.Enum):
    """Names as in RocketMQ's tls.server.mode. PERMISSIVE takes both."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """Settings of one replica. Only the first three have no default."""

    #: This node's name: one of `peers`, at most 255 bytes, without "-" (DLedger's peer syntax).
    node_id: str
    #: Every voter, this node included, and the address that it is reached at (advertised).
    peers: Mapping[str, Address]
    #: Folder of this replica, made by `ReplicatedLog.format`; one process opens it at a time.
    data_dir: str | Path

    #: Name of the Raft group; peers of another group are refused.
    group: str = "default"
    #: Cluster that the folder must belong to; empty: take whatever it was formatted with.
    cluster_id: str = ""
    #: Where to listen; None: at this node's own address in `peers`.
    listen: Address | None = None
    #: Where to dial a peer instead of its address in `peers`: a proxy on that directed link.
    dial: Mapping[str, Address] = field(default_factory=dict)
    #: Address that outgoing connections are bound to, so that a packet filter can tell nodes apart
    #: on one machine; None: the listening address, unless that is a wildcard.
    source_host: str | None = None
    #: Shared by all nodes of the cluster, proved and never sent. None: every program that reaches
    #: the port may be a peer, which is why listening beyond loopback is refused without it.
    secret: str | None = field(default=None, repr=False)

    #: Peer connections. disabled; permissive: dials with TLS, then without, and takes both, so that
    #: a running group is moved node by node; enforcing: TLS only, certificates on both sides.
    tls_mode: str = "disabled"
    #: PEM file of this node's certificate chain, read again when one of the three files changes.
    #: A subjectAltName URI:dledger-node:<node id> ties the certificate to that node.
    tls_certificate: str | None = None
    #: PEM file of its key, unencrypted.
    tls_key: str | None = None
    #: PEM file of who signs the certificates of nodes. Of nobody else: who shows one is believed.
    tls_authority: str | None = None

    #: More: less idle traffic, later detection of a dead leader. Less: the opposite.
    heartbeat_ms: int = 100
    #: Less: elections under a busy disk or a paused process. More: longer without a leader.
    election_timeout_min_ms: int = 300
    #: The spread above the minimum makes split votes rare; a wide one delays the average election.
    election_timeout_max_ms: int = 600
    #: A follower that has not answered for so long is asked again where it is.
    resend_timeout_ms: int = 500
    #: Linearizable reads by a lease instead of a round to a majority (core/lease.py), where clocks
    #: keep within clock_drift_max. All nodes alike. True: reads cost nothing but at the leader's
    #: death, after which a promise must run out before another is elected.
    lease_reads: bool = False
    #: A clock gains or loses at most this part of the time that passes. More: shorter leases.
    #: Less than clocks really do: stale reads.
    clock_drift_max: float = 0.05
    #: Who should lead when it can.
    preferred_leader: str | None = None

    #: One append frame. More: fewer frames in catch-up; less: shorter stalls of what is behind it.
    frame_bytes_max: int = 1 << 20
    #: Sent to one follower and not yet acknowledged. More: keeps a long link busy; costs memory.
    window_bytes_max: int = 16 << 20
    #: The same in frames.
    window_frames_max: int = 128
    #: Appended here and not yet committed; above it appends are refused with QueueFull.
    uncommitted_bytes_max: int = 64 << 20
    #: One entry's body. RocketMQ allows messages of 4 MiB; the rest is space for its properties.
    entry_size_max: int = (4 << 20) + (64 << 10)

    #: Bytes waiting in this process for one follower's bulk connection. Must hold the window.
    bulk_queue_bytes_max: int = 32 << 20
    #: The same on the control connection: a few thousand messages, the oldest go first.
    control_queue_bytes_max: int = 128 << 10
    #: First pause before dialling again; it doubles from there. Less: more load by the dead.
    reconnect_min_ms: int = 20
    #: Longest pause. More: a peer that comes back is dialled later.
    reconnect_max_ms: int = 500
    #: A connection that is not open, or whose sent bytes are not received, after so long is dead.
    #: Less: a paused machine costs connections. More: later recovery after packets were dropped.
    connection_timeout_ms: int = 2000

    #: Sizes of one data and one index file, fixed when the folder is formatted. Larger: fewer
    #: files; smaller: space comes back sooner, and an entry must fit into one file.
    data_file_size: int = DATA_FILE_SIZE
    index_file_size: int = INDEX_FILE_SIZE

    #: Write new data files full of zeros before they are used. True: syncs under load get cheaper,
    #: as no block is written for the first time; making a file costs a pass over the disk.
    prewrite_zeros: bool = False

    #: A sync that has not come back for so long: the disk is stalled, and this node neither votes
    #: nor stands, and hands leadership over. More: longer without answers. Less: it does so for a
    #: pause of the disk that would have passed.
    disk_stall_ms: int = 2000
    #: A disk that was stalled or full is healthy again after so long without trouble; until then
    #: others come first to lead.
    disk_trust_ms: int = 30_000

    #: How fast the scrubber reads the log to find damage before a reader does; 0: it does not run.
    #: More: rot is found and repaired sooner; costs disk and, at 100 MB/s, some 15 % of a core.
    scrub_bytes_per_second: int = 4 << 20

    #: Where this node serves its own clients, told to the other members; not used by the log.
    service: str = ""

    #: Producers whose sequence numbers are remembered; the least recently used go first.
    producers_max: int = 10_000
    #: Seed of the election jitter; None: from the operating system.
    seed: int | None = None

    def core(self) -> CoreConfig:
        """The part that the rules of Raft need."""
        return CoreConfig(
            node_id=NodeId(self.node_id),
            voters=tuple(NodeId(name) for name in self.peers),
            heartbeat_interval=self.heartbeat_ms / 1000,
            election_timeout_min=self.election_timeout_min_ms / 1000,
            election_timeout_max=self.election_timeout_max_ms / 1000,
            frame_bytes_max=self.frame_bytes_max,
            window_bytes_max=self.window_bytes_max,
            window_frames_max=self.window_frames_max,
            uncommitted_bytes_max=self.uncommitted_bytes_max,
            resend_timeout=self.resend_timeout_ms / 1000,
            lease_reads=self.lease_reads,
            clock_drift_max=self.clock_drift_max,
            preferred=None if self.preferred_leader is None else NodeId(self.preferred_leader),
        )

    def listen_address(self) -> Address:
        """The address to listen on for peers: `listen`, else this node's own in `peers`."""
        return self.listen if self.listen is not None else self.peers[self.node_id]

    def dial_address(self, peer: str) -> Address:
        """The address to dial for a peer: its one in `dial`, else in `peers`. Raises KeyError."""
        return self.dial.get(peer, self.peers[peer])

    def own_address(self) -> str:
        """This node's address as it tells its peers: the peer address, then the service."""
        host, port = self.peers[self.node_id]
        return f"{host}:{port} {self.service}".strip()

    def source_address(self) -> Address | None:
        """The address that outgoing connections are bound to; None: the system picks one."""
        host = self.source_host
        if host is None:
            host = self.listen_address()[0]
            if not _is_ip(host) or ipaddress.ip_address(host).is_unspecified:
                return None
        return host, 0

    def validate(self) -> None:
        """Check all settings. Raises ValueError; its text names both values of a conflict."""
        if self.node_id not in self.peers:
            raise ValueError(
                f"node_id {self.node_id} is not in peers ({', '.join(self.peers)}); "
                "peers names every node, this one included"
            )
        for name in self.peers:
            if wrong := node_name_error(name):
                raise ValueError(wrong)
        for name in self.dial:
            if name not in self.peers:
                raise ValueError(f"dial names {name}, which is not in peers")
        self._validate_addresses()
        self._validate_tls()
        self._validate_numbers()
        self._validate_relations()
        self.core().validate()

    def plain_peers(self) -> list[str]:
        """Other nodes beyond this machine to which this one speaks without TLS."""
        if self.tls_mode != TlsMode.DISABLED.value:
            return []
        others = (name for name in self.peers if name != self.node_id)
        return [name for name in others if not is_loopback(self.peers[name][0])]

    def _validate_addresses(self) -> None:
        host, port = self.listen_address()
        named = [("peers", name, one[1]) for name, one in self.peers.items()]
        named += [("dial", name, one[1]) for name, one in self.dial.items()]
        for setting, name, its in [*named, ("listen", self.node_id, port)]:
            if not 0 <= its <= PORT_MAX:
                raise ValueError(f"{setting} has port {its} of {name}; give one up to {PORT_MAX}")
        advertised = self.peers[self.node_id][0]
        if _is_ip(advertised) and ipaddress.ip_address(advertised).is_unspecified:
            raise ValueError(
                f"peers says that {self.node_id} is reached at {advertised}, which is no address; "
                "give its own there, and listen on the wildcard with listen"
            )
        enforced = self.tls_mode == TlsMode.ENFORCING.value
        if not is_loopback(host) and self.secret is None and not enforced:
            raise ValueError(
                f"listening on {host}:{port}, beyond this machine, needs secret or enforced TLS: "
                "without it every program that reaches the port may write the log"
            )
        if self.secret is not None and (wrong := secret_error(self.secret)):
            raise ValueError(f"secret {wrong}")

    def _validate_tls(self) -> None:
        modes = [mode.value for mode in TlsMode]
        if self.tls_mode not in modes:
            raise ValueError(f"tls_mode {self.tls_mode} is none of {', '.join(modes)}")
        wanted = {
            name: getattr(self, name) for name in ("tls_certificate", "tls_key", "tls_authority")
        }
        if self.tls_mode != TlsMode.DISABLED.value and not all(wanted.values()):
            given = ", ".join(f"{name} {value}" for name, value in wanted.items())
            raise ValueError(
                f"tls_mode is {self.tls_mode} and of its files are set: {given}; "
                "give all three, on every node"
            )

    def _validate_numbers(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            counts = type(value) is int and item.name != "seed"
            least = 0 if item.name == "scrub_bytes_per_second" else 1
            if counts and not least <= value <= _NUMBER_MAX:
                raise ValueError(f"{item.name} {value} must be {least} to {_NUMBER_MAX}")

    def _validate_relations(self) -> None:
        if self.bulk_queue_bytes_max < self.window_bytes_max:
            raise ValueError(
                f"bulk_queue_bytes_max {self.bulk_queue_bytes_max} must hold "
                f"window_bytes_max {self.window_bytes_max}, or a full window is thrown away"
            )
        if not 0 < self.entry_size_max <= ENTRY_SIZE_LIMIT:
            raise ValueError(
                f"entry_size_max {self.entry_size_max} must be 1 to {ENTRY_SIZE_LIMIT}, "
                "what one frame can hold"
            )
        if self.entry_size_max + 56 > self.data_file_size:
            raise ValueError(
                f"entry_size_max {self.entry_size_max} and 56 bytes of headers must fit into "
                f"data_file_size {self.data_file_size}"
            )
        if self.entry_size_max > self.uncommitted_bytes_max:
            raise ValueError(
                f"entry_size_max {self.entry_size_max} must fit into "
                f"uncommitted_bytes_max {self.uncommitted_bytes_max}"
            )
        if not 0 < self.reconnect_min_ms <= self.reconnect_max_ms:
            raise ValueError(
                f"reconnect_min_ms {self.reconnect_min_ms} must be above 0 and at most "
                f"reconnect_max_ms {self.reconnect_max_ms}"
            )
        if self.connection_timeout_ms < self.election_timeout_max_ms:
            raise ValueError(
                f"connection_timeout_ms {self.connection_timeout_ms} must be at least "
                f"election_timeout_max_ms {self.election_timeout_max_ms}, "
                "or connections die sooner than leaders"
            )


def node_name_error(name: str) -> str:
    """A sentence for a name that no node can have; "" for any other."""
    if not 0 < len(name.encode()) <= 255 or "-" in name:
        return f"the node name {name!r} must have 1 to 255 bytes and no '-'"
    return ""


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Does the host lead nowhere but to this machine? A name other than localhost may not."""
    return host == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)
