"""Many groups in one process: one port, as many threads as for one, and each its own failures."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from commitlog.errors import StoreLocked
from dledger import (
    Entry,
    Host,
    LogUsageError,
    NodeFailed,
    OutcomeUnknown,
    ReplicatedLog,
    ReplicatedNode,
    ReplicatedStateMachine,
    StateMachineFailed,
)
from dledger.membership.handshake import RefusalReason
from dledger.objects.counter import ReplicatedCounter
from dledger.runtime import peer_port
from tests.virtual_loop import LoopClock
from tests.waiting import eventually, limit

from .hostile_names import HOSTILE
from .hosts import Hosts, leader_of


@dataclass
class Adder(ReplicatedStateMachine[int, int]):
    """Adds, and fails at thirteen."""

    total: int = 0

    def apply(self, entry: Entry[int]) -> int:
        if entry.command == 13:
            raise ZeroDivisionError("thirteen")
        self.total += entry.command
        return self.total


class Broken:
    """A sync that the disk refuses."""

    done = cancelled = False

    def run(self) -> None:
        raise OSError(5, "Input/output error")


@pytest_asyncio.fixture
async def hosts(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Hosts]:
    made = Hosts(tmp_path, new_address)
    await made.start()
    yield made
    await made.close()


def threads_of_hosts() -> int:
    return sum(thread.name.startswith("dledger-") for thread in threading.enumerate())


async def test_groups_are_apart_and_any_host_takes_commands(hosts: Hosts) -> None:
    groups = {name: await hosts.open(name, Adder) for name in ("a", "b")}
    for number, nodes in enumerate(groups.values(), start=1):
        for node in nodes.values():
            await node.propose(number)
    for number, nodes in enumerate(groups.values(), start=1):
        for node in nodes.values():
            machine = node.machine
            assert isinstance(machine, Adder)
            assert await node.read(lambda machine=machine: machine.total) == 3 * number
    assert hosts.hosts["n0"].groups == ("a", "b")


async def test_threads_do_not_grow_with_groups(hosts: Hosts) -> None:
    await leader_of(await hosts.open("g0", Adder))
    before = threads_of_hosts()
    for number in range(1, 3):
        await leader_of(await hosts.open(f"g{number}", Adder))
    assert threads_of_hosts() == before


async def test_a_host_that_goes_and_comes_back(hosts: Hosts) -> None:
    groups = {name: await hosts.open(name, Adder) for name in ("a", "b")}
    gone = (await leader_of(groups["a"])).config.node_id
    await hosts.stop(gone)
    for nodes in groups.values():
        del nodes[gone]
        for node in nodes.values():
            await node.propose(1)
    await hosts.start(gone)
    for name in groups:
        back = Adder()
        node = await hosts.open_on(gone, name, back)
        assert await node.propose(1) == 3


async def test_a_host_that_closes_hears_no_caller_meanwhile(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else peers would be refused group by group, and its log would say so."""
    node, refused = await hosts.open_on("n0", "a", Adder()), list[bool]()
    close = node.close

    async def closing() -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*hosts.configs["n0"].peers["n0"])
        refused.append(True)
        await close()

    monkeypatch.setattr(node, "close", closing)
    await hosts.stop("n0")
    assert refused == [True]


@pytest.mark.parametrize("how", [OSError(5, "Input/output error"), asyncio.CancelledError()])
async def test_a_group_that_cannot_close_leaves_no_other_running(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, how: BaseException
) -> None:
    host, before = hosts.hosts.pop("n0"), threads_of_hosts()
    sick, well = [await host.open(name, Adder(), create=True) for name in ("sick", "well")]

    async def close() -> None:
        raise how

    with monkeypatch.context() as patch:
        patch.setattr(sick, "close", close)
        with pytest.raises(type(how)):
            await host.close()
    await sick.close()
    with pytest.raises(NodeFailed):
        await well.propose(1)
    assert threads_of_hosts() < before


