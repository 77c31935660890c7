"""Groups of real hosts fall silent, and wake for what concerns them (R30)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from dledger import ReplicatedLog, ReplicatedNode
from dledger.core.types import NodeId, Role, Term
from dledger.runtime import candidacies
from dledger.runtime.host_parts import HostParts
from tests.dledger.runtime.group import PORT
from tests.virtual_loop import LoopClock
from tests.waiting import eventually

from .hosts import Hosts, leader_of
from .test_host import Adder

Nodes = dict[str, ReplicatedNode[int, int]]


@pytest_asyncio.fixture
async def hosts(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Hosts]:
    made = Hosts(tmp_path, new_address, quiescence=None)
    await made.start()
    yield made
    await made.close()


def sent(nodes: Nodes) -> int:
    """Messages of the group's rules that its nodes have sent."""
    return sum(node.log.driver.replica.node.state.round for node in nodes.values())


async def all_quiet(nodes: Nodes) -> None:
    await eventually(
        lambda: all(node.log.driver.replica.node.is_quiet for node in nodes.values()),
        "a group whose nodes are all quiet",
        60,
    )


async def test_a_group_falls_silent_and_wakes_for_commands_and_reads(hosts: Hosts) -> None:
    machines: list[Adder] = []

    def make() -> Adder:
        machines.append(Adder())
        return machines[-1]

    nodes = await hosts.open("a", make)
    leader = await leader_of(nodes)
    await leader.propose(2)
    await all_quiet(nodes)
    rounds, term = sent(nodes), leader.log.driver.replica.node.term
    for node, machine in zip(nodes.values(), machines, strict=True):
        assert await node.read(lambda machine=machine: machine.total) == 2  # type: ignore[misc]
        assert sent(nodes) > rounds
        await all_quiet(nodes)
        rounds = sent(nodes)
    for node in nodes.values():
        await node.propose(1)
    await all_quiet(nodes)
    assert leader.log.driver.replica.node.term == term


async def test_the_groups_of_a_host_that_leaves_are_led_again(hosts: Hosts) -> None:
    groups = [await hosts.open(name, Adder) for name in ("a", "b", "c")]
    for nodes in groups:
        await (await leader_of(nodes)).propose(1)
        await all_quiet(nodes)
    gone = (await leader_of(groups[0])).config.node_id
    await hosts.stop(gone)
    for nodes in groups:
        rest = {name: node for name, node in nodes.items() if name != gone}
        await eventually(
            lambda rest=rest: {node.leader for node in rest.values()} <= set(rest),  # type: ignore[misc]
            "a leader among the hosts that are left",
            60,
        )
        await (await leader_of(rest)).propose(1)
        await all_quiet(rest)


