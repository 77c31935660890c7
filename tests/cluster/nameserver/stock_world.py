"""Stock clients and nodes around the real registry, in virtual time: kills and partitions.

What a stock client does is written down here as its source has it: a producer looks at routes every
30 s and tries a failed send twice more, on another broker name, within 3 s; a consumer shares out
the readable queues every 20 s and pulls from id 0. Nodes do what cluster.broker does: they hold a
send while nobody leads, pass it on to a leader, and tell name servers at once what changes.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial

from cluster.nameserver.registry import Registry
from cluster.protocol.headers import RegisterBrokerRequest
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.route import TopicRoute
from cluster.protocol.topics import Registration, TopicConfig

TOPIC = "T"
QUEUES = 4
LOOK_SECONDS, REBALANCE_SECONDS, HEARTBEAT_SECONDS = 30.0, 20.0, 30.0
SEND_SECONDS_MAX, ATTEMPTS = 3.0, 3
REGISTER_SECONDS, LEASE_SECONDS = 10.0, 40.0
HOLD_SECONDS, LEAVE_SECONDS, NOTICE_SECONDS = 0.8, 1.5, 0.4
STEADY_SECONDS = 1.5
"""So long after the last change the leader has told whom it hears."""

Steps = Generator[float, None, None]


@dataclass(eq=False)
class Node:
    """One machine. `cut`: it reaches no other node; clients and name servers still reach it."""

    name: str
    alive: bool = True
    cut: bool = False

    @property
    def is_well(self) -> bool:
        return self.alive and not self.cut


@dataclass(eq=False)
class Group:
    """One broker name: who leads, and what is committed."""

    name: str
    term: int = 0
    leader: Node | None = None
    stored: list[tuple[int, int]] = field(default_factory=list)  # queue id, message


class World:
    """`run` plays one schedule; what happened is in the fields."""

    def __init__(
        self,
        seed: int,
        nodes: int,
        groups: int,
        *,
        relays: bool,
        faulty_max: int = 1,
        queues: int = QUEUES,
        serves_rest: bool = True,
    ):
        self.random = random.Random(seed)
        self.now, self.changed_at = 0.0, 0.0
        self._heap: list[tuple[float, int, Steps]] = []
        self._number = itertools.count()
        self.registry, self.relays, self.faulty_max = Registry(), relays, faulty_max
        self.topics = Registration({TOPIC: TopicConfig(TOPIC, queues, queues)}, 1)
        self.serves_rest = serves_rest
        self.nodes = [Node(f"n{number}") for number in range(nodes)]
        self.groups = [Group(f"broker-{letter}") for letter in "abc"[:groups]]
        self.between_faults = (3.0, 15.0)
        self.notified_groups: str | None = None
        self.acked: list[int] = []
        self.failed: list[tuple[float, int]] = []
        self.asked = 0
        self.wrong: list[str] = []
        self.consumed: set[int] = set()
        self.killed_leaders = 0
        self.leaders_broken_at: list[float] = []
        self.ends_at = 0.0

    # -- time --------------------------------------------------------------------------------------

    def start(self, steps: Steps, delay: float = 0.0) -> None:
        heapq.heappush(self._heap, (self.now + delay, next(self._number), steps))

    def at(self, delay: float, call: Callable[[], None]) -> None:
        def once() -> Steps:
            call()
            yield from ()

        self.start(once(), delay)

    def play(self, until: float) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.now, _, steps = heapq.heappop(self._heap)
            delay = next(steps, None)
            if delay is not None:
                self.start(steps, delay)

    # -- groups ------------------------------------------------------------------------------------

    def well(self) -> list[Node]:
        return [node for node in self.nodes if node.is_well]

    def has_majority(self) -> bool:
        return 2 * len(self.well()) > len(self.nodes)

    def elect(self, group: Group) -> None:
        if group.leader is not None and group.leader.is_well and self.has_majority():
            return
        group.leader = None
        if self.has_majority():
            group.term += 1
            group.leader = self.random.choice(self.well())
            self.changed_at = self.now
            for node in self.well():
                self.register(group, node)

    def register(self, group: Group, node: Node) -> None:
        """What the node says when it is well, a moment later at the name server."""
        if not node.is_well or group.leader is None:
            return
        leads, leader = node is group.leader, address(group, group.leader)
        living = ",".join(one.name for one in self.well() if one is not node)
        request = RegisterBrokerRequest(
            group.name,
            address(group, node),
            "c",
            0 if leads else self.nodes.index(node) + 1,
            heartbeat_timeout_millis=int(LEASE_SECONDS * 1000),
            term=group.term,
            leader_addr=leader,
            node_id=node.name,
            relay_addr=address(group, node).replace(":1", ":2"),
            living_nodes=living if leads else None,
            serves_notify=True,
            serves_rest=self.serves_rest,
            notified_groups=self.notified_groups if leads else None,
        )
        delay = self.random.uniform(0.001, 0.03)
        self.at(delay, lambda: self.taken(request))

    def taken(self, request: RegisterBrokerRequest) -> None:
        group = next(group for group in self.groups if group.name == request.broker_name)
        if request.term == group.term:  # an older leader is refused by the registry; not the point
            self.registry.register(request, self.topics, self.now)

    def registrations(self) -> Steps:
        while True:  # until the world ends
            for group in self.groups:
                for node in self.nodes:
                    self.register(group, node)
            self.registry.expire(self.now)
            yield REGISTER_SECONDS

    # -- faults ------------------------------------------------------------------------------------

    def faults(self) -> Steps:
        while self.now < self.ends_at:
            yield self.random.uniform(*self.between_faults)
            faulty = [node for node in self.nodes if not node.is_well]
            if len(faulty) < self.faulty_max and self.now - self.changed_at > STEADY_SECONDS:
                leaders = [group.leader for group in self.groups if group.leader is not None]
                node = self.random.choice([*leaders, *self.well()])
                self.break_down(node, kills=self.random.random() < 0.7)

    def break_down(self, node: Node, *, kills: bool) -> None:
        led = [group for group in self.groups if group.leader is node]
        self.killed_leaders += kills and bool(led)
        self.leaders_broken_at += [self.now] if led else []
        if kills:
            node.alive = False
        else:
            node.cut = True
        self.changed_at = self.now
        for group in self.groups:
            if group in led:
                group.leader = None if kills else node
                self.at(self.random.uniform(0.05, 0.45), partial(self.elect, group))
            elif group.leader is not None:
                notice = 0.01 if kills else NOTICE_SECONDS
                self.at(notice, partial(self.tell, group))
        self.at(self.random.uniform(2.0, 40.0), lambda: self.heal(node))

    def tell(self, group: Group) -> None:
        if group.leader is not None:
            self.register(group, group.leader)

    def heal(self, node: Node) -> None:
        node.alive, node.cut = True, False
        self.changed_at = self.now
        for group in self.groups:
            self.elect(group)
            self.at(0.2, partial(self.register, group, node))
            self.at(0.2, partial(self.tell, group))

    # -- a node serves a send ----------------------------------------------------------------------

    def serve(self, group: Group, node: Node, queue_id: int, message: int) -> Answer:
        """True when it is acknowledged; False for code 14 and for a connection that ended."""
        held_until = self.now + HOLD_SECONDS
        while node.alive:
            leader = group.leader
            if leader is None or (leader is not node and not node.is_well):
                if self.now >= held_until:
                    return False
                yield 0.05
                continue
            yield 0.002
            if leader.is_well and self.has_majority() and group.leader is leader:
                group.stored.append((queue_id, message))
                yield 0.001
                return node.alive and (leader.alive or node is leader)
            yield 0.0 if not node.alive else (NOTICE_SECONDS if leader.cut else 0.01)
            if node.alive and leader is not node:
                yield self.random.uniform(0.0, LEAVE_SECONDS)  # the answer of who led is awaited
            return False
        return False

    # -- clients -----------------------------------------------------------------------------------

    def look(self) -> TopicRoute | None:
        route = self.registry.route(TOPIC, self.now, stock=True, relays=self.relays)
        if (
            route is not None
            and self.now - self.changed_at > STEADY_SECONDS
            and self.has_majority()
        ):
            self._judge(route)
        return route

    def _judge(self, route: TopicRoute) -> None:
        """Everything is calm: id 0 and relays are living nodes, and not the same one."""
        shown: dict[str, list[Node]] = {}
        for broker in route.brokers:
            assert broker.leader is not None
            _, node = self.reached(broker.leader)
            shown.setdefault(broker.broker_name.rpartition("@")[2], []).append(node)
        for name, nodes in shown.items():
            if not all(node.is_well for node in nodes):
                self.wrong.append(f"{self.now:.2f}: {name} at {[node.name for node in nodes]}")
            if self.relays and len({node.name for node in nodes}) < 2:
                self.wrong.append(f"{self.now:.2f}: {name} has one node only, or no relay")

    def reached(self, at: str) -> tuple[Group, Node]:
        host, _, port = at.partition(":")
        return self.groups[int(port) % 10], self.nodes[int(host.removeprefix("n"))]

    def producer(self, threads: int) -> Steps:
        routes: list[TopicRoute] = []
        yield 1.0
        for _ in range(threads):
            self.start(self.sender(routes), self.random.uniform(0.0, 0.5))
        yield from self.looks(routes)

    def looks(self, routes: list[TopicRoute]) -> Steps:
        while True:  # until the world ends
            route = self.look()
            if route is not None:
                routes[:] = [route]
            yield LOOK_SECONDS if routes else 0.5

    def sender(self, routes: list[TopicRoute]) -> Steps:
        turns = itertools.count(self.random.randrange(100))
        while self.now < self.ends_at:
            yield self.random.uniform(0.1, 0.6)
            if routes:
                self.asked += 1
                yield from self.send(routes, turns, self.asked)

    def send(self, routes: list[TopicRoute], turns: Iterator[int], message: int) -> Steps:
        until, last = self.now + SEND_SECONDS_MAX, ""
        began = self.now
        for _ in range(ATTEMPTS):
            queue = pick(routes[0].write_queues(TOPIC), turns, last)
            last = queue.broker_name
            broker = next(one for one in routes[0].brokers if one.broker_name == last)
            assert broker.leader is not None
            group, node = self.reached(broker.leader)
            yield 0.001
            if not node.alive:
                continue
            serving = self.serve(group, node, queue.queue_id, message)
            done = yield from within(serving, until, self)
            if done:
                self.acked.append(message)
                return
            if done is None:
                break
        self.failed.append((began, message))

    def consumer(self, number: int, count: int, positions: dict[MessageQueue, int]) -> Steps:
        """One of `count` members. Positions are the group's, at the leader."""
        routes: list[TopicRoute] = []
        yield 1.0
        self.start(self.looks(routes))
        mine: list[MessageQueue] = []
        shared_at = float("-inf")
        while True:  # until the world ends
            yield 1.0
            if not routes:
                continue
            if self.now - shared_at >= REBALANCE_SECONDS:
                shared_at = self.now
                mine = routes[0].read_queues(TOPIC)[number::count]
            for queue in mine:
                if "@" in queue.broker_name:
                    self.wrong.append(f"a consumer was given {queue}")
                self._pull(routes[0], queue, positions)

    def _pull(
        self, route: TopicRoute, queue: MessageQueue, positions: dict[MessageQueue, int]
    ) -> None:
        broker = next(one for one in route.brokers if one.broker_name == queue.broker_name)
        assert broker.leader is not None
        group, node = self.reached(broker.leader)
        if node.is_well and group.leader is not None and group.leader.is_well:
            for queue_id, message in group.stored[positions.get(queue, 0) :]:
                if queue_id == queue.queue_id:
                    self.consumed.add(message)
            positions[queue] = len(group.stored)

    # -- all of it ---------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.ends_at = seconds
        for group in self.groups:
            self.elect(group)
        self.start(self.registrations())
        self.start(self.faults(), STEADY_SECONDS)
        self.start(self.producer(4))
        positions: dict[MessageQueue, int] = {}
        for number in range(2):
            self.start(self.consumer(number, 2, positions))
        # All faults heal within 40 s; then each consumer looks, and shares out, once more.
        self.play(seconds + 41.0 + LOOK_SECONDS + REBALANCE_SECONDS)


Answer = Generator[float, None, bool]


def address(group: Group, node: Node) -> str:
    return f"{node.name}:1000{'abc'.index(group.name[-1])}"


def pick(queues: list[MessageQueue], turns: Iterator[int], last: str) -> MessageQueue:
    """TopicPublishInfo.selectOneMessageQueue: the thread's next queue of another broker name."""
    for _ in queues:
        queue = queues[next(turns) % len(queues)]
        if queue.broker_name != last:
            return queue
    return queues[next(turns) % len(queues)]


def within(answer: Answer, until: float, world: World) -> Generator[float, None, bool | None]:
    """Its result, or None when the client's time is over."""
    while True:
        try:
            delay = next(answer)
        except StopIteration as stop:
            return bool(stop.value)
        if world.now + delay >= until:
            yield until - world.now
            return None
        yield delay
