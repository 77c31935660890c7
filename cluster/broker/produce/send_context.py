"""The tables that every kind of send asks, and how its client is answered.

    send.py ─► send_batch.py, send_group.py, repeated.py ─► send_context.py

One for all sends of a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.net.refusals import to_service_error
from cluster.broker.kernel.read.reader import Place
from cluster.broker.kernel.write.dedup import Cursors
from cluster.broker.kernel.write.repeats import Originals, RepeatsWaiting
from cluster.broker.kernel.write.send_target import SendTarget
from cluster.broker.produce.owners import Owners
from cluster.broker.produce.stored_before import StoredBefore
from cluster.protocol.offset_id import store_host_hex
from cluster.protocol.send import SendRequest, SendTemplate
from cluster.protocol.send_own import OwnResponseEncoder
from cluster.protocol.send_response import SendResponder, refuse_send
from commitlog.records.hosts import Host, pack_host
from dledger.core.types import Index
from dledger.errors import DledgerError, NotLeader, Transferring
from dledger.producers.table import ProducerTable


class SendClient(Protocol):
    """The connection a send came on. `is_relayed`: through a relay port."""

    born_host: bytes
    is_relayed: bool
    targets: dict[SendTemplate, SendTarget]
    targets_epoch: int

    def write(self, data: bytes) -> None:
        """Send bytes of whole frames."""
        ...


class SendContext:
    """Tables, limits and counts of sends, and their refusals."""

    def __init__(
        self,
        producers: ProducerTable,
        cursors: Cursors,
        owners: Owners,
        repeats: RepeatsWaiting,
        originals: Originals,
        stored_before: StoredBefore,
        *,
        config: BrokerConfig,
        advertised: Host,
        locate: Callable[[Index], Place],
        applied: Callable[[], Index],
        leader_address: Callable[[], str | None],
        ask_again: Callable[[Any, Sequence[SendRequest]], bool],
    ) -> None:
        """`ask_again` asks the next leader, False: too many wait already."""
        self.producers, self.cursors, self.owners = producers, cursors, owners
        self.repeats, self.originals, self.stored_before = repeats, originals, stored_before
        self.responder = SendResponder(
            store_host_hex(*advertised), config.region, trace_on=config.trace_on
        )
        self.store_host, self.body_size_max = pack_host(advertised), config.body_size_max
        self.locate, self.applied = locate, applied
        self.leader_address, self._ask_again = leader_address, ask_again
        host = self.store_host.hex().upper().encode()
        self.own_responder = OwnResponseEncoder(host) if len(self.store_host) == 8 else None
        #: `waited`: sends that began to wait for their topic; `bytes`: of the messages' records.
        self.messages = self.refused = self.waited = self.bytes = 0
        self._turn = 0
        #: Of the client whose sends are being taken just now.
        self._refusals: tuple[SendClient, list[bytes]] | None = None

    def pick_queue(self, target: SendTarget) -> int:
        """The queue that was asked for, or the next one in turn."""
        if target.queue_id >= 0:
            return target.queue_id
        self._turn += 1
        return self._turn % target.write_queues

    def asked_again(
        self, client: SendClient, requests: Sequence[SendRequest], error: DledgerError
    ) -> bool:
        """Did a leadership that ends refuse these, and are they kept for the next one?

        They are certainly not stored, and a stock producer that knows one broker name would use up
        its attempts within milliseconds. Ours asks again by itself, in order.
        """
        return isinstance(error, NotLeader | Transferring) and self._ask_again(client, requests)

    def refuse(self, client: SendClient, request: SendRequest, error: Exception) -> None:
        """Tell the sender about an error."""
        self.refused += 1
        if not request.is_oneway:
            said = refuse_send(request, to_service_error(error, self.leader_address()))
            if self._refusals is not None and self._refusals[0] is client:
                self._refusals[1].append(said)
            else:
                client.write(said)

    def hold_refusals(self, client: SendClient) -> None:
        """Until `tell_refusals`, keep refusals of this client: all of its sends may be refused."""
        self._refusals = client, []

    def tell_refusals(self) -> None:
        """In one write."""
        assert self._refusals is not None, "hold_refusals comes first"
        client, refusals = self._refusals
        self._refusals = None
        if refusals:
            client.write(b"".join(refusals))
