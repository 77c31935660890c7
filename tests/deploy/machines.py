"""Machines of one's own: a network namespace and a folder each, and a switch that joins them.

    namespace n0 [eth0 10.0.0.10] ─veth─┐
    namespace ns [eth0 10.0.0.20] ─veth─┤ bridge, in a namespace too: this machine keeps its routes
    …                                    ┘

Names are as those of chaos/live/namespaces.py, which removes what a process that is gone left.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from chaos.drivers.tools import run_tool
from chaos.live import namespaces
from tests.waiting import limit


def why_not() -> str:
    """Why there can be no machines here, "needs …"; "" when there can."""
    return namespaces.why_not()


@dataclass(slots=True)
class Machines:
    """Machines by name, and the processes that go on there, by the machine's name."""

    folder: Path
    addresses: Mapping[str, str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def at(self, machine: str) -> Path:
        """The folder in which its commands run."""
        return self.folder / machine

    def log(self, machine: str) -> str:
        """What its process said so far."""
        return (self.folder / f"{machine}.txt").read_text("utf-8", "replace")

    def start(self, machine: str, *words: str) -> None:
        """A command of `dledger` that goes on."""
        with (self.folder / f"{machine}.txt").open("ab") as log:
            self.processes[machine] = subprocess.Popen(
                self._command(machine, *words),
                cwd=self.at(machine),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def run(self, machine: str, *words: str, stdin: str = "") -> tuple[int, str]:
        """A command of `dledger` there: its exit code, and what it said."""
        ended = subprocess.run(
            self._command(machine, *words),
            cwd=self.at(machine),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit(60),
            check=False,
        )
        return ended.returncode, ended.stdout

    def done(self, machine: str, *words: str, stdin: str = "") -> str:
        """The same for one that must succeed: what it said."""
        code, said = self.run(machine, *words, stdin=stdin)
        assert code == 0, said
        return said

    def kill(self, machine: str) -> None:
        """SIGKILL to its process, and wait."""
        process = self.processes.pop(machine)
        process.kill()
        process.wait()

    def _command(self, machine: str, *words: str) -> list[str]:
        dledger = [sys.executable, "-m", "cluster.cli", *words]
        return ["ip", "netns", "exec", _space(machine), *dledger]


def _space(machine: str) -> str:
    return f"dl{os.getpid()}-{machine}"


@contextmanager
def machines(folder: Path, addresses: Mapping[str, str]) -> Iterator[Machines]:
    """All of them, until the end; `addresses`: by the machine's name."""
    namespaces.sweep()
    found = Machines(folder, addresses)
    try:
        _wire(addresses)
        for name in addresses:
            found.at(name).mkdir()
        yield found
    finally:
        for name in list(found.processes):
            found.kill(name)
        namespaces.remove(f"dl{os.getpid()}")


def _wire(addresses: Mapping[str, str]) -> None:
    switch = _space("switch")
    run_tool("ip", "netns", "add", switch)
    run_tool("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
    run_tool("ip", "-n", switch, "link", "set", "bridge", "up")
    for number, (name, address) in enumerate(addresses.items()):
        space, cable = _space(name), f"port{number}"
        run_tool("ip", "netns", "add", space)
        veth = ["type", "veth", "peer", "name", "eth0", "netns", space]
        run_tool("ip", "-n", switch, "link", "add", cable, *veth)
        run_tool("ip", "-n", switch, "link", "set", cable, "master", "bridge", "up")
        run_tool("ip", "-n", space, "address", "add", f"{address}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            run_tool("ip", "-n", space, "link", "set", interface, "up")
