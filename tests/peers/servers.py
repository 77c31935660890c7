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
    program = programs.nats_folder() / "nats-server"
    running: list[subprocess.Popen[bytes]] = []
    try:
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
            with (home / "out.log").open("wb") as log:
                command = [str(program), "-c", str(file)]
                running.append(subprocess.Popen(command, stdout=log, stderr=log))
        address = ",".join(f"nats://{host}:{NATS_PORT}" for host in hosts)
        yield Servers(address, [psutil.Process(one.pid) for one in running])
    finally:
        for one in running:
            one.kill()
        for one in running:
            one.wait()
