"""Brokers of RocketMQ 5.3.3 and its name server, as processes, in one of three modes.

    DLedger     the commit log is replicated by DLedger; a majority elects a leader
    controller  master and slaves; a controller inside the name server appoints the next master
    sync flush  one master, one slave, no election: both have a message on disk before its answer

With their default times, as a user of them has. A majority acknowledges in DLedger mode; all of the
in-sync set does in controller mode. Neither syncs before: DLedger cannot.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import cluster
from cluster.errors import ClusterError
from cluster.protocol.route import BrokerData
from tests.interop.harness import toolchains
from tests.waiting import wait_until

VERSION = "5.3.3"
DLEDGER, CONTROLLER, SYNC_FLUSH = "DLedger mode", "controller mode", "master/slave, sync flush"
NODES = ("n0", "n1", "n2")
NAME = "broker-a"
READY_SECONDS_MAX = 180.0  # a JVM starts in 10 to 25 s where nothing else runs
#: A broker takes ports beside its own: 2 below it, 1 above it, and those of its mode.
PORTS_OF_ONE = 6
HEAP = "512m"


def jars() -> Path:
    """The folder of its jars, made when it is not there. Raises toolchains.Missing."""
    toolchains.need("java", "mvn")
    pom = Path(__file__).parent / "rocketmq" / "pom.xml"
    return toolchains.built(
        f"rocketmq-{VERSION}", [pom], VERSION, lambda to: toolchains.copy_jars(pom, VERSION, to)
    )


class RocketMq:
    """One cluster; `folder` has a folder for each process.

    `heap`, `file_mib`: memory of each JVM, size of a file of the commit log.
    """

    def __init__(self, folder: Path, mode: str, heap: str = HEAP, file_mib: int = 64) -> None:
        self._folder, self._mode, self._heap, self._file_mib = folder, mode, heap, file_mib
        self.nodes = NODES[:2] if mode == SYNC_FLUSH else NODES
        self._jars = jars()
        self._base = _free_ports(PORTS_OF_ONE * (len(NODES) + 1))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def nameserver(self) -> str:
        """host:port, for clients."""
        return f"127.0.0.1:{self._base}"

    def leader(self) -> str | None:
        """The node that the name server has as id 0; None while it has none."""
        broker = self._broker()
        address = None if broker is None else broker.leader
        return next((node for node in self.nodes if address == self._address(node)), None)

    def _broker(self) -> BrokerData | None:
        """The brokers as the name server has them; None while it has none, or does not answer."""

        async def ask() -> BrokerData | None:
            async with cluster.connect(self.nameserver) as client:
                with contextlib.suppress(ClusterError):
                    return (await client.instance.routes.cluster()).get(NAME)
            return None

        return asyncio.run(ask())

    def pids(self) -> dict[str, int]:
        """Process ids of the brokers, and of the name server as `ns`."""
        return {name: process.pid for name, process in self._processes.items()}

    def up(self) -> None:
        """Start all, and wait until one of them leads and the others are there."""
        self._java("ns", "org.apache.rocketmq.namesrv.NamesrvStartup", self._of_nameserver())
        for node in self.nodes:
            self.start(node)
        self.wait_ready()

    def start(self, node: str) -> None:
        """Start a broker on what its folder has."""
        self._java(node, "org.apache.rocketmq.broker.BrokerStartup", self._of_broker(node))

    def kill(self, node: str) -> None:
        """SIGKILL."""
        process = self._processes.pop(node)
        process.kill()
        process.wait()

    def wait_ready(self) -> float:
        """Wait until the name server has all nodes, one of them as id 0."""

        def all_known() -> bool:
            broker = self._broker()
            known = set() if broker is None else set(broker.addresses.values())
            return (
                broker is not None and broker.leader is not None and len(known) == len(self.nodes)
            )

        wait_until(
            all_known,
            f"{len(self.nodes)} brokers of RocketMQ are registered",
            READY_SECONDS_MAX,
        )
        return 0.0

    def down(self) -> None:
        """End all processes."""
        for name in list(self._processes):
            self.kill(name)

    def _java(self, name: str, main: str, settings: Mapping[str, object]) -> None:
        home = self._folder / name
        (home / "conf").mkdir(parents=True, exist_ok=True)
        file = home / "settings"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        memory = (f"-Xms{self._heap}", f"-Xmx{self._heap}", f"-XX:MaxDirectMemorySize={self._heap}")
        command = [
            *(
                "java",
                *memory,
                "-XX:+UseG1GC",
                f"-Duser.home={home}",
                f"-Drocketmq.home.dir={home}",
            ),
            *("-cp", f"{self._jars}/*", main, "-c", str(file)),
        ]
        with (home / "out.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, cwd=home, stdout=log, stderr=log, env={**os.environ, "HOME": str(home)}
            )

    def _port(self, node: str) -> int:
        return self._base + PORTS_OF_ONE * (1 + NODES.index(node)) + 2

    def _address(self, node: str) -> str:
        return f"127.0.0.1:{self._port(node)}"

    def _of_nameserver(self) -> dict[str, object]:
        settings: dict[str, object] = {"listenPort": self._base, "bindAddress": "127.0.0.1"}
        if self._mode == CONTROLLER:
            settings |= {
                "enableControllerInNamesrv": "true",
                "controllerDLegerGroup": "controllers",
                "controllerDLegerPeers": f"c0-127.0.0.1:{self._base + 1}",
                "controllerDLegerSelfId": "c0",
                "controllerStorePath": self._folder / "ns" / "controller",
            }
        return settings

    def _of_broker(self, node: str) -> dict[str, object]:
        store = self._folder / node / "store"
        settings: dict[str, object] = {
            "brokerClusterName": "peers",
            "brokerName": NAME,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": self._port(node),
            "haListenPort": self._port(node) + 1,
            "namesrvAddr": self.nameserver,
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "mappedFileSizeCommitLog": self._file_mib << 20,
            "diskMaxUsedSpaceRatio": 99,
        }
        if self._mode == DLEDGER:
            peers = ";".join(f"{name}-127.0.0.1:{self._port(name) + 2}" for name in NODES)
            return settings | {
                "enableDLegerCommitLog": "true",
                "dLegerGroup": NAME,
                "dLegerPeers": peers,
                "dLegerSelfId": node,
                "sendMessageThreadPoolNums": 16,
            }
        if self._mode == SYNC_FLUSH:
            # inSyncReplicas is 1 by default: the master would answer without its slave.
            is_master = node == self.nodes[0]
            return settings | {
                "brokerId": 0 if is_master else 1,
                "brokerRole": "SYNC_MASTER" if is_master else "SLAVE",
                "flushDiskType": "SYNC_FLUSH",
                "inSyncReplicas": 2,
            }
        return settings | {
            "enableControllerMode": "true",
            "controllerAddr": f"127.0.0.1:{self._base + 1}",
            "brokerRole": "SYNC_MASTER",
            "allAckInSyncStateSet": "true",
        }


@contextlib.contextmanager
def running_rocketmq(
    folder: Path, mode: str, heap: str = HEAP, file_mib: int = 64
) -> Iterator[RocketMq]:
    """A cluster whose processes end with the block. Raises toolchains.Missing."""
    made = RocketMq(folder, mode, heap, file_mib)
    try:
        made.up()
        yield made
    finally:
        made.down()


def _free_ports(count: int) -> int:
    """The first of so many ports that nobody has now."""
    for base in range(21_000, 30_000, count):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(base, base + count):
                taken = stack.enter_context(socket.socket())
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                taken.bind(("127.0.0.1", port))
            return base
    raise toolchains.Missing(f"needs {count} free ports in a row below 30000")
