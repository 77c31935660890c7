"""Three nodes with accounts under our load and a stock one, while a test changes them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

import cluster
from cluster.client import ClientConfig, Tls
from cluster.client.config import Account
from tests.integration.loads import Load, OwnLoad, stock_load
from tests.integration.nodes_by_hand import SMALL, ByHand, by_hand, dledger, done
from tests.waiting import eventually

NODES = ("n0", "n1", "n2")
CHIEF, WRITER, SECRET, NEW = "the-chief", "a-writer", "drawn-for-this-test", "drawn-after-that"
OWN, STOCK, OWN_LATER, STOCK_LATER = "Own", "Stock", "OwnLater", "StockLater"
RIGHTS = ["--default-topic", "PUB|SUB", "--default-group", "PUB|SUB"]
#: A node that stops gives its clients the time that it has as delivered.
SETTINGS = {name: value for name, value in SMALL.items() if name != "broker.drain_seconds"}
FLAGS = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]


class Release(Protocol):
    """By which commands and nodes are run."""

    def done(self, *arguments: str) -> str: ...
    def run(self, nodes: ByHand, name: str) -> None: ...
    def name_server(self, nodes: ByHand, address: str, *options: str) -> None: ...


class Today:
    """This checkout."""

    def done(self, *arguments: str) -> str:
        """A command that must succeed."""
        return done(*arguments)

    def run(self, nodes: ByHand, name: str) -> None:
        """Start a node."""
        nodes.run(name)

    def name_server(self, nodes: ByHand, address: str, *options: str) -> None:
        """Start one, and wait until it listens."""
        module = "cluster.local.nameserver_main"
        nodes.start("ns", module, "--listen", address, *options)


@dataclass(slots=True)
class Group:
    """The nodes, and the load on them; `acknowledged`: by ended loads, ours and stock."""

    nodes: ByHand
    release: Release
    nameserver: str
    admin: list[str]
    config: ClientConfig
    stack: AsyncExitStack
    acknowledged: list[int] = field(default_factory=lambda: [0, 0])
    load: Load | None = None
    loads: list[Load] = field(default_factory=list)

    async def begin(self, secret: str, own: str = OWN, stock: str = STOCK) -> None:
        """Begin load on these topics by clients that sign with that secret; then end the former."""
        former = self.load
        self.config = replace(self.config, account=Account(WRITER, secret))
        options = [f"-Dacl.key={WRITER}", f"-Dacl.secret={secret}"]
        if self.config.tls:
            authority = self.config.tls.authority
            options += ["-Dtls.enable=true", "-Dtls.test.mode.enable=false"]
            options += ["-Dtls.client.authServer=true", f"-Dtls.client.trustCertPath={authority}"]
        stack, home = self.stack, self.nodes.folder / stock
        client = await stack.enter_async_context(cluster.connect(self.nameserver, self.config))
        started = stock_load(self.nameserver, stock, home, options)
        foreign = await asyncio.to_thread(stack.enter_context, started)
        self.load = Load(OwnLoad(client, own), foreign)
        self.loads.append(self.load)
        self.load.begin()
        await self.more("at the beginning")
        if former is not None:
            await former.more("beside the next ones")
            await self.end(former)

    async def aclose(self) -> None:
        """Whatever became of the test, no client goes on."""
        for load in self.loads:
            await load.cancel()

    async def end(self, load: Load | None = None) -> None:
        """End a load, the present one unless it is given, and judge it."""
        for place, count in enumerate(await (load or self.load).end()):  # type: ignore[union-attr]
            self.acknowledged[place] += count

    async def more(self, whence: str) -> None:
        """Wait until each client has some more sends acknowledged."""
        assert self.load is not None
        await self.load.more(whence)

    async def restart(self, name: str, release: Release) -> None:
        """Stop it as an operator does, start it by that release, wait until it serves."""
        assert await asyncio.to_thread(self.nodes.stop, name) == 0
        release.run(self.nodes, name)
        await asyncio.to_thread(self.nodes.serves, name)
        await self.more(f"behind the restart of {name}")

    async def lead(self, name: str) -> None:
        async def moved() -> bool:
            return (await self.said("leader", "move", "broker-a", name))[0] == 0

        await eventually(moved, f"{name} leads", pause=0.5)

    async def said(self, *arguments: str) -> tuple[int, str]:
        """By a command of this release that signs as the administrator."""
        return await asyncio.to_thread(dledger, *arguments, *self.admin)


async def began(
    stack: AsyncExitStack, folder: Path, release: Release, hosts: Mapping[str, str], tls: bool
) -> Group:
    """Made and started by that release; accounts of the log are on."""
    nodes = stack.enter_context(by_hand(folder))
    nameserver = f"{hosts['ns']}:9876"
    own, shown = encrypted(folder, hosts) if tls else ([], [])
    release.name_server(nodes, nameserver, *shown)
    members = [part for name in NODES for part in ("--member", f"{name}={hosts[name]}")]
    for name in NODES:
        like = ["--like", str(nodes.file("n0")), "--name", name]
        rest = like if name != "n0" else [*members, "--name-server", nameserver, *FLAGS]
        made = ["node", "init", str(nodes.file(name)), *rest, "--admin", f"{hosts[name]}:8080"]
        await asyncio.to_thread(release.done, *made, *own)
    for name in NODES:
        release.run(nodes, name)
    for name in NODES:
        await asyncio.to_thread(nodes.serves, name)
    secret, chief = folder / "secret", folder / "chief.yml"
    secret.write_text(SECRET)
    chief.write_text(f"accessKey: {CHIEF}\nsecretKey: {SECRET}\n")
    trusted = Tls(str(folder / "tls" / "authority.pem")) if tls else None
    server = ["-a", nameserver, *(["--tls", trusted.authority] if trusted else [])]
    given, admin = ["--secret-file", str(secret)], [*server, "--account", str(chief)]

    def accounts() -> None:
        release.done("topic", "create", OWN, "-q", "4", *server)
        release.done("account", "create", CHIEF, "--admin", *given, *server)
        release.done("account", "create", WRITER, *RIGHTS, *given, *admin)
        for topic in (STOCK, OWN_LATER, STOCK_LATER):
            release.done("topic", "create", topic, "-q", "4", *admin)

    await asyncio.to_thread(accounts)
    return Group(nodes, release, nameserver, admin, ClientConfig(tls=trusted), stack)


def encrypted(folder: Path, hosts: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Certificates of all; the options of a node, and of the name server."""
    tls = folder / "tls"
    named = [part for name, host in hosts.items() for part in ("--node", f"{name}={host}")]
    done("tls", "init", str(tls), *named)
    own = ["--certificates", str(tls), "--set", "broker.tls_mode=enforcing"]
    return own, ["--tls-certificate", str(tls / "ns.pem"), "--tls-key", str(tls / "ns.key")]


