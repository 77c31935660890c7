"""Clients of the simulated cluster, and the history they write.

An *appender* sends values one batch at a time and retries, with the same numbers, until it gets an
answer or gives up; then the outcome is unknown, and it goes on as a new producer. Some appenders
send without numbers; those never retry what may have happened. A *reader* asks any node for a
linearizable end of the log. Requests and answers are delayed and lost on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from chaos.history import INFINITY, Kind, Operation, Outcome
from chaos.sim.machine import ANONYMOUS, value_name
from chaos.sim.scheduler import Scheduler
from chaos.sim.swarm import LoadOptions
from dledger.errors import DledgerError, NotDone, NotLeader
from dledger.errors import Outcome as Certainty

#: A client gives up on one operation after this many attempts or seconds.
ATTEMPTS_MAX = 12
PATIENCE = 8.0

#: (error, offsets of the batch)
AppendReply = Callable[[DledgerError | None, Sequence[int]], None]
#: (error, end of the log, last value before it)
ReadReply = Callable[[DledgerError | None, int, str], None]


class Service(Protocol):
    """The requests that a client can make of a node. A node that is down never calls back."""

    def append(self, producer: int, sequence: int, count: int, reply: AppendReply) -> None:
        """Appends a producer's next `count` values from `sequence` on; `reply` gets the outcome."""

    def read(self, reply: ReadReply) -> None:
        """Asks for the log's end; `reply` gets it and the last value before it, or the error."""


