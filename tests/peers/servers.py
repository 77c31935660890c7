"""The servers of each subject, as processes that end with their block.

Three nodes each, of RocketMQ's master/slave two; a JVM has 1 GiB of heap. A node is made from
nothing: what that takes belongs to its cold start.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import psutil

from cluster.bench.scratch import process_of, scratch_cluster
from cluster.errors import ClusterError
from cluster.local import plan
from cluster.local.profile import NAMESERVER
from pipeline.bench.kafka.broker import kafka_brokers
from tests.interop.harness.content import create_topics
from tests.peers import programs
from tests.peers.rocketmq_cluster import running_rocketmq
from tests.waiting import wait_until

CREATE_SECONDS_MAX = 120.0
HEAP = "1g"
FILE_MIB = 256
NATS_PORT, NATS_ROUTE_PORT = 4222, 6222
ETCD_PORT, ETCD_PEER_PORT = 2379, 2380
ETCD_BYTES_MAX = 8 << 30  # of its store, which has every message of a run; 2 GiB by default
AT_ONCE_PORT, AT_ONCE_QUEUES = 9876, 4


@dataclass(frozen=True, slots=True)
class Servers:
    """What is measured.

    Attributes:
        address: for the client.
        nodes: the processes that keep messages.
        others: those that only say where they are.
        make_topic: name, queues; where the client's `open` does it, it does nothing.
    """

    address: str
    nodes: Sequence[psutil.Process]
    others: Sequence[psutil.Process] = ()
    make_topic: Callable[[str, int], None] = lambda name, queues: None

    @property
    def all(self) -> list[psutil.Process]:
        """Every process."""
        return [*self.nodes, *self.others]


Started = Callable[[Path], AbstractContextManager[Servers]]


@contextlib.contextmanager
def ours(folder: Path) -> Iterator[Servers]:
    """`dledger up`, settings as delivered."""
    with scratch_cluster(str(folder)) as made:
        address = made.nameserver
        yield Servers(
            address,
            [process_of(made, name) for name in made.brokers],
            [process_of(made, member.name) for member in made.profile.of_kind(NAMESERVER)],
            lambda topic, queues: create_topics(address, [topic], queues),
        )


def rocketmq(mode: str) -> Started:
    """RocketMQ 5.3.3 in a mode of rocketmq_cluster.py."""

    @contextlib.contextmanager
    def started(folder: Path) -> Iterator[Servers]:
        with running_rocketmq(folder, mode, HEAP, FILE_MIB) as made:
            pids = made.pids()
            yield Servers(
                made.nameserver,
                [psutil.Process(pids[name]) for name in made.nodes],
                [psutil.Process(pids["ns"])],
                lambda topic, queues: _create_until_it_works(made.nameserver, topic, queues),
            )

    return started


def _create_until_it_works(nameserver: str, topic: str, queues: int) -> None:
    """A broker that is registered does not serve yet for a while."""

    def made() -> bool:
        with contextlib.suppress(ClusterError):
            create_topics(nameserver, [topic], queues)
            return True
        return False

    wait_until(made, f"{topic} is made", CREATE_SECONDS_MAX)


@contextlib.contextmanager
def kafka(folder: Path) -> Iterator[Servers]:
    """Three brokers of Kafka that are their own controllers."""
    before = set(psutil.Process().children())
    hosts = plan.scratch_hosts(3)[:3]
    with kafka_brokers(programs.kafka_jars(), folder, hosts, f"-Xmx{HEAP}") as address:
        started = [one for one in set(psutil.Process().children()) - before if _is_kafka(one)]
        yield Servers(address, started)


def _is_kafka(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return "kafka.Kafka" in process.cmdline()
    return False


@contextlib.contextmanager
def nats(folder: Path) -> Iterator[Servers]:
    """Three servers of NATS with JetStream; each write is synced before it is acknowledged."""
    hosts = plan.scratch_hosts(3)[:3]
    routes = ", ".join(f'"nats://{host}:{NATS_ROUTE_PORT}"' for host in hosts)
    program = str(programs.nats_folder() / "nats-server")
    commands = []
    for number, host in enumerate(hosts):
        home = folder / f"n{number}"
        home.mkdir(parents=True)
        file = home / "server.conf"
        file.write_text(
            f"server_name: n{number}\nlisten: {host}:{NATS_PORT}\n"
            f'jetstream {{ store_dir: "{home}", sync_interval: always, '
            "max_file_store: 20GB, max_mem: 1GB }\n"
            f"cluster {{ name: peers, listen: {host}:{NATS_ROUTE_PORT}, routes: [{routes}] }}\n"
        )
        commands.append([program, "-c", str(file)])
    with _running(commands, folder) as processes:
        yield Servers(",".join(f"nats://{host}:{NATS_PORT}" for host in hosts), processes)


@contextlib.contextmanager
def etcd(folder: Path) -> Iterator[Servers]:
    """Three servers of etcd, settings as delivered but for the size of their store."""
    hosts = plan.scratch_hosts(3)[:3]
    peers = [f"http://{host}:{ETCD_PEER_PORT}" for host in hosts]
    initial = ",".join(f"n{number}={peer}" for number, peer in enumerate(peers))
    program = str(programs.etcd_folder() / "server")
    commands = [
        [
            *(program, "--name", f"n{number}", "--data-dir", str(folder / f"n{number}")),
            *("--listen-client-urls", f"http://{host}:{ETCD_PORT}"),
            *("--advertise-client-urls", f"http://{host}:{ETCD_PORT}"),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", initial, "--initial-cluster-state", "new"),
            *("--quota-backend-bytes", str(ETCD_BYTES_MAX), "--log-level", "error"),
        ]
        for number, (host, peer) in enumerate(zip(hosts, peers, strict=True))
    ]
    with _running(commands, folder) as processes:
        yield Servers(",".join(f"{host}:{ETCD_PORT}" for host in hosts), processes)


@contextlib.contextmanager
def at_once(folder: Path) -> Iterator[Servers]:
    """One program that answers RocketMQ's clients and keeps nothing."""
    address = f"{plan.scratch_hosts(1)[0]}:{AT_ONCE_PORT}"
    command = [str(programs.answering_program()), address, str(AT_ONCE_QUEUES)]
    with _running([command], folder) as processes:
        yield Servers(address, processes)


@contextlib.contextmanager
def _running(commands: Sequence[Sequence[str]], folder: Path) -> Iterator[list[psutil.Process]]:
    """Programs that end with the block; what they say is in `folder`."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for number, command in enumerate(commands):
            with (folder / f"out-{number}.log").open("wb") as log:
                running.append(subprocess.Popen(command, stdout=log, stderr=log))
        yield [psutil.Process(one.pid) for one in running]
    finally:
        for one in running:
            one.kill()
        for one in running:
            one.wait()
