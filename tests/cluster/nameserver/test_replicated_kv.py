"""Three name servers share their configuration: one dies, all restart, routes never wait (R26)."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from tests.waiting import eventually

KV_PORT, PORT = 20912, 9876

pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.skipif(
        importlib.util.find_spec("cryptography") is None,
        reason="needs cryptography (pysyncobj proves peers with it)",
    ),
]


class NameServers:
    """Three processes; each can be killed and started again."""

    def __init__(self, root: Path, hosts: list[str]) -> None:
        self.root, self.hosts = root, hosts
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * len(hosts)
        self.password = root / "password"
        self.password.write_text("one of us")

    def start(self, number: int) -> None:
        others = [host for host in self.hosts if host != self.hosts[number]]
        self.processes[number] = subprocess.Popen(
            [
                sys.executable, "-m", "cluster.local.nameserver_main",
                "--listen", f"{self.hosts[number]}:{PORT}",
                "--kv-folder", str(self.root / f"ns{number}"),
                "--kv-listen", f"{self.hosts[number]}:{KV_PORT}",
                "--kv-peers", ",".join(f"{host}:{KV_PORT}" for host in others),
                "--kv-password-file", str(self.password),
            ],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def kill(self, number: int) -> None:
        process = self.processes[number]
        assert process is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.processes[number] = None

    async def ask(self, number: int, code: int, ext: dict[str, str]) -> Frame:
        reader, writer = await asyncio.open_connection(self.hosts[number], PORT)
        try:
            writer.write(encode_frame(Frame(code, 1, ext)))
            decoder, found = FrameDecoder(), []
            while not found:
                found = decoder.feed(await reader.read(65536))
            return found[0]
        finally:
            writer.close()

    async def until(
        self, number: int, code: int, ext: dict[str, str], wanted: Callable[[Frame], bool]
    ) -> Frame:
        """Ask until the answer is as wanted: elections and start-up take a moment."""

        async def look() -> Frame | None:
            try:
                answer = await self.ask(number, code, ext)
            except OSError:
                return None  # not listening yet
            return answer if wanted(answer) else None

        found = await eventually(look, f"the answer of name server {number} to {ext}")
        assert found is not None
        return found

    async def put(self, number: int, key: str, value: str) -> None:
        ext = {"namespace": "ns", "key": key, "value": value}
        await self.until(number, 100, ext, lambda answer: answer.code == 0)

    async def sees(self, number: int, key: str, value: str) -> None:
        ext = {"namespace": "ns", "key": key}
        await self.until(number, 101, ext, lambda answer: answer.ext.get("value") == value)


@asynccontextmanager
async def name_servers(root: Path, hosts: list[str]) -> AsyncIterator[NameServers]:
    servers = NameServers(root, hosts)
    try:
        yield servers
    finally:
        for number, process in enumerate(servers.processes):
            if process is not None:
                servers.kill(number)


async def test_it_survives_the_death_of_any_one_and_a_restart_of_all(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with name_servers(tmp_path, [new_address() for _ in range(3)]) as servers:
        for number in range(3):
            servers.start(number)
        await servers.put(0, "first", "1")
        for number in range(3):
            await servers.sees(number, "first", "1")
        for victim in range(3):
            servers.kill(victim)
            await servers.put((victim + 1) % 3, f"without-{victim}", "x")
            servers.start(victim)
            await servers.sees(victim, f"without-{victim}", "x")
        for number in range(3):
            servers.kill(number)
        for number in range(3):
            servers.start(number)
        for number in range(3):
            await servers.sees(number, "first", "1")
            await servers.sees(number, "without-2", "x")


async def test_one_alone_answers_at_once_from_its_file_and_refuses_changes(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with name_servers(tmp_path, [new_address() for _ in range(3)]) as servers:
        for number in range(3):
            servers.start(number)
        await servers.put(0, "k", "v")
        file = tmp_path / "ns0" / "kvConfig.json"
        await eventually(file.exists, "the file of a name server")
        for number in range(3):
            servers.kill(number)
        servers.start(0)
        await servers.sees(0, "k", "v")
        route = await servers.ask(0, 105, {"topic": "T"})
        assert route.code == 17, "routes do not wait for the others"
        refused = await servers.ask(0, 100, {"namespace": "ns", "key": "a", "value": "b"})
        assert refused.code in (1, 14), refused.remark
        assert (await servers.ask(0, 101, {"namespace": "ns", "key": "a"})).code == 22