class ClientEnvironment:
    """The environment that all clients share: the way to the nodes, the history, and the numbers
    drawn so far.

    `reachable(node)` says whether clients can talk to it now. `asked` counts operations begun.
    `replay`: the chance that a request of an idempotent producer arrives twice.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        options: LoadOptions,
        nodes: Sequence[Service],
        latency: float,
        reachable: Callable[[int], bool],
    ) -> None:
        self.scheduler, self.random, self.options, self.nodes = scheduler, random, options, nodes
        self.latency, self.reachable = latency, reachable
        self.history: list[Operation] = []
        self.loss, self.replay = options.loss, 0.0
        self.appenders: list[Appender] = []
        self.asked = 0
        self.open = True
        self._resting: list[Callable[[None], None]] = []
        self._processes = 0

    def new_process(self) -> int:
        """Returns a number that no client process of this run has had."""
        self._processes += 1
        assert self._processes < ANONYMOUS
        return self._processes

    def rest(self, begin: Callable[[None], None]) -> None:
        """A client would begin its next operation now, and is to wait for `ask`."""
        self._resting.append(begin)

    def ask(self, again: bool) -> None:
        """Clients begin operations again, or begin none from now on."""
        self.open = again
        if again:
            resting, self._resting = self._resting, []
            for begin in resting:
                self.scheduler.after(self.random.random() * 0.1, begin)

    def deliver(self, node: int, action: Callable[[None], None]) -> None:
        """Run `action` after the way to or from `node`, unless it is lost there."""
        random = self.random
        if random.random() < self.loss or not self.reachable(node):
            return
        self.scheduler.after(self.latency * (0.5 + random.random()), action)


class Appender:
    """One appending client."""

    def __init__(self, environment: ClientEnvironment, think: float) -> None:
        self._environment = environment
        self._think = think
        self._number = 0  # of the attempt that may answer; an older attempt's answer is ignored
        self._target = environment.random.randrange(len(environment.nodes))
        self._new_producer()
        self._pause()

    @property
    def unfinished(self) -> list[str]:
        """Returns the values of an append that is under way."""
        if not self._attempts:
            return []
        return [value_name(self._producer, n) for n in self._numbers()]

    def _new_producer(self) -> None:
        """Becomes a new producer with a new id. The old id is never used again, because its last
        append may still arrive."""
        environment = self._environment
        self._producer = environment.new_process()
        if environment.random.random() < environment.options.anonymous:
            self._producer |= ANONYMOUS
        self._sequence = 0
        self._attempts = 0
        self._certain = True
        self._count = 0

    def _numbers(self) -> range:
        return range(self._sequence, self._sequence + self._count)

    def _pause(self) -> None:
        delay = self._think * 2 * self._environment.random.random()
        self._environment.scheduler.after(delay, self._begin)

    def _begin(self, _: None) -> None:
        environment = self._environment
        if not environment.open:
            environment.rest(self._begin)
            return
        self._count = environment.random.randint(1, environment.options.batch_max)
        environment.asked += self._count
        self._invoked = environment.scheduler.now
        self._attempts = 0
        self._certain = True
        self._try()

    def _try_again(self, number: int) -> None:
        if number == self._number:
            self._try()

    def _try(self) -> None:
        environment = self._environment
        self._attempts += 1
        self._number += 1
        number, target = self._number, self._target
        producer, sequence, count = self._producer, self._sequence, self._count

        def answer(error: DledgerError | None, offsets: Sequence[int]) -> None:
            environment.deliver(target, lambda _: self._answered(number, error, offsets))

        def arrive(_: None) -> None:
            environment.nodes[target].append(producer, sequence, count, answer)

        environment.deliver(target, arrive)
        if (
            environment.replay
            and not producer & ANONYMOUS
            and environment.random.random() < environment.replay
        ):
            environment.deliver(target, arrive)
        environment.scheduler.after(environment.options.timeout, self._timed_out, number)

    def _timed_out(self, number: int) -> None:
        if number == self._number:
            self._failed(certain=False, hint=None)

    def vanish(self) -> None:
        """The client ends without closing its connection. An append under way ends as "unknown",
        and a new producer takes its place."""
        if self._attempts:
            self._finish(Outcome.INFO, ())
        else:
            self._new_producer()

    def _answered(self, number: int, error: DledgerError | None, offsets: Sequence[int]) -> None:
        if number != self._number:
            return
        if error is None:
            self._finish(Outcome.OK, offsets)
            return
        hint = error.leader if isinstance(error, NotLeader) else None
        certain = isinstance(error, NotDone) and error.outcome is Certainty.NOT_DONE
        self._failed(certain=certain, hint=hint)

    def _failed(self, *, certain: bool, hint: str | None) -> None:
        """Try again where it may work better, or give up."""
        environment = self._environment
        self._number += 1
        self._certain = self._certain and certain
        nodes = len(environment.nodes)
        self._target = int(hint[1:]) if hint else (self._target + 1) % nodes
        late = environment.scheduler.now - self._invoked > PATIENCE
        sent_once = self._producer & ANONYMOUS and not self._certain
        if sent_once or late or self._attempts >= ATTEMPTS_MAX:
            self._finish(Outcome.FAIL if self._certain else Outcome.INFO, ())
            return
        environment.scheduler.after(
            0.02 + 0.1 * environment.random.random(), self._try_again, self._number
        )

    def _finish(self, outcome: Outcome, offsets: Sequence[int]) -> None:
        environment = self._environment
        self._number += 1
        known = outcome is not Outcome.INFO
        completed = environment.scheduler.now if known else INFINITY
        process = f"p{self._producer}"
        for place, number in enumerate(self._numbers()):
            offset = offsets[place] if outcome is Outcome.OK else -1
            value = value_name(self._producer, number)
            environment.history.append(
                Operation(process, Kind.APPEND, value, self._invoked, completed, outcome, offset)
            )
        if outcome is Outcome.OK:
            self._sequence += self._count
            self._attempts = self._count = 0
        else:
            self._new_producer()
        self._pause()


class Reader:
    """One reading client; goes round the nodes, so that followers serve reads too."""

    def __init__(self, environment: ClientEnvironment, think: float) -> None:
        self._environment, self._think = environment, think
        self._process = environment.new_process()
        self._number = 0
        self._pause()

    def _pause(self) -> None:
        delay = self._think * 2 * self._environment.random.random()
        self._environment.scheduler.after(delay, self._begin)

    def _begin(self, _: None) -> None:
        environment = self._environment
        if not environment.open:
            environment.rest(self._begin)
            return
        environment.asked += 1
        self._number += 1
        number, invoked = self._number, environment.scheduler.now
        target = environment.random.randrange(len(environment.nodes))

        def answer(error: DledgerError | None, end: int, value: str) -> None:
            environment.deliver(
                target, lambda _: self._answered(number, invoked, error, end, value)
            )

        environment.deliver(target, lambda _: environment.nodes[target].read(answer))
        environment.scheduler.after(environment.options.timeout, self._timed_out, number)

    def _timed_out(self, number: int) -> None:
        """Forgets a read that was not answered: a read changes no state, so no outcome is
        recorded.
        """
        if number == self._number:
            self._number += 1
            self._pause()

    def _answered(
        self, number: int, invoked: float, error: DledgerError | None, end: int, value: str
    ) -> None:
        if number != self._number:
            return
        self._number += 1
        if error is None:
            now = self._environment.scheduler.now
            self._environment.history.append(
                Operation(f"r{self._process}", Kind.READ, value, invoked, now, Outcome.OK, end)
            )
        self._pause()


def open_clients(environment: ClientEnvironment) -> list[Appender]:
    """All clients of a run, sharing the asked rate evenly."""
    options = environment.options
    mean_batch = (1 + options.batch_max) / 2
    per_round = options.appenders * mean_batch + options.readers
    think = per_round / options.operations_per_second
    for _ in range(options.readers):
        Reader(environment, think)
    environment.appenders = [Appender(environment, think) for _ in range(options.appenders)]
    return environment.appenders