async def test_a_close_that_is_cancelled_closes_all_the_same(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, began, goes_on = hosts.hosts.pop("n0"), asyncio.Event(), asyncio.Event()
    node = await host.open("a", Adder(), create=True)
    close = node.close

    async def closing() -> None:
        began.set()
        await goes_on.wait()
        await close()

    monkeypatch.setattr(node, "close", closing)
    closes = asyncio.ensure_future(host.close())
    await began.wait()
    closes.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await closes
    with pytest.raises(NodeFailed):
        await node.propose(1)


async def test_a_group_that_is_closed_is_forgotten(hosts: Hosts) -> None:
    host = hosts.hosts["n0"]
    node = await host.open("a", Adder(), create=True)
    assert list(host._opened) == ["a"]
    await node.close()
    assert not host._opened


async def test_a_group_that_a_host_does_not_run_is_refused(
    hosts: Hosts, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so when that lasts: hosts open their groups in any order."""
    monkeypatch.setattr(peer_port, "NOT_OPEN_SECONDS", 0.3)
    await hosts.open_on("n1", "orders", Adder())
    with caplog.at_level(logging.WARNING):
        node = await hosts.open_on("n0", "oders", Adder())
        log = node.log

        def refused() -> bool:
            return log.status().links["n1/control"].refusal == RefusalReason.GROUP_NOT_OPEN

        await eventually(refused, "that n1 refuses it", 60)
        told = "n1: closed a connection: n1 does not run the group oders that n0 calls"
        await eventually(lambda: told in caplog.text, "that n1 says so", 60)
    assert "n0 → n1" not in caplog.text, "hosts that come up side by side fill no log"
    assert "open it there" in log.status().links["n1/control"].error
    for name in ("n1", "n2"):
        await hosts.open_on(name, "oders", Adder())
    await node.propose(1)


async def test_a_machine_that_raises_ends_its_group_only(hosts: Hosts) -> None:
    well = await hosts.open("well", Adder)
    sick = await hosts.hosts["n0"].open("sick", Adder(), create=True, members=["n0"])
    assert await sick.propose(1) == 1
    with pytest.raises((NodeFailed, OutcomeUnknown)):
        await sick.propose(13)
    assert isinstance(sick.failure, StateMachineFailed)
    for node in well.values():
        await node.propose(1)
        assert node.failure is None


async def test_a_mistake_in_what_is_shared_ends_every_group_of_that_host(hosts: Hosts) -> None:
    nodes = [await hosts.open(name, Adder) for name in ("a", "b")]
    parts = nodes[0]["n0"].log.driver.parts.host
    assert parts is not None

    def mistake() -> None:
        raise ZeroDivisionError("in what all share")

    parts._threads["files"].run(mistake)
    for group in nodes:
        node = group["n0"]
        await eventually(lambda node=node: node.failure is not None, "that it stops", 60)
        assert "in what all share" in str(node.failure)
        assert group["n1"].failure is None


async def test_a_disk_error_ends_that_groups_node_only(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick, well = await hosts.open("sick", Adder), await hosts.open("well", Adder)
    leader = await leader_of(sick)
    monkeypatch.setattr(leader.log.store, "begin_sync", Broken)
    leader.propose(1).add_done_callback(lambda done: done.exception())
    await eventually(lambda: leader.failure is not None, "that it stops", 60)
    assert "Input/output error" in str(leader.failure)
    monkeypatch.undo()
    for node in well.values():
        await node.propose(1)
    others = {name: node for name, node in sick.items() if node is not leader}
    await (await leader_of(others)).propose(1)


async def test_a_group_is_closed_and_opened_again(hosts: Hosts) -> None:
    nodes = await hosts.open("a", Adder)
    await nodes["n0"].propose(2)
    with pytest.raises(LogUsageError, match="open on n0 already"):
        await hosts.open_on("n0", "a", Adder())
    await nodes["n0"].close()
    assert hosts.hosts["n0"].groups == ()
    nodes["n0"] = await hosts.open_on("n0", "a", Adder())
    assert await nodes["n0"].propose(1) == 3
    assert nodes["n1"].failure is None


async def test_a_folder_is_made_beside_the_event_loop(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its syncs would make heartbeats of other groups late; and a caller may lose patience."""
    threads, goes_on, make = list[str](), threading.Event(), ReplicatedLog.format

    def slow(*args: Any, **named: Any) -> None:
        threads.append(threading.current_thread().name)
        assert goes_on.wait(limit(30))
        make(*args, **named)

    monkeypatch.setattr(ReplicatedLog, "format", slow)
    host = hosts.hosts["n0"]
    first = asyncio.ensure_future(host.open("a", Adder(), create=True, members=["n0"]))
    await eventually(lambda: threads, "that it has begun", 30)
    first.cancel()
    second = asyncio.ensure_future(host.open("a", Adder(), create=True, members=["n0"]))
    await asyncio.sleep(0)
    goes_on.set()
    assert await (await second).propose(1) == 1
    assert first.cancelled()
    assert len(threads) == 1
    assert threads[0] != threading.main_thread().name


def made_in(folder: str | Path) -> list[Path]:
    return list(Path(folder).glob("*"))


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_name_that_is_no_folders(hosts: Hosts, name: str) -> None:
    with pytest.raises(LogUsageError, match="cannot be a group's name"):
        await hosts.hosts["n0"].open(name, Adder(), create=True, members=["n0"])
    assert not made_in(hosts.configs["n0"].data_dir)


async def test_a_group_of_some_hosts(hosts: Hosts) -> None:
    machine = Adder()
    alone = await hosts.hosts["n2"].open("mine", machine, create=True, members=["n2"])
    assert await alone.propose(4) == 4
    with pytest.raises(ValueError, match="members names n7"):
        await hosts.hosts["n2"].open("other", Adder(), create=True, members=["n2", "n7"])


async def test_an_object_and_a_log_on_a_host(hosts: Hosts) -> None:
    host = hosts.hosts["n0"]
    counter = await host.open_object("hits", ReplicatedCounter, create=True, members=["n0"])
    assert await counter.add(3) == 3
    log = await host.open_log("plain", create=True, members=["n0"])
    await log.wait_for_leader()
    await eventually(lambda: log.applied >= 0, "its no-op", 60)
    index = await log.append(b"hello")
    assert (await log.read(index)).body == b"hello"


async def test_a_host_that_does_not_run(tmp_path: Path, hosts: Hosts) -> None:
    host = Host(hosts.configs["n0"], clock=LoopClock())
    with pytest.raises(NodeFailed, match="does not run"):
        await host.open("a", Adder(), create=True)
    with pytest.raises(OSError, match="cannot listen on"):
        await host.start()
    await host.close()


async def test_a_log_of_a_host_that_does_not_run_keeps_no_folder_locked(hosts: Hosts) -> None:
    early = Host(hosts.configs["n0"], clock=LoopClock())
    config = early.config_of("a", ["n0"])
    ReplicatedLog.format(config)
    log = ReplicatedLog(config, clock=LoopClock(), extend=early.share)
    with pytest.raises(NodeFailed, match="does not run"):
        await log.start()
    assert await hosts.hosts["n0"].open_log("a", members=["n0"])


async def test_a_log_and_a_node_that_share_a_host_end_with_it(hosts: Hosts) -> None:
    """Their threads and their port are gone: what stayed would take entries and never sync them."""
    host = hosts.hosts["n0"]
    configs = {name: host.config_of(name, ["n0"]) for name in ("a", "b")}
    for config in configs.values():
        ReplicatedLog.format(config)
    log = ReplicatedLog(configs["a"], clock=LoopClock(), extend=host.share)
    node = ReplicatedNode[int, int](configs["b"], Adder(), clock=LoopClock(), extend=host.share)
    await log.start()
    await node.start()
    assert await node.propose(2) == 2
    await hosts.stop("n0")
    with pytest.raises(NodeFailed, match="the host of the group a was closed"):
        await log.append(b"too late")
    with pytest.raises(NodeFailed, match="the host of the group b was closed"):
        await node.propose(1)
    async with ReplicatedLog(configs["a"], clock=LoopClock()) as alone:  # its folder is free
        assert alone.status().node.last.index >= 0
    await log.close()
    await node.close()


async def test_groups_of_a_host_with_a_seed_draw_other_numbers(hosts: Hosts) -> None:
    """Else they stand for election, and dial, in the same moments."""
    host = hosts.hosts["n1"]
    assert host.config.seed == 1
    seeds = {host.config_of(name).seed for name in ("a", "b", "c")}
    assert len(seeds) == 3
    assert {host.config_of(name).seed for name in ("a", "b", "c")} == seeds
    unseeded = Host(replace(host.config, seed=None), clock=LoopClock())
    assert unseeded.config_of("a").seed is None


async def test_two_hosts_do_not_share_a_folder(hosts: Hosts) -> None:
    """The second is on another port, with the folder of the first."""
    await hosts.open_on("n0", "a", Adder())
    config = hosts.configs["n0"]
    other = Host(replace(config, listen=("127.0.0.1", 0)), clock=LoopClock())
    async with other:
        with pytest.raises(StoreLocked):
            await other.open("a", Adder())
    assert other.groups == ()