async def test_few_groups_of_a_host_that_dies_stand_for_election_at_once(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a slow machine elects none: each candidate begins anew before its votes are there."""
    monkeypatch.setattr(candidacies, "AT_ONCE", 2)
    groups = [await hosts.open(f"g{number}", Adder) for number in range(16)]
    for nodes in groups:
        await leader_of(nodes)
    standing: dict[str, set[str]] = {name: set() for name in hosts.hosts}
    most: Counter[str] = Counter()
    change = ReplicatedLog.role_changed

    def changed(log: ReplicatedLog, role: Role, term: Term, leader: NodeId | None) -> None:
        change(log, role, term, leader)
        host, group = log.config.node_id, log.config.group
        stands = role in (Role.PRE_CANDIDATE, Role.CANDIDATE)
        (standing[host].add if stands else standing[host].discard)(group)
        most[host] = max(most[host], len(standing[host]))

    monkeypatch.setattr(ReplicatedLog, "role_changed", changed)
    gone = (await leader_of(groups[0])).config.node_id
    await hosts.stop(gone)
    for nodes in groups:
        rest = {name: node for name, node in nodes.items() if name != gone}
        await eventually(
            lambda rest=rest: {node.leader for node in rest.values()} <= set(rest),  # type: ignore[misc]
            "a leader among the hosts that are left",
            60,
        )
    assert 0 < max(most.values()) <= 2


async def test_a_node_that_fails_ends_its_connections_while_its_host_goes_on(
    hosts: Hosts,
) -> None:
    nodes = await hosts.open("a", Adder)
    leader = await leader_of(nodes)
    await leader.propose(1)
    await all_quiet(nodes)
    came = [inbound.transport for inbound in leader.log.driver.transport.inbound.values()]
    leader.log.driver._died(RuntimeError("a mistake"))
    assert len(came) == 4
    assert all(channel is not None and channel.is_closing() for channel in came)
    rest = {name: node for name, node in nodes.items() if node is not leader}
    await eventually(
        lambda: {node.leader for node in rest.values()} <= set(rest),
        "a leader among the nodes that are left",
        60,
    )


async def test_groups_of_hosts_without_quiescence_keep_their_heartbeats(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    """Also where one host of three has it on."""
    mixed = Hosts(tmp_path, new_address)
    mixed.quiescence = True
    await mixed.start("n0")
    mixed.quiescence = False
    await mixed.start("n1", "n2")
    try:
        nodes = await mixed.open("a", Adder)
        leader = await leader_of(nodes)
        await leader.propose(2)
        quiet_after = leader.log.driver.replica.node.state.config.quiet_after
        begun = sent(nodes)
        interval = leader.log.driver.replica.node.state.config.heartbeat_interval
        rounds = round(3 * quiet_after / interval)
        await eventually(lambda: sent(nodes) > begun + rounds, "heartbeats of an idle group", 60)
        assert not any(node.log.driver.replica.node.is_quiet for node in nodes.values())
    finally:
        await mixed.close()


async def test_a_learner_without_a_host_is_heard_by_a_quiet_group_at_once(
    hosts: Hosts, new_address: Callable[[], str]
) -> None:
    """Its host is not watched, and it stands for no election: its connection wakes the leader."""
    nodes = await hosts.open("a", Adder)
    leader = await leader_of(nodes)
    known = hosts.hosts["n0"].config_of("a")
    config = replace(
        known,
        node_id="n3",
        peers={**known.peers, "n3": (new_address(), PORT)},
        data_dir=Path(hosts.configs["n0"].data_dir).parent / "n3",
    )
    ReplicatedLog.format(config, joins=True)
    learner = ReplicatedNode[int, int](config, Adder(), clock=LoopClock())
    await learner.start()
    visitors = leader.log.driver.roster.visitors
    await eventually(lambda: "n3" in visitors, "a call of the learner", 60)
    await leader.log.add_member("n3", learner=True)
    await learner.close()
    await all_quiet(nodes)
    again = ReplicatedNode[int, int](config, Adder(), clock=LoopClock())
    await again.start()
    begun = LoopClock().now()
    await eventually(lambda: again.leader is not None, "a leader that the learner hears", 60)
    state = leader.log.driver.replica.node.state
    assert LoopClock().now() - begun < state.config.quiet_check / 4
    assert state.role is Role.LEADER
    await again.close()


def host_of(node: ReplicatedNode[int, int]) -> HostParts:
    """Parts that the node's host shares with it."""
    found = node.log.driver.parts.host
    assert found is not None
    return found


def timers(node: ReplicatedNode[int, int]) -> list[str]:
    """Names of the timers that this node has of its own."""
    driver = node.log.driver
    assert driver._disk_check is not None
    parts = {
        "due": driver._timer,
        "disk": driver._disk_check,
        "renewal": driver._renewal,
        "clocks": driver._telling,
        "repair": driver._repair_timer,
    }
    return [name for name, part in parts.items() if part._timer is not None]


async def test_a_quiet_node_has_no_timer_of_its_own_until_it_wakes(hosts: Hosts) -> None:
    nodes = await hosts.open("a", Adder)
    leader = await leader_of(nodes)
    await leader.propose(2)
    await all_quiet(nodes)
    for node in nodes.values():
        await eventually(lambda node=node: not timers(node), "a quiet node without timers", 60)  # type: ignore[misc]
    for node in nodes.values():
        assert len(host_of(node).alarms) == 2  # the rules' next deadline, the next scrub
    await leader.propose(3)
    for node in nodes.values():
        assert {"disk", "renewal"} <= set(timers(node))


async def test_an_alarm_of_its_host_wakes_a_quiet_leader_to_ask(hosts: Hosts) -> None:
    nodes = await hosts.open("a", Adder)
    leader = await leader_of(nodes)
    await leader.propose(2)
    await all_quiet(nodes)
    await eventually(lambda: not timers(leader), "a quiet leader without timers", 60)
    rounds = sent(nodes)
    state = leader.log.driver.replica.node.state
    state.heartbeat_deadline = leader.log.driver.now()
    host_of(leader).alarms.ring(leader.log.driver._timer.at)
    # Another alarm of the node may ring first, and have it set a timer of its own for this.
    await eventually(lambda: sent(nodes) > rounds, "a round of the quiet leader", 5)
    await all_quiet(nodes)


async def test_a_host_rings_the_alarms_of_its_groups(hosts: Hosts) -> None:
    """A quiet leader has no timer, and asks when its host rings."""
    node = await hosts.hosts["n0"].open("a", Adder(), create=True, members=["n0"])
    rung: list[str] = []
    now = node.log.driver.now()
    host_of(node).alarms.take(now + 1.0, now, node.log.owned, lambda: rung.append("now"))
    await eventually(lambda: rung, "an alarm of the host", 5)


async def test_hosts_tell_each_other_their_clocks_for_all_groups(hosts: Hosts) -> None:
    groups = [await hosts.open(name, Adder) for name in ("a", "b")]
    for nodes in groups:
        await (await leader_of(nodes)).propose(1)
        await all_quiet(nodes)
        for node in nodes.values():
            await eventually(lambda node=node: not timers(node), "a quiet node", 60)  # type: ignore[misc]
    clocks = [node.log.driver.clock for nodes in groups for node in nodes.values()]
    hosts_clocks = [clock.hosts for clock in clocks]
    assert all(found is not None for found in hosts_clocks)
    seen = [found._settled for found in hosts_clocks if found is not None]
    own = [clock.measured for clock in clocks]
    await eventually(
        lambda: all(
            found._settled > before and len(found.measured) == 2
            for found, before in zip(hosts_clocks, seen, strict=True)
            if found is not None
        ),
        "clocks that hosts measure while all groups are quiet",
        60,
    )
    assert [clock.measured for clock in clocks] == own
    for clock in clocks:
        clock.time_ms()
        assert clock._seen > 0
        assert clock._measured_at == clock.hosts._measured_at  # type: ignore[union-attr]
