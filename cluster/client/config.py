"""Settings of a client, with its account and TLS. Times are seconds, sizes bytes.

Each setting says what a larger and a smaller value cost. An account file has two lines, as
RocketMQ's tools.yml:

    accessKey: orders
    secretKey: 5f0c9a…

`repr` never shows a secret, so none reaches a log (docs/spec/remoting.md 1.5, 4.10).
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.protocol.durability import Durability
from commitlog.advice import Advised

BODY_SIZE_MAX = 4 * 1024 * 1024
"""Largest message body; RocketMQ's producers and brokers have the same limit."""
ACCOUNT_FILE_SIZE_MAX = 64 * 1024  # two lines are wanted


class ClientConfigError(Advised, ValueError):
    """A setting is impossible by itself or beside another one; the client dialled no address."""

    advice = "correct the setting"


@dataclass(frozen=True, slots=True)
class Account:
    """Signs every request.

    Attributes:
        access_key: the account's name, as the broker's plain_acl.yml has it.
        secret_key: what it signs with; never sent.
    """

    access_key: str
    secret_key: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ClientConfigError("access_key or secret_key of the account is empty; give both")


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS to brokers and name servers.

    Attributes:
        authority: PEM file of the certificates that are believed (a self-signed one is its own
            authority); "" believes what the system believes.
        check_host: the certificate must name the address that is dialled. Without it anybody whom
            the authority knows may answer; needed where brokers advertise addresses that their
            certificates do not have.
        certificate, key: what this client shows to brokers that want to see one; PEM files.
    """

    authority: str = ""
    check_host: bool = True
    certificate: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise ClientConfigError("certificate and key of TLS belong together; give both or none")

    def context(self) -> ssl.SSLContext:
        """Raises ClientConfigError, which names the file that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.authority or None)
        except (OSError, ssl.SSLError) as error:
            raise ClientConfigError(
                f"the authority {self.authority} cannot be read ({error}); give a PEM file"
            ) from error
        context.check_hostname = self.check_host
        if self.certificate:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except (OSError, ssl.SSLError) as error:
                raise ClientConfigError(
                    f"certificate {self.certificate} and key {self.key} cannot be used ({error}); "
                    "give a PEM chain and its unencrypted key"
                ) from error
        return context


