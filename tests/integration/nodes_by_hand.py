"""Nodes as one runs them oneself: `dledger node run FILE`, each a process of the test's own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner

from cluster.cli import dledger as root_command
from cluster.local import stories
from cluster.local.plan import can_bind
from tests.command_line import start
from tests.waiting import RAFT_TIMINGS, limit, wait_until

ROOT = Path(__file__).resolve().parents[2]
SMALL = RAFT_TIMINGS | {
    "raft.data_file_size": str(16 << 20),
    "raft.index_file_size": str(1 << 20),
    "broker.index_slot_count": "10000",
    "broker.index_entry_count": "40000",
    "broker.drain_seconds": "0",
}
SMALL_FLAGS = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]


def dledger(*arguments: str, stdin: str = "") -> tuple[int, str]:
    """A command in this process: its exit code, and what it said."""
    found = CliRunner().invoke(root_command, list(arguments), input=stdin)
    raised = found.exception
    quiet = raised is None or isinstance(raised, SystemExit)
    return found.exit_code, found.output + ("" if quiet else f"{type(raised).__name__}: {raised}")


def done(*arguments: str, stdin: str = "") -> str:
    """The same for one that must succeed: what it said."""
    code, said = dledger(*arguments, stdin=stdin)
    assert code == 0, said
    return said


@dataclass(slots=True)
class ByHand:
    """Processes by name; all have ended when `by_hand` ends."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def file(self, name: str) -> Path:
        return self.folder / name / "node.toml"

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.txt").read_text("utf-8", "replace")

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """The same as `python -m ARGUMENTS`; its output is in `log(name)`."""
        with (self.folder / f"{name}.txt").open("ab") as log:
            process = start(arguments, env=os.environ, output=log.fileno())
        self.processes[name] = process
        return process

    def run(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        return self.start(name, "cluster.cli", "node", "run", str(self.file(name)), *options)

    def name_server(self, host: str) -> str:
        """Starts one; its address."""
        address = f"{host}:9876"
        self.start("ns", "cluster.local.nameserver_main", "--listen", address)
        wait_until(lambda: not can_bind(address), "the name server")
        return address

    def serves(self, name: str) -> None:
        """Wait until `dledger node status` says so; none may end meanwhile."""

        def looked() -> bool:
            for other, process in self.processes.items():
                assert process.poll() is None, self.log(other)
            return dledger("node", "status", str(self.file(name)))[0] == 0

        wait_until(looked, f"{name} serves", 60)

    def stop(self, name: str) -> int:
        """SIGTERM, and wait: its exit code."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(limit(30))

    def kill(self, name: str) -> None:
        """SIGKILL, and wait."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def fails(self, name: str) -> str:
        """Wait until it has ended by itself, with an error; its log."""
        process = self.processes.pop(name)
        try:
            assert process.wait(limit(60)) != 0, self.log(name)
        finally:
            process.kill()
            process.wait()
        return self.log(name)


@contextmanager
def by_hand(folder: Path) -> Iterator[ByHand]:
    """None of the processes may have made a mistake, whatever the test did to it."""
    found = ByHand(folder)
    try:
        yield found
    finally:
        for process in found.processes.values():
            process.kill()
        for process in found.processes.values():
            process.wait()
    mistakes = [f"{path}: {said}" for path in folder.glob("*.txt") for said in mistakes_of(path)]
    assert not mistakes, mistakes


def mistakes_of(log: Path) -> list[str]:
    return list(stories.in_log(log))


def init_three(nodes: ByHand, hosts: list[str], name_server: str) -> None:
    """Files and folders of n0, n1, n2: the first with fresh secrets, the others like it."""
    members = [part for n in range(3) for part in ("--member", f"n{n}={hosts[n]}")]
    first = ["node", "init", str(nodes.file("n0")), *members, "--admin", f"{hosts[0]}:8080"]
    done(*first, "--name-server", name_server, *SMALL_FLAGS)
    for n in (1, 2):
        like = ["--like", str(nodes.file("n0")), "--name", f"n{n}"]
        done("node", "init", str(nodes.file(f"n{n}")), *like, "--admin", f"{hosts[n]}:8080")