@asynccontextmanager
async def loaded(
    folder: Path,
    new_address: Callable[[], str],
    release: Release | None = None,
    *,
    tls: bool = False,
) -> AsyncIterator[Group]:
    """With our load, and a stock one where it can run; judged at the end."""
    async with AsyncExitStack() as stack:
        hosts = {name: new_address() for name in ("ns", *NODES)}
        group = await began(stack, folder, release or Today(), hosts, tls)
        async with contextlib.aclosing(group):
            await group.begin(SECRET)
            yield group
            await group.end()
        own, stock = group.acknowledged
        print(f"own: {own} sent, 0 failed; stock Java: {stock} sent, 0 failed")
        await alike(group.nodes)


async def alike(nodes: ByHand) -> None:
    """All three have the same log, byte for byte.

    The leader stops last: one that stops before the others hands its lead over, and the next leader
    begins with an entry that the former does not get any more.
    """

    def told(name: str) -> dict[str, Any]:
        code, said = dledger("node", "status", str(nodes.file(name)), "-o", "json")
        assert code == 0, said
        (row,) = rows if isinstance(rows := json.loads(said), list) else [rows]
        return cast("dict[str, Any]", row)

    def ends() -> set[tuple[int, int]]:
        rows = [told(name) for name in NODES]
        return {(row["last_index"], row["applied_index"]) for row in rows}

    await eventually(lambda: len(ends()) == 1, "all have applied the same", pause=0.2)
    for name in sorted(NODES, key=lambda name: told(name)["role"] == "leader"):
        assert await asyncio.to_thread(nodes.stop, name) == 0
    logs = set()
    for name in NODES:
        (data,) = nodes.file(name).parent.rglob("dledger-*/data")
        files = [(one.name, one.read_bytes()) for one in sorted(data.iterdir())]
        logs.add(hashlib.sha256(repr(files).encode()).hexdigest())
    assert len(logs) == 1
