"""Wrong uses of `dledger`, each done for real: exit code, id, one sentence, one thing to try.

A use may need files, which `FILES` makes in its folder; `{at}` is that folder. The last line of
standard error is what an operator reads:

    dledger[ID]: what happened; one thing to try
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from cluster.commands.connecting import Reach
from cluster.commands.doctor import cluster_alerts
from cluster.nameserver.server import NameServer
from tests.cluster.broker.harness import Brokers
from tests.command_line import run
from tests.waiting import eventually

from .node_process import (
    ADMIN_PORT,
    CLIENT_PORT,
    PEER_PORT,
    NodeProcess,
    name_server_at_taken_port,
)

FAILED, USAGE, NOT_THERE, RETRY = 1, 2, 3, 4
LINE = re.compile(r"dledger\[([a-z0-9-]+)\]: (.{10,}?); (.{3,})")
#: Nothing listens there.
DEAF = "127.0.0.250:1"
NODE = '[raft]\nnode_id="n0"\npeers={n0="127.0.0.1:1"}\n[broker]\nroot="x"\n'
FILES = {
    "unknown.conf": "brokerClusterName=c\nflushDiskTipe=ASYNC_FLUSH\n",
    "unknown.toml": NODE + "listen_prt=5\n",
    "broken.toml": "not toml [[",
    "text.toml": NODE.replace('node_id="n0"', 'node_id="n0"\nheartbeat_ms="fast"'),
    "no_secret.yml": "accessKey: a\n",
    "no.pem": "no certificate",
    "empty.secret": "",
    "old.conf": "listenPort=none\n",
}


class Use(NamedTuple):
    """A command line, and how it ends: exit code, id, and a pattern of the sentence."""

    line: str
    code: int
    id: str
    said: str


ALONE = {
    "no cluster here": Use("ps", NOT_THERE, "no-cluster", "start one with dledger up"),
    "no such command": Use("tpoic list", USAGE, "usage", "No such command"),
    "an argument is missing": Use("topic create", USAGE, "usage", "Missing argument"),
    "no such option": Use("topic list --al", USAGE, "usage", "No such option"),
    "too many nodes": Use("up -n 99", USAGE, "usage", "99 is not in the range"),
    "a folder that cannot be": Use("up --root /dev/null/x", FAILED, "no-folder", "name a folder"),
    "unknown setting": Use(
        "up --set raft.heartbeat=1", USAGE, "settings-error", "did you mean raft.heartbeat_ms"
    ),
    "a setting without a value": Use(
        "config show --set raft", USAGE, "settings-error", "not of the form section.key=value"
    ),
    "settings that exclude each other": Use(
        "up --set raft.heartbeat_ms=400", USAGE, "settings-error", "heartbeat_interval 0.4"
    ),
    "bad broker.conf key": Use(
        "config check {at}/unknown.conf", USAGE, "settings-error", "did you mean flushDiskType"
    ),
    "bad key in a settings file": Use(
        "config check {at}/unknown.toml", USAGE, "settings-error", "did you mean broker.listen_port"
    ),
    "a settings file of no format": Use(
        "config check {at}/broken.toml", USAGE, "settings-error", "is not valid TOML"
    ),
    "a text for a number": Use(
        "config check {at}/text.toml", USAGE, "settings-error", "whole number"
    ),
    "no such settings file": Use("node run {at}/none.toml", USAGE, "usage", "does not exist"),
    "bad namesrv.conf": Use("nameserver --config {at}/old.conf", USAGE, "usage", "listenPort"),
    "no namesrv.conf": Use("nameserver --config {at}/no.conf", USAGE, "usage", "cannot be read"),
    "a name server without an address": Use("nameserver", USAGE, "usage", "--listen is needed"),
    "a name server open to all": Use(
        "nameserver --listen 192.0.2.1:9876",
        USAGE,
        "name-server-config-error",
        "say --open-to-network",
    ),
    "no address": Use("topic list -a here", USAGE, "client-config-error", "write host:port"),
    "name server down": Use(f"topic list -a {DEAF}", RETRY, "not-connected", "check the address"),
    "name server down, and a send": Use(
        f"produce t -a {DEAF}", RETRY, "not-connected", "check the address"
    ),
    "no account file": Use(
        f"topic list -a {DEAF} --account {{at}}/none.yml",
        USAGE,
        "client-config-error",
        "cannot be read",
    ),
    "an account file without a secret": Use(
        f"topic list -a {DEAF} --account {{at}}/no_secret.yml",
        USAGE,
        "client-config-error",
        "has no secretKey",
    ),
    "a certificate that is none": Use(
        f"topic list -a {DEAF} --tls {{at}}/no.pem",
        USAGE,
        "client-config-error",
        "give a PEM file",
    ),
    "no certificates to renew": Use(
        "tls renew {at}", FAILED, "certificate-error", "dledger tls init"
    ),
    "no such profile": Use("topic list --profile no", NOT_THERE, "not-there", "profile list shows"),
    "no store": Use("inspect {at}", USAGE, "no-store", "give the folder of a stopped node"),
    "no store to import": Use("import {at}", USAGE, "store-usage-error", "is no store"),
    "no backup": Use("restore {at}", NOT_THERE, "not-there", "dledger backup run makes one"),
    "no time": Use(
        f"group reset g --topic t --to soon -a {DEAF}", USAGE, "usage", "nor a time like"
    ),
    "no such setting to change": Use(
        f"config set no 1 -a {DEAF}", NOT_THERE, "not-there", "dledger config show lists"
    ),
    "a shell without completion": Use("completion tcsh", USAGE, "usage", "'bash', 'zsh', 'fish'"),
    "an option that a bench has not": Use(
        "bench disk colour=red", USAGE, "usage", "--help lists the options"
    ),
    "a text for a bench's number": Use(
        "bench send seconds=x", USAGE, "usage", "must be of the kind"
    ),
    "unknown member kind": Use("member join", USAGE, "usage", "No such command"),
}
#: Against one node that runs.
SERVED = {
    "no such topic": Use("topic describe no", NOT_THERE, "topic-not-found", "topic list shows"),
    "no such topic to read": Use("consume no -n 1", NOT_THERE, "topic-not-found", "topic list"),
    "a name that is none": Use("topic create a/b", FAILED, "invalid-request", "use these"),
    "a topic that exists": Use("topic create T -q 7", FAILED, "failed", "dledger topic alter T"),
    "too many queues": Use("topic alter T -q 99999", FAILED, "invalid-request", "choose 1 to"),
    "nothing to change": Use("topic alter T", USAGE, "usage", "give -q, --durability or --perm"),
    "a topic that is closed to sends": Use(
        "produce CLOSED", NOT_THERE, "topic-not-found", "see `dledger topic describe CLOSED`"
    ),
    "no such group": Use("group describe no", NOT_THERE, "group-not-found", "group list shows"),
    "no such group to change": Use(
        "group alter no --no-consume", NOT_THERE, "group-not-found", "group list shows"
    ),
    "a deletion that was not confirmed": Use("topic delete T", USAGE, "usage", "--yes deletes it"),
    "no such message": Use("message find T -k no", NOT_THERE, "not-there", ".+"),
    "no such node to lead": Use("leader move broker-a n9", FAILED, "invalid-request", "n9"),
    "no such broker name": Use("leader move no n0", RETRY, "not-now", "no broker name no"),
    "no such member": Use(
        "member remove n9 --yes", FAILED, "invalid-request", "dledger member list shows"
    ),
    "TLS where none is spoken": Use(
        "topic list --tls system", RETRY, "not-connected", "that TLS is spoken there"
    ),
    "a dead letter of nobody": Use("dlq show no", NOT_THERE, "not-there", "group list"),
}


def complaint(use: Use, code: int, text: str) -> str:
    """What is wrong with the end of a use; empty when all is well."""
    last = (text.strip().splitlines() or [""])[-1]
    found = LINE.fullmatch(last)
    if "Traceback" in text:
        return f"a traceback: {text}"
    if found is None:
        return f"not `dledger[id]: event; advice`: {last}"
    if (code, found[1]) != (use.code, use.id):
        return f"{code} {found[1]} instead of {use.code} {use.id}: {last}"
    if not re.search(use.said, last):
        return f"nothing of {use.said!r}: {last}"
    advice = found[3]
    return f"two sentences: {last}" if re.search(r"[a-z]{3}\. [A-Z]", advice) else ""


def test_there_are_forty_and_more() -> None:
    assert len({*ALONE, *SERVED}) == len(ALONE) + len(SERVED) >= 40


@pytest.mark.parametrize("name", ALONE)
def test_without_a_cluster(name: str, tmp_path: Path) -> None:
    use = ALONE[name]
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    env = {**os.environ, "DLEDGER_HOME": str(tmp_path / "home"), "NAMESRV_ADDR": ""}
    found = run(*use.line.format(at=tmp_path).split(), env=env, stdin="x\n")
    assert complaint(use, found.returncode, found.stderr) == ""


async def test_against_a_node(tmp_path: Path, new_address: Callable[[], str]) -> None:
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        brokers = Brokers(tmp_path, [new_address()], {"name_servers": (server.address,)})
        await brokers.start()

        async def say(line: str) -> tuple[int, str]:
            arguments = [*line.split(), "-a", server.address]
            found = await asyncio.to_thread(run, *arguments, env=dict(os.environ), stdin="x\n")
            return found.returncode, found.stderr

        async def is_registered() -> bool:
            return (await say("topic create T"))[0] == 0

        try:
            await eventually(is_registered, "a topic", pause=0.05)
            assert (await say("topic create CLOSED --perm read"))[0] == 0
            said = {name: complaint(use, *await say(use.line)) for name, use in SERVED.items()}
        finally:
            await brokers.close()
    assert {name: text for name, text in said.items() if text} == {}


PORTS = {"client": CLIENT_PORT, "peer": PEER_PORT, "admin": ADMIN_PORT}


@pytest.mark.parametrize("port", PORTS)
def test_a_node_whose_port_is_taken(port: str, node: NodeProcess) -> None:
    with socket.create_server((node.host, PORTS[port])):
        ended = node.fails()
    use = Use("", FAILED, "port-taken", str(PORTS[port]))
    assert complaint(use, ended.code, ended.sentence) == ""


def test_a_name_server_whose_port_is_taken(free_address: str) -> None:
    ended = name_server_at_taken_port(free_address)
    use = Use("", FAILED, "port-taken", "9876")
    assert complaint(use, ended.code, ended.text) == ""


async def test_a_node_whose_clock_is_off(tmp_path: Path, new_address: Callable[[], str]) -> None:
    """`dledger doctor` names it; neither the other nodes, nor the machine that asks."""
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        hosts = [new_address() for _ in range(3)]
        brokers = Brokers(tmp_path, hosts, {"name_servers": (server.address,)})
        await brokers.start()
        try:
            for off, words in ((90_000, "90 s ahead of"), (-4_000_000, "4000 s behind"), (0, "")):
                node = brokers.nodes[1]
                assert node is not None
                ports = node.parts.admin_ports
                right = ports.now_ms
                object.__setattr__(ports, "now_ms", lambda off=off, right=right: right() + off)

                async def told(words: str = words) -> bool:
                    found = await cluster_alerts(Reach(server.address))
                    clocks = [one for one in found if one["id"] == "clock"]
                    if not words:
                        return not clocks
                    (one,) = clocks
                    assert one["subject"] == "n1"
                    assert "chronyc" in one["try"]
                    return words in one["message"]

                await eventually(told, f"the alert {words!r}")
                object.__setattr__(ports, "now_ms", right)
        finally:
            await brokers.close()


def test_a_node_that_is_there_already(node: NodeProcess, new_address: Callable[[], str]) -> None:
    with node.running():
        ended = NodeProcess(node.folder, new_address()).fails()
    use = Use("", RETRY, "store-locked", "stop the other one first")
    assert complaint(use, ended.code, ended.sentence) == ""


def _of_another_cluster(node: NodeProcess) -> tuple[str, ...]:
    return ("--set", "raft.cluster_id=another")


def _never_formatted(node: NodeProcess) -> tuple[str, ...]:
    shutil.rmtree(node.root)
    return ()


def _no_host(node: NodeProcess) -> tuple[str, ...]:
    secret = ("--set", "broker.cluster_secret=long enough")
    return ("--set", "broker.listen_host=nowhere.invalid", *secret)


def _open_without_a_secret(node: NodeProcess) -> tuple[str, ...]:
    return ("--set", "raft.listen=0.0.0.0:20911")


STARTS: dict[str, tuple[Callable[[NodeProcess], tuple[str, ...]], Use]] = {
    "another cluster's folder": (
        _of_another_cluster,
        Use("", FAILED, "wrong-identity", "belongs to cluster"),
    ),
    "never formatted": (_never_formatted, Use("", FAILED, "not-formatted", "format")),
    "a host that is not there": (_no_host, Use("", FAILED, "no-such-address", "nowhere.invalid")),
    "open, and no secret": (_open_without_a_secret, Use("", USAGE, "settings-error", "secret")),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_node_that_cannot_start(name: str, node: NodeProcess) -> None:
    prepare, use = STARTS[name]
    ended = node.fails(*prepare(node))
    assert complaint(use, ended.code, ended.sentence) == ""
