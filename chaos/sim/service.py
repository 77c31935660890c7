"""The client interface of a simulated node: appends, linearizable reads, transfers.

Retries are recognised by the shipping `ProducerTable`, as the runtime does it: `check` before the
proposal, `appended` behind it, an answer when the original is applied.
"""

from __future__ import annotations

from chaos.sim.clients import AppendReply, ReadReply
from chaos.sim.machine import ANONYMOUS, STAMP_AT, STREAM, Machine, make_body
from chaos.sim.node import SimNode
from dledger.core.types import NodeId
from dledger.errors import DledgerError, NotLeader
from dledger.replica.ports import Proposal
from dledger.replica.replica import Replica


class NodeService:
    """`chaos.sim.clients.Service` of one node."""

    def __init__(self, node: SimNode) -> None:
        self._node = node

    def _process(self) -> tuple[Replica, Machine]:
        assert self._node.replica is not None
        assert self._node.machine is not None
        return self._node.replica, self._node.machine

    def append(self, producer: int, sequence: int, count: int, reply: AppendReply) -> None:
        """As `Service.append`; a machine without a process refuses or stays silent."""
        if self._node.replica is None:
            if self._node.random.random() < 0.7:  # refused connection; else silence
                reply(NotLeader(None), ())
            return
        self._node.step(self._append, producer, sequence, count, reply)

    def _append(self, producer: int, sequence: int, count: int, reply: AppendReply) -> None:
        replica, machine = self._process()
        try:
            machine.look_again(replica.node.role)
            if not machine.leading:
                raise replica.failure or NotLeader(replica.node.leader)
            skip, wait_for = 0, -1
            if not producer & ANONYMOUS:
                skip, wait_for, _ = machine.producers.check(str(producer), STREAM, sequence, count)
            numbers = range(sequence, sequence + count)
            if skip == count:
                machine.wait(
                    wait_for, lambda error: reply(error, machine.places(producer, numbers, error))
                )
                return
            self._propose(replica, machine, producer, numbers, skip, reply)
        except DledgerError as error:
            reply(error, ())

    def _propose(
        self,
        replica: Replica,
        machine: Machine,
        producer: int,
        numbers: range,
        skip: int,
        reply: AppendReply,
    ) -> None:
        """Append the numbers from `skip` on; answer for all of them."""

        def done(proposal: Proposal, error: DledgerError | None) -> None:
            places = machine.places(producer, numbers[:skip], error)
            reply(error, [*places, *range(proposal.first, proposal.last + 1)])

        size_max = self._node.options.load.body_bytes_max
        bodies = [
            make_body(producer, number, self._node.random.randint(16, size_max))
            for number in numbers[skip:]
        ]
        proposal = Proposal(bodies, done, stamp_at=STAMP_AT)
        replica.propose(proposal, self._node.now)
        if machine.leading and not producer & ANONYMOUS:
            machine.producers.appended(
                str(producer), STREAM, numbers[skip], len(bodies), proposal.first
            )

    def read(self, reply: ReadReply) -> None:
        """As `Service.read`; a machine without a process never replies."""
        if self._node.replica is not None:
            self._node.step(self._read, reply)

    def _read(self, reply: ReadReply) -> None:
        replica, machine = self._process()

        def ready(error: DledgerError | None) -> None:
            last = machine.values[-1][1] if machine.values else ""
            reply(error, machine.applied + 1, last)

        replica.read_index(ready, self._node.now)

    def transfer(self, to: int | None) -> None:
        """Ask this node to hand leadership over; the answer is of no interest."""
        if self._node.replica is not None:
            self._node.step(self._transfer, None if to is None else NodeId(f"n{to}"))

    def _transfer(self, to: NodeId | None) -> None:
        if self._node.replica is not None:
            self._node.replica.transfer(to, lambda error: None, self._node.now)
