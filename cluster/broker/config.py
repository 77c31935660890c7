"""Settings of one broker. Frozen; `validate` checks each value and their relations.

Sizes in bytes, times in seconds unless the name says otherwise.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from cluster.limits.disk import DISK_FULL_RATIO
from commitlog.address import PORT_MAX, host_of, is_address, without_brackets
from commitlog.delay_levels import DEFAULT_LEVELS, parse_delay_levels
from commitlog.errors import StoreConfigError
from dledger.config import TlsMode, is_loopback
from dledger.membership.proof import secret_error
from dledger.producers.durability import Durability, durability_of

# Numbers for which 0 has a meaning: any free port, do not wait at all.
_MAY_BE_ZERO = frozenset(
    {
        "listen_port",
        "relay_port",
        "leader_wait_seconds",
        "dispatch_delay",
        "drain_seconds",
        "reserved_hours",
        "audit_days",
        "follower_grace_seconds",
    }
)
# Above it a file of RocketMQ's, whose sizes are ints, could not be opened by it.
_FILE_SIZE_MAX = (1 << 31) - 1
# Larger than any machine; keeps times and sums within what every format can hold.
_NUMBER_MAX = 1 << 48


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Settings of one broker; every field says the cost of a larger and a smaller value."""

    #: This replica's id in its group, as in the Raft settings: n0, n1, …
    node_id: str
    #: Store root: consumequeue/, index/, config/, checkpoint lie below it; the log below that.
    root: Path
    #: Client port: address to listen on; port 0 takes any free one.
    listen_host: str = "127.0.0.1"
    listen_port: int = 10911
    #: host:port that clients are told; None: what is listened on.
    advertised: str | None = None
    #: A second port, on which stock producers reach this node when the leader is dead: it passes
    #: sends on, and has nothing for tools that ask every broker name. Clients must reach it as they
    #: reach the client port. 0: none, and routes have no relays (cluster/nameserver/relays.py).
    #: `dledger up` and `dledger node init` choose one in groups of three nodes and more.
    relay_port: int = 0
    #: host:port of what stands in front of all nodes of the group (a virtual IP, a load balancer):
    #: stock clients are told this address only, and each node passes on what it does not lead.
    advertised_relay: str | None = None
    #: Client addresses at which this node dials the other replicas: node id → host:port.
    peers: Mapping[str, str] = field(default_factory=dict)
    #: The same as clients are told them, where that differs: a proxy may sit on every link.
    peers_advertised: Mapping[str, str] = field(default_factory=dict)
    #: Source address when dialling, so that a packet filter can tell nodes apart; None: any.
    source_host: str | None = None
    #: RocketMQ's brokerClusterName, as name servers and tools show it.
    cluster_name: str = "DefaultCluster"
    #: One Raft group = one broker name.
    broker_name: str = "broker-a"
    #: host:port of every name server; each is told everything.
    name_servers: tuple[str, ...] = ()
    #: What MSG_REGION says of every message (RocketMQ: regionId).
    region: str = "DefaultRegion"
    #: What TRACE_ON says: whether clients send trace data (RocketMQ: traceOn).
    trace_on: bool = True
    #: Spans of messages whose sender has a sampled trace go to the OpenTelemetry collector at this
    #: address, as http://127.0.0.1:4318; "": none, at no cost. Needs the extra otel.
    tracing: str = ""
    #: The share of those traces that is kept, the same ones on every node: above 0, at most 1.
    tracing_ratio: float = 1.0
    #: Replies to requests are logged in the reply topic, too (RocketMQ: on). Off: only pushed.
    store_replies: bool = True
    #: Shared secret that proves a forwarding peer; None: peers are not asked for proof.
    cluster_secret: str | None = field(default=None, repr=False)

    #: Accounts in the shape of RocketMQ's plain_acl.yml, read again when the file changes; None:
    #: everybody may do everything.
    acl_file: str | None = None
    #: disabled; permissive: TLS and plain frames on the client port; enforcing: TLS only.
    tls_mode: str = "disabled"
    #: PEM files: this node's certificate chain and its unencrypted key.
    tls_certificate: str | None = None
    tls_key: str | None = None
    #: PEM file of who signs clients' certificates; None: clients need none.
    tls_client_authority: str | None = None
    #: TLS to the name servers: they show a certificate that tls_client_authority signed, or without
    #: one this node's own. Off: registrations go in the clear.
    name_server_tls: bool = False

    #: Off: a send to an unknown topic is refused with code 17.
    auto_create_topics: bool = True
    #: Topics that sends create by themselves: so many a second in the long run (ten seconds' worth
    #: taken at once, begun in groups), and none any more when the broker has so many topics. An
    #: administrator's creations are not counted. Each topic is a record of the log and files on
    #: every replica.
    auto_create_topics_per_second: float = 10.0
    auto_create_topics_max: int = 20_000
    #: Off: a heartbeat of an unknown consumer group is refused with code 26.
    auto_create_groups: bool = True

    #: When a send is acknowledged if neither it nor its topic says so: majority-on-disk, or
    #: majority-in-memory, before any fsync, which a power failure of several nodes may take back
    #: (RocketMQ: flushDiskType; dledger/producers/durability.py).
    durability: str = Durability.MAJORITY_ON_DISK.value

    #: Largest message body; RocketMQ's maxMessageSize. Every replica must have the same.
    body_size_max: int = 4 * 1024 * 1024
    #: Delays of levels 1, 2, …; RocketMQ's messageDelayLevel (units s m h d). Every replica must
    #: have the same; levels in use must keep their delay.
    message_delay_level: str = DEFAULT_LEVELS
    #: Largest frame that is read; RocketMQ's frameMaxLength.
    frame_size_max: int = 16 * 1024 * 1024
    #: Records appended and not yet answered. More: longer waits under overload. Less: SYSTEM_BUSY
    #: earlier. Must stay below the core's uncommitted_bytes_max (64 MiB).
    in_flight_bytes_max: int = 48 * 1024 * 1024
    #: The same in records; bounds what one leader change leaves without an answer.
    in_flight_count_max: int = 100_000
    #: Client connections; fewer when the process may not have so many files open (descriptors.py).
    connections_max: int = 10_000
    #: A connection without traffic for this long is closed; healthy clients talk every 30 s.
    idle_seconds_max: float = 120.0
    #: A node of several that stops serves for this long after it handed its lead over, and tells
    #: each client that understands it once to connect again (code 1500). 0: it does not.
    drain_seconds: float = 0.2
    #: While nobody leads, requests wait this long before code 14 (docs/spec/remoting.md 4.7: fail
    #: fast).
    leader_wait_seconds: float = 0.8
    #: Requests that wait for a leader, of all connections together.
    leader_wait_count_max: int = 20_000
    #: The same in bytes; also for what waits until its topic is created, and per client for what
    #: was passed on to the leader and not answered.
    leader_wait_bytes_max: int = 64 * 1024 * 1024

    #: Messages and bytes of one pull, whatever it asks for; at least one message is always
    #: returned. RocketMQ gives 32 and 256 KiB (docs/spec/store.md 6.7), which stock clients ask for
    #: by themselves: a client that asks for more reads a queue with less CPU a message.
    pull_count_max: int = 1024
    pull_bytes_max: int = 1024 * 1024
    #: Queue entries looked at in one pull while filtering (docs/spec/store.md 6.7: 16,000 bytes of
    #: them, which are 800).
    pull_scan_max: int = 1024
    #: Pulls that wait for messages; one per (group, queue) and client connection is usual.
    long_polls_max: int = 100_000
    #: Where popped messages come back to that nobody acknowledged in time: %RETRY%group+topic
    #: instead of %RETRY%group_topic (RocketMQ: enableRetryTopicV2). Both are read.
    pop_retry_v2: bool = False
    #: Longest time a pull may wait, whatever it asks for; the client's RPC limit is 30 s.
    long_poll_seconds_max: float = 25.0

    #: Dispatch may lag behind commit by this much time while nobody waits for it. More: fewer,
    #: larger batches. Less: less to catch up at a leader change.
    dispatch_delay: float = 0.05
    #: … and by at most this many entries.
    dispatch_lag_max: int = 8_000
    #: Entries in one go, if they are usual ones: the event loop is held for about 0.4 µs each.
    #: Others go in chunks of 1,000 at most.
    dispatch_chunk_max: int = 4_000

    #: Time between two checkpoints of the derived state; bounds what a restart scans.
    checkpoint_seconds: float = 30.0
    #: … and bytes of log between two.
    checkpoint_bytes: int = 256 * 1024 * 1024
    #: Time between two exports of config/*.json (RocketMQ: 5 s for offsets).
    export_seconds: float = 5.0
    #: Time between two registrations at the name servers (RocketMQ: 30 s); role changes at once.
    registration_seconds: float = 10.0

    #: A transaction without an outcome is left alone for this long, or for longer when its producer
    #: asked for that; then the producer is asked (RocketMQ: transactionTimeOut).
    transaction_timeout_ms: int = 6_000
    #: Time between two questions, and how many there are before it is given up, which puts it into
    #: TRANS_CHECK_MAX_TIME_TOPIC (RocketMQ: transactionCheckInterval, transactionCheckMax).
    transaction_check_interval_ms: int = 30_000
    transaction_check_max: int = 15

    #: Files of consume queues and index; RocketMQ's sizes. Every opener must use the same.
    queue_file_size: int = 6_000_000
    index_slot_count: int = 5_000_000
    index_entry_count: int = 20_000_000
    #: Off: messages cannot be found by key; dispatch is cheaper.
    index_enabled: bool = True
    #: Keep tags, store times and filter bitmaps beside the queues (enableConsumeQueueExt). Only
    #: SQL92 filters gain from it; dispatch then looks at every message one by one.
    queue_ext_enabled: bool = False
    #: Which SQL92 subscriptions a message is for is worked out when it is dispatched, so that
    #: pulls skip the others without reading them (RocketMQ: enableCalcFilterBitMap).
    filter_bitmap_enabled: bool = False
    #: The bitmap's size follows from its rate of false hits, in percent, and from how many groups
    #: have SQL92 subscriptions on one topic.
    filter_error_percent: int = 20
    filter_consumers: int = 32

    #: Above this share of the disk producers are refused with code 14 (RocketMQ: 0.90).
    disk_full_ratio: float = DISK_FULL_RATIO

    #: Log files whose last change is older are deleted, at these hours of the day (local time), or
    #: at any hour when the disk is more than three quarters full; above 85 % the oldest go whatever
    #: their age (RocketMQ: fileReservedTime, deleteWhen). The leader decides for the whole group.
    reserved_hours: int = 72
    delete_hours: tuple[int, ...] = (4,)
    #: Entries of the audit log are kept for so many days, also when the log files that they were
    #: written to are deleted; 0: as long as these files. The leader decides for the whole group.
    audit_days: int = 90
    #: Entries that are kept so have at most so many bytes together; the oldest go first.
    audit_bytes_max: int = 1 << 20
    #: For so long no file is deleted that a live follower has not got yet. Afterwards it takes the
    #: broker's state and the files that are left: more waiting takes disk, less takes bandwidth.
    follower_grace_seconds: float = 600.0

    def validate(self) -> None:
        """Raise ValueError naming both values of a relation that cannot work."""
        self._validate_numbers()
        self._validate_addresses()
        self._validate_reach()
        self._validate_access()
        durability_of(self.durability)
        try:
            parse_delay_levels(self.message_delay_level)
        except StoreConfigError as error:
            raise ValueError(str(error)) from None
        if not self.node_id:
            raise ValueError("node_id is empty; name the replica, for example n0")
        if self.node_id in self.peers:
            raise ValueError(f"node_id {self.node_id} is named among its own peers")
        if self.body_size_max + 65_536 > self.frame_size_max:
            raise ValueError(
                f"body_size_max {self.body_size_max} and 64 KiB of header do not fit into "
                f"frame_size_max {self.frame_size_max}"
            )
        if self.body_size_max + 65_536 > self.in_flight_bytes_max:
            raise ValueError(
                f"in_flight_bytes_max {self.in_flight_bytes_max} must hold one message of "
                f"body_size_max {self.body_size_max}"
            )
        if self.queue_file_size % 20:
            raise ValueError(f"queue_file_size {self.queue_file_size} is not a multiple of 20")
        if self.dispatch_chunk_max > self.dispatch_lag_max:
            raise ValueError(
                f"dispatch_chunk_max {self.dispatch_chunk_max} is above "
                f"dispatch_lag_max {self.dispatch_lag_max}, so no chunk would ever be full"
            )
        if self.pull_count_max < 1 or self.pull_scan_max < self.pull_count_max:
            raise ValueError(
                f"pull_count_max {self.pull_count_max} must be at least 1 and at most "
                f"pull_scan_max {self.pull_scan_max}"
            )
        if self.filter_bitmap_enabled and not self.queue_ext_enabled:
            raise ValueError(
                f"filter_bitmap_enabled is {self.filter_bitmap_enabled} and queue_ext_enabled "
                f"{self.queue_ext_enabled}: bitmaps are kept in the queues' extensions; set both"
            )
        if not self.filter_error_percent < 100:
            raise ValueError(f"filter_error_percent {self.filter_error_percent} must be 1 to 99")
        if not self.delete_hours or any(not 0 <= hour <= 23 for hour in self.delete_hours):
            raise ValueError(f"delete_hours {self.delete_hours} must be hours from 0 to 23")
        if self.tracing and not self.tracing.startswith(("http://", "https://")):
            raise ValueError(f"tracing {self.tracing} is no address; write http://HOST:4318")
        if "@" in self.tracing or self.tracing.rstrip("/").endswith("/v1/traces"):
            raise ValueError(
                "tracing is the collector's address alone; write http://HOST:4318, without a user "
                "or a secret, which would be logged, and without /v1/traces, which is added"
            )
        if not 0 < self.tracing_ratio <= 1:
            raise ValueError(f"tracing_ratio {self.tracing_ratio} is not within 0..1")
        if not 0 < self.disk_full_ratio <= 1:
            raise ValueError(f"disk_full_ratio {self.disk_full_ratio} is not within 0..1")

    def _validate_numbers(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            above_0 = value > 0 or (value == 0 and item.name in _MAY_BE_ZERO)
            if not above_0 or not value <= _NUMBER_MAX:
                raise ValueError(f"{item.name} {value} must be above 0 and at most {_NUMBER_MAX}")
        if self.listen_port > PORT_MAX:
            raise ValueError(f"listen_port {self.listen_port} must be 0 to {PORT_MAX}")
        if self.relay_port > PORT_MAX or (self.relay_port and self.relay_port == self.listen_port):
            raise ValueError(
                f"relay_port {self.relay_port} must be 0 to {PORT_MAX} and another one than "
                f"listen_port {self.listen_port}"
            )
        if self.queue_file_size > _FILE_SIZE_MAX:
            raise ValueError(
                f"queue_file_size {self.queue_file_size} must be at most {_FILE_SIZE_MAX}"
            )
        if 40 + 4 * self.index_slot_count + 20 * self.index_entry_count > _FILE_SIZE_MAX:
            raise ValueError(
                f"index_slot_count {self.index_slot_count} and index_entry_count "
                f"{self.index_entry_count} make a file of more than {_FILE_SIZE_MAX} bytes"
            )

    def _validate_reach(self) -> None:
        """A port beyond this machine needs a proof of peers, and an address to tell clients."""
        where = f"listen_host {self.listen_host}"
        if not is_loopback(self.listen_host) and self.cluster_secret is None:
            raise ValueError(
                f"{where} is beyond this machine and cluster_secret is not set: whoever reaches "
                "the port may speak for a peer; set the same secret on every node"
            )
        if _is_wildcard(self.listen_host) and self.advertised is None:
            raise ValueError(
                f"{where} is no address that a client can dial; set advertised to one that is"
            )
        if self.advertised is not None and _is_wildcard(host_of(self.advertised)):
            raise ValueError(
                f"advertised is {self.advertised}, which no client can dial; give a real address"
            )

    def _validate_access(self) -> None:
        if self.cluster_secret is not None and (wrong := secret_error(self.cluster_secret)):
            raise ValueError(f"cluster_secret {wrong}")
        if self.acl_file is not None and self.peers and self.cluster_secret is None:
            raise ValueError(
                f"acl_file is {self.acl_file} and cluster_secret is not set: requests that a peer "
                "passes on are not asked for an account, so whoever reaches the port could say "
                "that he is one; set the same secret on every node"
            )
        modes = [mode.value for mode in TlsMode]
        if self.tls_mode not in modes:
            raise ValueError(f"tls_mode {self.tls_mode} is none of {', '.join(modes)}")
        if self.tls_mode != TlsMode.DISABLED.value and not (self.tls_certificate and self.tls_key):
            raise ValueError(
                f"tls_mode is {self.tls_mode}, tls_certificate {self.tls_certificate} and tls_key "
                f"{self.tls_key}; give both files"
            )
        if self.name_server_tls and not (self.tls_certificate and self.tls_key):
            raise ValueError(
                f"name_server_tls is on, tls_certificate is {self.tls_certificate} and tls_key "
                f"{self.tls_key}; give both files"
            )

    def _validate_addresses(self) -> None:
        named = [(f"peer {name}", address) for name, address in self.peers.items()]
        named += [(f"peer {name}", address) for name, address in self.peers_advertised.items()]
        named += [("a name server", address) for address in self.name_servers]
        if self.advertised is not None:
            named.append(("advertised", self.advertised))
        if self.advertised_relay is not None:
            named.append(("advertised_relay", self.advertised_relay))
        for name, address in named:
            if not is_address(address):
                raise ValueError(f"{name} is {address!r}, which is no address; write host:port")


def _is_wildcard(host: str) -> bool:
    try:
        return not host or ipaddress.ip_address(without_brackets(host)).is_unspecified
    except ValueError:
        return False
