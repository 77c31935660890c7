"""Official clients with accounts while the brokers that they are connected to die and come back.

Each client sends and consumes all the while. Its connections end twice, its sends are retried, and
what it repeats is signed as before: heartbeats, pulls, offset commits. Bars: no broker refuses one
signature, every acknowledged message is consumed, sends go on after each death.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import cluster
from cluster.client import Account, ClientConfig
from cluster.local.launcher import LocalCluster

from .conftest import Case, cases
from .harness import toolchains
from .harness.running import Facts, Program, started
from .test_access import ACCOUNTS, ACCOUNTS_FILE

KEY, SECRET = "interop-full", "secret-of-full"
SENDS_PER_SECOND = 20
ENOUGH = 30  # messages of each client, after the start and after each death
CLIENT = Path(__file__).parent / "cpp" / "cpp_client.py"


def java(version: str) -> list[str]:
    options = [f"-Dacl.key={KEY}", f"-Dacl.secret={SECRET}"]
    return [*toolchains.java(version), *options, "interop.Failover", "{}", "{}", "{}"]


def with_account(command: list[str]) -> list[str]:
    return [*command, "{}", "{}", "{}", KEY, SECRET]


def cpp() -> list[str]:
    if sys.platform != "linux" or importlib.util.find_spec("rocketmq") is None:
        raise toolchains.Missing("needs the package rocketmq, which holds a library for Linux")
    return [sys.executable, str(CLIENT), "{}", "failover", "{}", "{}", KEY, SECRET]


COMMANDS: dict[str, Callable[[], list[str]]] = {
    "Java 4.9.8": lambda: java("4.9.8"),
    "Java 5.5.0": lambda: java("5.5.0"),
    "Go 2.1.2": lambda: with_account([*toolchains.go(), "failover"]),
    "ali-ons 3.12.0": lambda: with_account(toolchains.node("failover.js")),
    "C++ 0.4.4": cpp,
}
"""By column of the matrix. Where `{}` stands come name server, topic and sends per second."""

ALL = [Case("reconnects", "acl_reconnect", name) for name in COMMANDS]


@dataclass(slots=True)
class Outcome:
    """What became of all clients in one run."""

    facts: dict[str, Facts] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    refused: list[dict[str, int]] = field(default_factory=list)


def topic_of(client: str) -> str:
    return "Again_" + "".join(letter for letter in client if letter.isalnum())


def create(local: LocalCluster) -> None:
    async def work() -> None:
        config = ClientConfig(account=Account(KEY, SECRET))
        async with cluster.connect(local.nameserver, config) as client:
            for name in COMMANDS:
                await client.admin().create_topic(topic_of(name), 4)

    asyncio.run(work())


def refused(local: LocalCluster) -> dict[str, int]:
    """How many requests each replica refused for their signature since it started."""
    statuses = {name: status for name, status in local.statuses().items() if status}
    return {name: int(status["signatures_refused"]) for name, status in statuses.items()}


@pytest.fixture(scope="module")
def outcome(
    make_session_cluster: Callable[..., LocalCluster], tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    found, folder = Outcome(), tmp_path_factory.mktemp("reconnects")
    commands = {}
    for name, command in COMMANDS.items():
        try:
            commands[name] = command()
        except toolchains.Missing as missing:
            found.missing[name] = str(missing)
    if commands:
        file = folder / "plain_acl.yml"
        file.write_text(ACCOUNTS)
        settings = {ACCOUNTS_FILE: str(file), "broker.cluster_secret": "one for all"}
        local = make_session_cluster(settings=settings, groups=2)
        create(local)
        with ExitStack() as stack:
            programs = {}
            for name, command in commands.items():
                values = iter((local.nameserver, topic_of(name), str(SENDS_PER_SECOND)))
                line = [next(values) if word == "{}" else word for word in command]
                home = folder / topic_of(name)
                programs[name] = stack.enter_context(started(line, home))
            go_on(programs)
            for group in ("", "broker-b"):
                found.refused.append(refused(local))
                leader = local.leader(group)
                assert leader is not None
                local.kill(leader)
                local.start(leader)
                local.wait_ready()
                go_on(programs)
            found.facts = {name: program.ask("stop") for name, program in programs.items()}
            found.refused.append(refused(local))
    for name, facts in found.facts.items():
        print(f"{name}: {facts['sent']} sent, {facts['failed']} failed, {facts['received']} came")
    return found


def go_on(programs: dict[str, Program]) -> None:
    """Each has sent and consumed enough since now."""
    before = {name: program.ask("mark") for name, program in programs.items()}
    for name, program in programs.items():
        for what in ("acked", "received"):
            goal = before[name][what] + ENOUGH
            program.until(lambda counts, what=what, goal=goal: counts[what] >= goal, 60.0)


@pytest.mark.timeout(300)  # two deaths, and up to 45 s until the slowest consumer has everything
@pytest.mark.parametrize("case", cases(ALL))
def test_reconnects(case: Case, outcome: Outcome) -> None:
    if case.version in outcome.missing:
        pytest.skip(outcome.missing[case.version])
    assert [one for counts in outcome.refused for one in counts.values() if one] == []
    facts = outcome.facts[case.version]
    acked = {one["id"] for one in facts["acks"]}
    assert len(acked) == facts["acked"] >= 3 * ENOUGH
    assert acked <= set(facts["received_ids"])
    for failure in facts["failures"]:  # the connection may end under a send; nothing else
        assert "permission" not in failure["error"].lower(), failure
        assert "signature" not in failure["error"].lower(), failure
    assert facts["failed"] <= SENDS_PER_SECOND * 5, facts["failures"][:3]
