"""Stock consumers with notification routes around the real registry and the real notices.

A consumer is written down as the source of Java 5.5.0 has it: a look at routes every 30 s, queues
shared out every 20 s (at once when it is told, a second apart), a pull loop for each queue that
pauses for 3 s after an error. It asks one address of the topic's route, drawn at random, for the
members of its group; whoever reaches the leader knows them all, as if heartbeats were never late.
What its listener refuses comes to it again on the retry topic.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from cluster.broker.clients.notices import Notices
from cluster.protocol.codes import RequestCode, ResponseCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import PULL_FLAG_SUSPEND, PullRequest, RegisterBrokerRequest
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.route import TopicRoute
from cluster.protocol.topics import Registration, TopicConfig

from .stock_world import (
    LOOK_SECONDS,
    REBALANCE_SECONDS,
    TOPIC,
    Group,
    Node,
    Steps,
    World,
)

GROUP = "g"
RETRY = f"%RETRY%{GROUP}"
VERSION_JAVA = 479
APART_SECONDS = 1.0
"""Between two sharings out of queues."""

PAUSE_SECONDS = 3.0
"""`pullTimeDelayMillsWhenException`."""

PULL_SECONDS, SUSPEND_MILLIS = 0.2, 15_000
LEVELS, REFUSED_OF = 3, 5
"""Every fifth message is refused until it was retried so often."""


@dataclass(eq=False)
class Pull:
    """The pull loop of one queue."""

    queue: MessageQueue
    dropped: bool = False


@dataclass(eq=False)
class Connection:
    """Of one consumer to the relay port of one node. `pulls`: by the number of their request."""

    consumer: Consumer
    notices: Notices
    pulls: dict[int, Pull]
    closed: bool = False

    def answer(self, frame: Frame) -> None:
        """Comes to the client a moment later."""
        self.consumer.world.at(0.001, partial(self._came, frame))

    def _came(self, frame: Frame) -> None:
        if self.closed:
            return
        if frame.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self.consumer.share_out_at_once()
            return
        pull = self.pulls.pop(frame.opaque)
        if frame.code == ResponseCode.PULL_OFFSET_MOVED:
            self.consumer.drop(pull)
            self.consumer.share_out_at_once()
        else:
            self.consumer.pull(pull)


class NotifiedWorld(World):
    """With `members` consumers; `notify`: do routes have notification names?

    `waits`: of each consumer and each leader that was killed, until it pulled from that name again.
    """

    def __init__(self, seed: int, nodes: int, groups: int, *, notify: bool, members: int = 2):
        super().__init__(seed, nodes, groups, relays=True)
        self.notify, self.members = notify, members
        self.notified_groups = f"*:0,{GROUP}:{members}"
        retry = TopicConfig(RETRY, 1, 1)
        self.topics = Registration({**self.topics.topics, RETRY: retry}, 1)
        self.notices = {
            (group, node): self._started() for group in self.groups for node in self.nodes
        }
        self.known = dict.fromkeys(self.groups, 0)
        self.consumers: list[Consumer] = []
        self.positions: dict[MessageQueue, int] = {}
        self.retried: dict[Group, list[tuple[int, int]]] = {group: [] for group in self.groups}
        self.delivered: dict[tuple[int, int], int] = {}
        self.waits: list[float] = []
        self.broken: dict[tuple[Consumer, Group], float] = {}

    def _started(self) -> Notices:
        def call_at(when: float, call: Callable[[], None]) -> None:
            self.at(max(when - self.now, 0.0), call)

        return Notices(1_000, 25.0, now=lambda: self.now, call_at=call_at)

    # -- nodes -------------------------------------------------------------------------------------

    def elect(self, group: Group) -> None:
        before = group.term
        super().elect(group)
        if group.term > before:
            for node in self.well():
                self._learns(group, node)

    def _learns(self, group: Group, node: Node) -> None:
        term = group.term
        self.notices[group, node].leader_changed(lambda: self.known[group] >= term)

    def taken(self, request: RegisterBrokerRequest) -> None:
        super().taken(request)
        group = next(group for group in self.groups if group.name == request.broker_name)
        if request.broker_id == 0:
            self.known[group] = max(self.known[group], request.term)

    def break_down(self, node: Node, *, kills: bool) -> None:
        led = [group for group in self.groups if group.leader is node]
        super().break_down(node, kills=kills)
        if kills:
            for group in self.groups:
                self.notices[group, node] = self._started()
            for consumer in self.consumers:
                consumer.reset(node)
                for group in led:
                    self.broken.setdefault((consumer, group), self.now)

    def heal(self, node: Node) -> None:
        super().heal(node)
        for group in self.groups:
            if group.leader is not None:
                self._learns(group, node)

    # -- clients -----------------------------------------------------------------------------------

    def shown(self, topic: str) -> TopicRoute | None:
        return self.registry.route(topic, self.now, stock=True, relays=True, notify=self.notify)

    def serves(self, address: str) -> Group | None:
        """The group, when what is asked at this address reaches its leader."""
        group, node = self.reached(address)
        well = node.is_well and group.leader is not None and group.leader.is_well
        return group if well else None

    def deliver(self, consumer: Consumer, group: Group, message: int, level: int) -> None:
        self.consumed.add(message)
        self.delivered[message, level] = self.delivered.get((message, level), 0) + 1
        if message % REFUSED_OF == 0 and level < LEVELS:
            self.retried[group].append((message, level + 1))

    def run(self, seconds: float) -> None:
        self.ends_at = seconds
        for group in self.groups:
            self.elect(group)
        self.start(self.registrations())
        self.start(self.faults(), 10.0)
        self.start(self.producer(2))
        self.consumers = [Consumer(self, number) for number in range(self.members)]
        for consumer in self.consumers:
            self.start(consumer.looks(), 1.0)
            self.start(consumer.shares_out(), 1.0 + self.random.random())
        self.play(seconds + 41.0 + LOOK_SECONDS + REBALANCE_SECONDS)


class Consumer:
    """One member of the group."""

    def __init__(self, world: NotifiedWorld, number: int) -> None:
        self.world, self.number = world, number
        self.routes: dict[str, TopicRoute] = {}
        self.addresses: dict[str, dict[int, str]] = {}
        self.pulls: dict[MessageQueue, Pull] = {}
        self.connections: dict[str, Connection] = {}
        self.shared_at, self.due = float("-inf"), 0.0
        self._opaque = itertools.count(1)

    def looks(self) -> Steps:
        while True:  # until the world ends
            for topic in (TOPIC, RETRY):
                self.look(topic)
            yield LOOK_SECONDS if len(self.routes) == 2 else 0.5

    def look(self, topic: str) -> None:
        """What it finds counts for all topics."""
        route = self.world.shown(topic)
        if route is not None:
            self.routes[topic] = route
            for broker in route.brokers:
                self.addresses[broker.broker_name] = dict(broker.addresses)

    def reset(self, node: Node) -> None:
        """The node died, and with it every connection to it."""
        for address in [one for one in self.connections if self.world.reached(one)[1] is node]:
            connection = self.connections.pop(address)
            connection.closed = True
            for pull in connection.pulls.values():
                self.world.at(PAUSE_SECONDS, partial(self.pull, pull))

    # -- sharing out queues ------------------------------------------------------------------------

    def share_out_at_once(self) -> None:
        self.due = self.world.now
        wait = max(self.shared_at + APART_SECONDS - self.world.now, 0.0)
        self.world.at(wait, self._share_out_if_due)

    def shares_out(self) -> Steps:
        while True:  # until the world ends
            self._share_out_if_due()
            yield max(self.due - self.world.now, 0.01)

    def _share_out_if_due(self) -> None:
        now = self.world.now
        if self.due > now or now - self.shared_at < APART_SECONDS - 1e-9:
            return
        self.shared_at, self.due = now, now + REBALANCE_SECONDS
        for topic in self.routes:
            if self._members_known(topic):
                self._take(topic, self._mine(self.routes[topic].read_queues(topic)))

    def _members_known(self, topic: str) -> bool:
        """It asks one broker of the list that it draws: id 0, or one of its others."""
        broker = self.world.random.choice(self.routes[topic].brokers)
        address = broker.leader or self.world.random.choice(list(broker.addresses.values()))
        return self.world.serves(address) is not None

    def _mine(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """AllocateMessageQueueAveragely."""
        size, rest = divmod(len(queues), self.world.members)
        begin = self.number * size + min(self.number, rest)
        return queues[begin : begin + size + (self.number < rest)]

    def _take(self, topic: str, mine: list[MessageQueue]) -> None:
        for pull in [one for one in self.pulls.values() if one.queue.topic == topic]:
            if pull.queue not in mine:
                self.drop(pull)
        for queue in mine:
            if queue not in self.pulls and self._position_known(queue):
                self.pulls[queue] = pull = Pull(queue)
                self.world.at(0.001, partial(self.pull, pull))

    def _position_known(self, queue: MessageQueue) -> bool:
        """It asks id 0 of the name; without one it looks at the route first."""
        addresses = self.addresses.get(queue.broker_name, {})
        if 0 not in addresses:
            self.look(queue.topic)
            addresses = self.addresses.get(queue.broker_name, {})
        address = addresses.get(0) or next(iter(addresses.values()), None)
        return address is not None and self.world.reached(address)[1].alive

    def drop(self, pull: Pull) -> None:
        pull.dropped = True
        if self.pulls.get(pull.queue) is pull:
            del self.pulls[pull.queue]

    # -- pulls -------------------------------------------------------------------------------------

    def pull(self, pull: Pull) -> None:
        if pull.dropped:
            return
        world, addresses = self.world, self.addresses[pull.queue.broker_name]
        address = addresses.get(0) or next(iter(addresses.values()))
        if not world.reached(address)[1].alive:
            world.at(PAUSE_SECONDS, partial(self.pull, pull))
        elif pull.queue.broker_name.startswith("~2@"):
            self._wait(pull, address)
        else:
            group = world.serves(address)
            if group is not None:
                self._got(pull, group)
            world.at(PULL_SECONDS if group is not None else 1.0, partial(self.pull, pull))

    def _wait(self, pull: Pull, address: str) -> None:
        if pull.queue.topic != RETRY:
            self.world.wrong.append(f"a consumer of {pull.queue.topic} was given {pull.queue}")
        group, node = self.world.reached(address)
        connection = self.connections.get(address)
        if connection is None:
            connection = Connection(self, self.world.notices[group, node], {})
            self.connections[address] = connection
        opaque = next(self._opaque)
        connection.pulls[opaque] = pull
        queue = (GROUP, RETRY, pull.queue.queue_id)
        connection.notices.take(
            connection,
            Frame(RequestCode.PULL_MESSAGE, opaque, {}, language="JAVA", version=VERSION_JAVA),
            PullRequest(*queue, 0, 32, PULL_FLAG_SUSPEND, 0, SUSPEND_MILLIS, 0),
        )

    def _got(self, pull: Pull, group: Group) -> None:
        world, queue = self.world, pull.queue
        broken_at = world.broken.pop((self, group), None)
        if broken_at is not None:
            world.waits.append(world.now - broken_at)
        begin = world.positions.get(queue, 0)
        if queue.topic == RETRY:
            found = world.retried[group][begin:]
            world.positions[queue] = begin + len(found)
            for message, level in found:
                world.deliver(self, group, message, level)
            return
        world.positions[queue] = len(group.stored)
        for queue_id, message in group.stored[begin:]:
            if queue_id == queue.queue_id:
                world.deliver(self, group, message, 0)


def what_is_wrong(world: NotifiedWorld) -> list[str]:
    """What a judge of one schedule has to say."""
    stored = [message for group in world.groups for _, message in group.stored]
    said = list(world.wrong)
    if not set(world.acked) <= set(stored):
        said.append("an acknowledged message is lost")
    wanted = {(one, 0) for one in stored}
    refused = [one for one in stored if one % REFUSED_OF == 0]
    wanted |= {(one, level) for one in refused for level in range(1, LEVELS + 1)}
    said += [f"never delivered: {row}" for row in sorted(wanted - set(world.delivered))[:3]]
    times = {message: stored.count(message) for message in refused}
    twice = [
        (message, level)
        for (message, level), count in world.delivered.items()
        if level and count != times.get(message, 0)
    ]
    said += [f"not once per level: {row}" for row in twice[:3]]
    return said