def read_account(path: Path) -> Account:
    """The account of a file like RocketMQ's tools.yml: lines `accessKey: …` and `secretKey: …`.

    Raises ClientConfigError when it cannot be read or lacks one.
    """
    try:
        with path.open("rb") as file:
            text = file.read(ACCOUNT_FILE_SIZE_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ClientConfigError(
            f"the account file {path} cannot be read ({error}); give one with the lines "
            "accessKey: … and secretKey: …"
        ) from error
    found = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            found[name.strip()] = value.strip().strip("\"'")
    try:
        return Account(found["accessKey"], found["secretKey"])
    except KeyError as error:
        raise ClientConfigError(
            f"{path} has no {error.args[0]}; write the lines accessKey: … and secretKey: …"
        ) from None


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Settings that all parts of one client share.

    Attributes:
        connect_timeout: more waits longer for a host that does not answer before trying another.
        request_timeout: for one request and its answer; less gives up on a slow disk too early.
        route_period: how often routes are asked for when nothing is wrong.
        heartbeat_period: brokers forget a client after 120 s without one.
        stall_timeout: unanswered for so long, a request makes the client ask who leads now; less
            notices a stopped leader earlier and asks more often for nothing.
        retry_pause: between attempts while there is no leader.
        replica_fallback: without news of a leader for so long, any other replica is asked.
        source_host: the address this client dials from; "" lets the system choose.
        account: signs every request; brokers with access control want one.
        tls: TLS to name servers and brokers; None speaks in the clear.
        tracing: spans of each message for OpenTelemetry (extra otel): True for the program's
            global provider, or a TracerProvider; None: none, at no cost.
    """

    connect_timeout: float = 1.0
    request_timeout: float = 3.0
    route_period: float = 30.0
    heartbeat_period: float = 10.0
    stall_timeout: float = 0.4
    retry_pause: float = 0.02
    replica_fallback: float = 0.7
    source_host: str = ""
    account: Account | None = None
    tls: Tls | None = None
    tracing: Any = None

    def __post_init__(self) -> None:
        if self.stall_timeout >= self.request_timeout:
            raise ClientConfigError(
                f"stall_timeout {self.stall_timeout} is not below request_timeout "
                f"{self.request_timeout}; lower it, so that a stall is noticed before a request is "
                "given up"
            )


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """Settings of a producer.

    Attributes:
        in_flight_max: messages waiting for their receipt; more raises throughput up to the disk's
            limit and memory with it. `send` waits while they are reached.
        in_flight_bytes_max: bytes of their bodies.
        delivery_timeout: from `send` to its receipt, all attempts together.
        batching: put messages for one queue that wait together into one request (code 320).
        batch_count_max: messages per batch.
        batch_bytes_max: bytes per batch; one larger message goes alone.
        batches_in_flight_max: batches of one queue unanswered at once; less makes larger batches.
        durability: when a send is acknowledged; None: as the topic or the broker is set. In memory
            is earlier and may be taken back by a power failure (dledger/producers/durability.py).
    """

    in_flight_max: int = 1024
    in_flight_bytes_max: int = 64 * 1024 * 1024
    delivery_timeout: float = 15.0
    batching: bool = False
    batch_count_max: int = 256
    batch_bytes_max: int = 512 * 1024
    batches_in_flight_max: int = 4
    durability: Durability | None = None

    def __post_init__(self) -> None:
        if min(self.in_flight_max, self.batch_count_max, self.batches_in_flight_max) < 1:
            raise ClientConfigError(
                "in_flight_max or a limit of batches is below 1; give at least 1"
            )
        if self.batch_bytes_max > BODY_SIZE_MAX:
            raise ClientConfigError(
                f"batch_bytes_max {self.batch_bytes_max} is over the largest body {BODY_SIZE_MAX}; "
                "give that or less"
            )


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """Settings of a consumer.

    Attributes:
        start: where a group without a position begins: "first" or "last".
        tags: tag expression, "*" or names joined by "||".
        sql: a condition on properties in SQL92, as "a > 5 AND region = 'EU'", instead of `tags`;
            brokers evaluate it.
        ordered: each queue is locked by its reader, and its next message is handed out when the
            one before is acked; one that failed is handled again before any that follows.
        broadcast: this member reads every queue, whatever other members do; positions are kept in
            `positions_file`, and nothing is retried.
        max_attempts: so often a message is handed out before it becomes a dead letter, in
            %DLQ%GROUP; 17 are RocketMQ's 16 retries.
        manual_ack: `ack(message)` must be called; else a message counts when the loop asks for the
            next one.
        pull_count_max: messages per pull.
        pull_bytes_max: bytes per pull, as advice to the broker.
        ahead_count_max: messages held per queue before pulling pauses.
        ahead_bytes_max: bytes held over all queues before pulling pauses.
        suspend: how long a broker holds a pull that finds nothing.
        commit_period: how often positions are sent; at once on close.
        rebalance_period: how often membership is asked for when nobody says that it changed.
    """

    start: str = "first"
    tags: str = "*"
    sql: str | None = None
    ordered: bool = False
    broadcast: bool = False
    positions_file: Path | None = None
    max_attempts: int = 17
    manual_ack: bool = False
    pull_count_max: int = 1024
    pull_bytes_max: int = 1024 * 1024
    ahead_count_max: int = 1024
    ahead_bytes_max: int = 32 * 1024 * 1024
    suspend: float = 15.0
    commit_period: float = 1.0
    rebalance_period: float = 20.0

    def __post_init__(self) -> None:
        if self.start not in ("first", "last"):
            raise ClientConfigError(f'start is {self.start!r} and no place; give "first" or "last"')
        if not isinstance(self.tags, str):
            raise ClientConfigError(f'tags is {self.tags!r:.40} and no text; give "*" for all')
        if self.sql is not None and self.tags != "*":
            raise ClientConfigError(
                "tags and sql are both given; leave tags out, TAGS can be used in a condition"
            )
        if self.broadcast != (self.positions_file is not None):
            raise ClientConfigError(
                "broadcast needs positions_file, the file of this member's positions, and only "
                "broadcast has one"
            )
        if self.broadcast and self.ordered:
            raise ClientConfigError("a broadcasting member locks no queue; leave ordered away")
        if self.max_attempts < 1:
            raise ClientConfigError("max_attempts is below 1; give at least 1")
        if min(self.pull_count_max, self.ahead_count_max) < 1:
            raise ClientConfigError("pull_count_max or ahead_count_max is below 1; give at least 1")
