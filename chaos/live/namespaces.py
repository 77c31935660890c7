"""A network of its own for every node: namespaces, veth pairs, one bridge; as root.

    namespace n0 [eth0 127.251.4.11] ─veth─┐
    namespace n1 [eth0 127.251.4.12] ─veth─┤ bridge [127.251.4.1]   name server, clients, we
    namespace n2 [eth0 127.251.4.13] ─veth─┘

Nodes dial each other directly, so what is lost is lost below the kernel's own TCP. Addresses are
loopback ones, which leave no machine and which nodes take without a secret: a route in the table
`local` sends a block of them over the bridge, and `route_localnet` lets these interfaces, and no
others, carry them. A node's process enters its namespace when it starts (`enter`), before it has a
socket.

Names begin with `dl<process id>`; what a process that is gone left goes when the next begins.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from chaos.drivers.tools import run_tool

#: Names the namespace that a node's process enters; not set: it stays where it is.
VARIABLE = "DLEDGER_CHAOS_NAMESPACE"
MOUNTS = Path("/run/netns")
INTERFACES = Path("/sys/class/net")
TOOLS = ("ip", "nft", "tc")
#: How long what was refused is left alone before it is asked again; 2.2 s in all.
REMOVAL_PAUSES_SECONDS = (0.02, 0.1, 0.3, 0.6, 1.2)
_CLONE_NEWNET = 0x40000000


def why_not() -> str:
    """Why there can be no namespaces here; "" when there can."""
    if os.geteuid():
        return "needs root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)} (packages nftables, iproute2)"
    name = f"dl{os.getpid()}-probe"
    try:
        run_tool("ip", "netns", "add", name)
        try:
            run_tool("ip", "netns", "exec", name, "nft", "add table inet probe")
        finally:
            run_tool("ip", "netns", "delete", name)
    except OSError as error:
        return f"needs the right to make network namespaces ({error})"
    return ""


def enter() -> None:
    """Let this process live in the namespace that $DLEDGER_CHAOS_NAMESPACE names, if it does.

    Threads follow the one that made them: call it before there are others. Raises OSError.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        return
    with (MOUNTS / name).open() as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {name}")


class Namespaces:
    """The networks of some nodes, for as long as `open` … `close`.

    Attributes:
        block: the first three numbers of all addresses.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        self.block = _free_block()
        self._prefix = f"dl{os.getpid()}"
        self._nodes = list(nodes)

    @property
    def hosts(self) -> list[str]:
        """The name server's address, then one per node: as `cluster.local.plan` takes them."""
        nodes = (f"{self.block}.{11 + number}" for number in range(len(self._nodes)))
        return [self.bridge_host, *nodes]

    @property
    def bridge_host(self) -> str:
        """Where clients come from."""
        return f"{self.block}.1"

    def host(self, node: str) -> str:
        """A node's address."""
        return self.hosts[1 + self._nodes.index(node)]

    def name(self, node: str) -> str:
        """A node's namespace."""
        return f"{self._prefix}-{node}"

    def run(self, node: str, *words: str) -> str:
        """Runs a tool in a node's namespace and returns its output. Raises OSError."""
        return run_tool("ip", "netns", "exec", self.name(node), *words)

    def open(self) -> None:
        """Creates the namespaces and their bridge; removes all of it again if a step fails. Raises
        OSError."""
        sweep()
        try:
            run_tool("ip", "link", "add", self._bridge, "type", "bridge")
            for words in _carrying(self._bridge, self.block, self.bridge_host):
                run_tool(*words)
            for number, node in enumerate(self._nodes):
                self._plug_in(f"{self._prefix}v{number}", node)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Removes the namespaces and links that exist. Raises OSError if some of them stay."""
        remove(self._prefix)

    @property
    def _bridge(self) -> str:
        return f"{self._prefix}br"

    def _plug_in(self, cable: str, node: str) -> None:
        name = self.name(node)
        run_tool("ip", "netns", "add", name)
        run_tool("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        run_tool("ip", "link", "set", cable, "master", self._bridge, "up")
        self.run(node, "ip", "link", "set", "lo", "up")
        for words in _carrying("eth0", self.block, self.host(node)):
            self.run(node, *words)


def _carrying(interface: str, block: str, host: str) -> list[tuple[str, ...]]:
    """Commands that let an interface carry a block of loopback addresses, `host` being its own."""
    allowed = f"/proc/sys/net/ipv4/conf/{interface}/route_localnet"
    route = ("ip", "route", "add", f"{block}.0/24", "dev", interface, "src", host)
    return [
        ("sh", "-c", f"echo 1 > {allowed}"),
        ("ip", "link", "set", interface, "up"),
        ("ip", "address", "add", f"{host}/32", "dev", interface),
        (*route, "table", "local"),
    ]


def sweep() -> None:
    """Removes namespaces and links of processes that no longer run."""
    names = [path.name for folder in (MOUNTS, INTERFACES) for path in _listed(folder)]
    owners = {found[1] for name in names if (found := re.match(r"dl(\d+)", name))}
    for owner in owners:
        if not Path(f"/proc/{owner}").exists():
            remove(f"dl{owner}")


def remove(prefix: str) -> None:
    """Removes all namespaces and links with `prefix`. Both ends of a cable are tried, although
    either takes the other along, so that a half-finished start leaves no links.

    A refused removal is tried again (several runs may sweep up after the same process), and one
    that stays does not keep the others from being removed. Raises OSError, which names the rest and
    why.
    """
    refused: list[OSError] = []
    for pause in (*REMOVAL_PAUSES_SECONDS, 0.0):
        refused = [error for words in _removals(prefix) for error in _tried(*words)]
        left = [words[-1] for words in _removals(prefix)]
        if not left:
            return
        time.sleep(pause)
    reasons = "; ".join(str(error) for error in refused)
    raise OSError(f"networks of a run stay: {', '.join(left)} ({reasons or 'not refused'})")


def _removals(prefix: str) -> list[tuple[str, ...]]:
    """Returns the commands that remove the namespaces and links with `prefix` that exist now."""
    spaces = [path.name for path in _listed(MOUNTS) if path.name.startswith(f"{prefix}-")]
    links = [path.name for path in _listed(INTERFACES)]
    links = [name for name in links if re.fullmatch(rf"{prefix}(br|v\d+)", name)]
    return [
        *(("ip", "netns", "delete", name) for name in spaces),
        *(("ip", "link", "delete", name) for name in links),
    ]


def _tried(*words: str) -> list[OSError]:
    """Run a tool; why it failed, if it did."""
    try:
        run_tool(*words)
    except OSError as error:
        return [error]
    return []


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def _free_block() -> str:
    """Three numbers that no interface of this machine has."""
    taken = run_tool("ip", "-4", "-o", "address", "show")
    blocks = [f"127.251.{number}" for number in range(1, 255)]
    return random.choice([block for block in blocks if f" {block}." not in taken])
