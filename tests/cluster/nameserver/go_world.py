"""A Go client of many goroutines around the real registry, in virtual time, while nodes restart.

As rocketmq-client-go 2.1.2 has it: one list and one position in it for all goroutines, four
attempts that each take the next queue, 3 s for each attempt. A connection that ends under a send
tells it nothing. A refused connection costs it `REFUSED_SECONDS`.
"""

from __future__ import annotations

from cluster.protocol.headers import UnregisterBrokerRequest
from cluster.protocol.route import PERM_WRITE, TopicRoute

from .stock_world import (
    LOOK_SECONDS,
    STEADY_SECONDS,
    TOPIC,
    Group,
    Node,
    Steps,
    World,
    address,
    within,
)

ATTEMPTS, ATTEMPT_SECONDS_MAX = 4, 3.0
REFUSED_SECONDS, PAUSE_SECONDS = 0.0005, 0.05
LEAVES_SECONDS, DOWN_SECONDS, READY_SECONDS = 0.3, 1.5, 0.7
ROWS_REVERSED_MAX = 12


def go_list(route: TopicRoute) -> list[tuple[str, int]]:
    """Broker name and queue id in the order of the client's list, which goes round."""
    assert len(route.queues) <= ROWS_REVERSED_MAX, "it mixes up more rows (sort.Slice)"
    reached = {broker.broker_name for broker in route.brokers if broker.leader}
    return [
        (row.broker_name, queue)
        for row in reversed(route.queues)
        if row.perm & PERM_WRITE and row.broker_name in reached
        for queue in range(row.write_queue_count)
    ]


class GoWorld(World):
    """`restart_in_turn` plays one restart of all nodes."""

    turn = 0

    def restart_in_turn(self, loops: int) -> None:
        for group in self.groups:
            self.elect(group)
        self.start(self.registrations())
        # Somewhere between two looks at the routes, of which there is one every 30 s.
        self.start(self.restarts(), STEADY_SECONDS + self.random.uniform(1.0, LOOK_SECONDS))
        self.ends_at = STEADY_SECONDS + 2 * LOOK_SECONDS
        self.start(self.goroutines(loops))
        self.play(self.ends_at + ATTEMPTS * ATTEMPT_SECONDS_MAX)

    def restarts(self) -> Steps:
        for node in self.nodes:
            for group in self.groups:
                if group.leader is node:
                    self._hand_over(group)
            yield LEAVES_SECONDS
            self._leaves(node)
            yield DOWN_SECONDS
            self.heal(node)
            yield READY_SECONDS

    def _hand_over(self, group: Group) -> None:
        group.term += 1
        group.leader = self.random.choice([one for one in self.well() if one is not group.leader])
        self.changed_at = self.now
        for node in self.well():
            self.register(group, node)

    def _leaves(self, node: Node) -> None:
        node.alive = False
        self.changed_at = self.now
        for group in self.groups:
            gone = UnregisterBrokerRequest(group.name, address(group, node), "c", 1, group.term)
            self.registry.unregister(gone, self.now)
            self.tell(group)

    def goroutines(self, loops: int) -> Steps:
        routes: list[TopicRoute] = []
        yield STEADY_SECONDS
        for _ in range(loops):
            self.start(self.loop(routes), self.random.uniform(0.0, PAUSE_SECONDS))
        while True:  # until the world ends
            route = self.registry.route(TOPIC, self.now, stock=True, relays=True, tries_next=True)
            assert route is not None
            routes[:] = [route]
            yield LOOK_SECONDS

    def loop(self, routes: list[TopicRoute]) -> Steps:
        while self.now < self.ends_at:
            self.asked += 1
            yield from self.go_send(routes, self.asked)
            yield PAUSE_SECONDS

    def go_send(self, routes: list[TopicRoute], message: int) -> Steps:
        began = self.now
        for _ in range(ATTEMPTS):
            queues = go_list(routes[0])
            self.turn += 1
            name, queue = queues[self.turn % len(queues)]
            (at,) = [broker.leader for broker in routes[0].brokers if broker.broker_name == name]
            assert at is not None
            group, node = self.reached(at)
            if not node.alive:
                yield REFUSED_SECONDS
                continue
            until = self.now + ATTEMPT_SECONDS_MAX
            done = yield from within(self.serve(group, node, queue, message), until, self)
            if done:
                self.acked.append(message)
                return
            if not node.alive and self.now < until:
                yield until - self.now
        self.failed.append((began, message))
