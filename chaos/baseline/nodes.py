"""Three pysyncobj nodes as processes on loopback; ask, stop, cut the power, start again.

    <root>/p0/disk/journal, journal.meta     pysyncobj's own files
    <root>/p0/log.txt                        what it printed
    <root>/disks/p0.img                      with real power cuts: ext4 on a loop file

Without root or loop devices a power cut is modelled: the node's folder is put back to how it was at
the last `sync`. That is exact for pysyncobj, because it never asks for a sync itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.drivers import loop_disk
from chaos.drivers.loop_disk import LoopDisk

ANSWER_SECONDS_MAX = 5.0
START_SECONDS_MAX = 20.0
PORT = 21_721


class NotAnswering(Exception):
    """The node is down, or did not answer in time; the requested operation may have happened."""


@dataclass(slots=True)
class Node:
    """One process; `port` is where it is asked, its own address is for its peers."""

    name: str
    host: str
    folder: Path
    disk: LoopDisk | None
    process: asyncio.subprocess.Process | None = None
    port: int = 0

    @property
    def address(self) -> str:
        """host:port that its peers dial."""
        return f"{self.host}:{PORT}"

    @property
    def files(self) -> Path:
        """pysyncobj's own."""
        return self.folder / "disk"

    def send_signal(self, number: int) -> None:
        """Send the signal; has no effect on a process that was not started or has ended."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)


def free_hosts(count: int) -> list[str]:
    """Loopback addresses on which PORT is free: others may run at the same time."""
    found: list[str] = []
    while len(found) < count:  # 16 million addresses
        host = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(256)}.{len(found) + 1}"
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((host, PORT))
            found.append(host)
    return found


@dataclass(slots=True)
class Nodes:
    """The cluster. `real_power`: cuts are real ones (root, loop devices)."""

    root: Path
    real_power: bool
    count: int = 3
    nodes: list[Node] = field(default_factory=list)
    password: str = field(default_factory=lambda: secrets.token_hex(16))

    async def __aenter__(self) -> Nodes:
        for n, host in enumerate(free_hosts(self.count)):
            folder = (self.root / f"p{n}").resolve()
            (folder / "disk").mkdir(parents=True)
            disk = None
            if self.real_power:
                image = self.root.resolve() / "disks" / f"p{n}.img"
                disk = LoopDisk(f"p{n}", image, folder / "disk")
            self.nodes.append(Node(f"p{n}", host, folder, disk))
        try:
            for node in self.nodes:
                if node.disk is not None:
                    await asyncio.to_thread(node.disk.make)
            await self.start(self.nodes)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill(self.nodes)
        for node in self.nodes:
            if node.disk is not None:
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(node.disk.unmount)

    async def start(self, nodes: Sequence[Node]) -> None:
        """Until they can be asked. Raises NotAnswering when one ends instead."""
        await asyncio.gather(*(self._start(node) for node in nodes))

    async def _start(self, node: Node) -> None:
        peers = ",".join(one.address for one in self.nodes if one is not node)
        journal = node.files / "journal"
        words = ("-m", "chaos.baseline.node_main", node.address, peers, str(journal))
        with (node.folder / "log.txt").open("ab") as log:
            node.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert node.process.stdin is not None
        assert node.process.stdout is not None
        node.process.stdin.write(f"{self.password}\n".encode())  # open: it ends with this process
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                said = (await node.process.stdout.readline()).decode().split()
        except TimeoutError:
            said = []
        if len(said) != 2:
            last = (node.folder / "log.txt").read_text("utf-8", "replace").strip().splitlines()
            raise NotAnswering(f"{node.name} did not start: {' '.join(last[-1:])}")
        node.port = int(said[1])

    async def kill(self, nodes: Sequence[Node]) -> None:
        """SIGKILL all of them at once; returns when they are gone."""
        for node in nodes:
            node.send_signal(signal.SIGKILL)
        for node in nodes:
            if node.process is not None:
                assert node.process.stdin is not None
                node.process.stdin.close()
                await node.process.wait()
                node.process = None

    async def sync(self) -> None:
        """Syncs all files of all nodes, as an operating system does every half minute."""
        for node in self.nodes:
            if node.disk is not None:
                await asyncio.to_thread(_sync_files, node.files)
            else:
                kept = node.folder / "synced"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(node.files, kept)

    async def cut_power(self) -> None:
        """Cuts the power of all nodes at once: their processes end, and un-synced writes are
        lost.
        """
        for node in self.nodes:
            node.send_signal(signal.SIGSTOP)
        for node in self.nodes:
            if node.disk is not None:
                node.disk.lose_power()
        await self.kill(self.nodes)
        for node in self.nodes:
            if node.disk is not None:
                await asyncio.to_thread(node.disk.unmount)
                await asyncio.to_thread(node.disk.mount)
            else:
                shutil.rmtree(node.files)
                shutil.copytree(node.folder / "synced", node.files)

    async def ask(self, node: Node, line: str) -> str:
        """One question over a connection of its own. Raises NotAnswering."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                reader, writer = await asyncio.open_connection(node.host, node.port)
                try:
                    writer.write(f"{line}\n".encode())
                    answer = await reader.readline()
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            raise NotAnswering(f"{node.name} did not answer: {error}") from error
        if not answer.endswith(b"\n"):
            raise NotAnswering(f"{node.name} ended while it was asked")
        return answer.decode().rstrip("\n")


def _sync_files(folder: Path) -> None:
    """The node's files and their names, as the kernel writes them by and by."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for path in folder.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        os.fsync(fd)
    finally:
        os.close(fd)


def real_power_why_not() -> str:
    """Why power cuts are modelled and not real; "" when they are real."""
    return loop_disk.why_not()
