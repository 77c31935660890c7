"""One broker node as a process of its own, on a folder that a test may break."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster.local import admin
from tests.command_line import run, run_module, start
from tests.waiting import limit, wait_until

ROOT = Path(__file__).resolve().parents[2]
CLIENT_PORT, PEER_PORT, ADMIN_PORT = 10911, 20911, 8080
NAME_SERVER_PORT = 9876
DATA_FILE_SIZE = 1 << 20
BODY_SIZE_MAX = 200_000
SETTINGS = """
[raft]
node_id = "n0"
cluster_id = "acceptance"
peers = {{ n0 = "{host}:{peer}" }}
data_file_size = {data_file_size}
index_file_size = 32768
entry_size_max = 300_000

[broker]
root = "{root}"
listen_host = "{host}"
listen_port = {client}
body_size_max = {body_size_max}
index_slot_count = 1000
index_entry_count = 4000
name_servers = []

[admin]
listen = "{host}:{admin}"
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that ended: its exit code and what it wrote."""

    code: int
    text: str

    @property
    def sentence(self) -> str:
        """The last line: what an operator sees first."""
        lines = self.text.strip().splitlines()
        return lines[-1] if lines else ""


def name_server_at_taken_port(host: str) -> Ended:
    """A name server that finds a program at its port."""
    command = [sys.executable, "-m", "cluster.local.nameserver_main"]
    with socket.create_server((host, NAME_SERVER_PORT)):
        found = subprocess.run(
            [*command, "--listen", f"{host}:{NAME_SERVER_PORT}"],
            capture_output=True,
            text=True,
            timeout=limit(60),
            cwd=ROOT,
        )
    return Ended(found.returncode, found.stdout + found.stderr)


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """Node n0, alone in its group, on `<folder>/data`."""

    folder: Path
    host: str

    @property
    def root(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """The replicated log's folder."""
        return self.root / "dledger-n0"

    @property
    def client(self) -> str:
        return f"{self.host}:{CLIENT_PORT}"

    @property
    def peer(self) -> str:
        return f"{self.host}:{PEER_PORT}"

    @property
    def admin(self) -> str:
        return f"{self.host}:{ADMIN_PORT}"

    def command(self, *flags: str, python: tuple[str, ...] = ()) -> list[str]:
        """The command line of this node; writes its settings file first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "node.toml"
        text = SETTINGS.format(
            host=self.host,
            root=self.root,
            client=CLIENT_PORT,
            peer=PEER_PORT,
            admin=ADMIN_PORT,
            data_file_size=DATA_FILE_SIZE,
            body_size_max=BODY_SIZE_MAX,
        )
        file.write_text(text, encoding="utf-8")
        module = "cluster.local.node_main"
        return [sys.executable, *python, "-m", module, "--config", str(file), *flags]

    def fails(self, *flags: str, python: tuple[str, ...] = (), seconds: float = 60) -> Ended:
        """Start it where it must end by itself."""
        command = self.command(*flags, python=python)
        if python:
            found = subprocess.run(
                command, capture_output=True, text=True, timeout=limit(seconds), cwd=ROOT
            )
        else:
            _, _, module, *rest = command
            found = run_module(module, *rest, env=os.environ, seconds=seconds)
        return Ended(found.returncode, found.stdout + found.stderr)

    @contextmanager
    def running(self, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run it until the block ends; ready when this yields. Its output is in `output()`."""
        with (self.folder / "log.txt").open("wb") as log:
            _, _, *words = self.command(*flags)
            process = start(words, env=os.environ, output=log.fileno())
        try:
            self.wait_ready(process)
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(limit(15))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait_ready(self, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
        def is_ready() -> bool:
            assert process.poll() is None, self.output()
            try:
                return admin.get(self.admin, "/readyz")[0] == 200
            except OSError:
                return False

        try:
            wait_until(is_ready, "a node that is ready", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output()}") from None

    def output(self) -> str:
        return (self.folder / "log.txt").read_text("utf-8", "replace")

    def hashes(self, folder: Path | None = None) -> dict[str, str]:
        """SHA-256 of every file of the log (or of another folder); locks and marks of life not."""
        return hashes(folder or self.log)


def hashes(folder: Path) -> dict[str, str]:
    """Path → SHA-256 of every file below a folder, but for its locks."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def dledger(*arguments: str, home: Path, stdin: bytes = b"", python: tuple[str, ...] = ()) -> Ended:
    """The `dledger` command with a home of its own."""
    environment = {**os.environ, "DLEDGER_HOME": str(home), "NAMESRV_ADDR": ""}
    if not (stdin or python):
        ended = run(*arguments, env=environment)
        return Ended(ended.returncode, ended.stdout + ended.stderr)
    found = subprocess.run(
        [sys.executable, *python, "-m", "cluster.cli", *arguments],
        input=stdin,
        capture_output=True,
        timeout=limit(30),
        cwd=ROOT,
        env=environment,
    )
    return Ended(found.returncode, (found.stdout + found.stderr).decode("utf-8", "replace"))
