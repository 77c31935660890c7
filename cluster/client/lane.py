"""The stream of one producer to one queue: numbered without a gap, in order, one group (R8).

    FLOWING      messages are numbered and sent as they come
    a failure    nothing new is sent; what is on its way is awaited: every flight gets its answer,
                 or the connection ends and all of them are unsure
    RECOVERING   find the leader, send every unresolved flight again, in order, same numbers; the
                 broker answers those it has as if they came first
    FLOWING      again

A message whose time is over is reported as unknown and still sent again, because a number that is
missing would stop the stream. New numbers (a new producer id, from 0) are taken only where the old
ones are certainly not stored, and never will be: a message was refused for good, or a producer was
forgotten, and every attempt of all flights that are left was refused. An answer tells of its own
attempt alone: copies of earlier ones may still wait at a node that led, and be stored later. So a
flight in doubt keeps its numbers until the stream itself stands still: the first flight, sent when
nothing before it was open, is told that a number before it is missing. If that is one that was
refused for good, what follows is nowhere and can never be stored as it is numbered. If not, the
broker has forgotten numbers that it had acknowledged, and nobody knows of those in doubt: they are
reported as unknown.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from cluster.client.connection import Connection
from cluster.client.flight import Entry, Flight, fail, tell
from cluster.client.message import Receipt
from cluster.client.retry import Action, rule_for
from cluster.errors import (
    ClusterError,
    LeaderLostWhileWaiting,
    NotConnected,
    NotLeader,
    Outcome,
    OutcomeUnknown,
    ProducerForgotten,
    SendTimeout,
    SequenceGap,
)
from cluster.protocol.batch import ITEM_EXTRA_SIZE, encode_numbered
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.send_own import SendEncoder, SendResult

if TYPE_CHECKING:
    from cluster.client.producer import Producer


new_tuple = tuple.__new__
"""Makes a named tuple in a third of the time of its class; for the one made per message."""


class Lane:
    """One queue's stream of one producer. `queue` is where it leads.

    Invariant: `_unresolved` holds flights in order of their numbers; `_out` of them await answers.
    """

    def __init__(self, producer: Producer, queue: MessageQueue) -> None:
        self.queue = queue
        self._producer = producer
        self._config = producer.config
        self._is_batching = producer.config.batching
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Entry] = deque()
        self._unresolved: dict[Flight, None] = {}
        self._out = 0
        self._connection: Connection | None = None
        self._is_stopped = False
        self._needs_new_numbers = False
        self._recovery: asyncio.Task[None] | None = None
        self._is_pump_due = False
        self._epoch = 0
        self._sequence = 0
        self._refused: list[range] = []  # numbers that were refused for good
        self._prefix = b""
        self._take_new_numbers()
        self._encoder = self._make_encoder(is_batch=False)
        self._batch_encoder = self._make_encoder(is_batch=True)

    def add(self, entry: Entry) -> None:
        """Send a message, now or with others, or when the stream flows again."""
        connection = self._connection
        if (
            self._is_batching
            or self._is_stopped
            or self._waiting
            or connection is None
            or not connection.is_open
        ):
            self._waiting.append(entry)
            if not self._is_pump_due:
                self._pump_soon()
        else:
            self._launch((entry,), connection)

    def stored(self, flight: Flight, result: SendResult) -> None:
        """The broker has it on a majority's disks."""
        self._out -= 1
        del self._unresolved[flight]
        entries = flight.entries
        self._producer.released(len(entries), sum([len(entry[1]) for entry in entries]))
        if not flight.was_reported:
            self._give_receipts(entries, result)
        if self._is_stopped:
            self._recover_when_settled()
        elif self._waiting:
            self._pump_soon()

    def _give_receipts(self, entries: Sequence[Entry], result: SendResult) -> None:
        queue = self.queue
        _, _, offset, index, term, position = result
        step = 1 if index >= 0 else 0
        for waiter, _, tail, _ in entries:
            receipt = new_tuple(Receipt, (queue, offset, index, term, position, tail))
            if callable(waiter):
                tell(waiter, receipt, None)
            elif not waiter.done():
                waiter.set_result(receipt)
            offset += 1
            index += step

    def refused(self, flight: Flight, error: ClusterError) -> None:
        """It failed, or nobody knows; what comes next is in `retry.RULES`."""
        self._out -= 1
        flight.error = error
        if isinstance(error, ProducerForgotten) and not flight.was_unsure:
            self._needs_new_numbers = True  # never stored: it is no repeat of anything
        elif rule_for(error).action is Action.GIVE_UP:
            end = flight.numbers_end
            self._refused.append(range(end - len(flight.entries), end))
            self._give_up(flight, _of_all_attempts(flight, error))
            self._needs_new_numbers = True
        elif error.outcome is Outcome.UNKNOWN:
            flight.was_unsure = True
        elif isinstance(error, NotLeader) and error.leader:
            self._producer.leaders.hint(self.queue.broker_name, error.leader)
        self._is_stopped = True
        self._recover_when_settled()

    def leader_changed(self, address: str | None) -> None:
        """Another replica leads now: wait no longer for answers of the present connection."""
        connection = self._connection
        if connection is None or connection.address == address:
            return
        reason = f"{self.queue.broker_name} is led by {address} now, not {connection.address}"
        if not self._out:
            self._connection = None
        for flight in list(self._unresolved):
            waiter = connection.waiting.get(flight.opaque)
            if waiter is flight:
                del connection.waiting[flight.opaque]
                self.refused(flight, LeaderLostWhileWaiting(reason))

    def check(self, now: float) -> None:
        """Look for stalls and for messages whose time is over."""
        first = next(iter(self._unresolved), None)
        connection = self._connection
        if first is not None and self._out and connection is not None:
            client = self._producer.client
            silent = now - first.sent_at
            if silent > client.config.request_timeout:
                client.leaders.suspect(self.queue.broker_name, connection.address)
                client.pool.drop(connection.address)
            elif silent > client.config.stall_timeout:
                client.leaders.ask_news(self.queue.broker_name, self.queue.topic)
        for flight in self._unresolved:
            if flight.entries[0].deadline > now:
                break
            self._report_late(flight)
        while self._waiting and self._waiting[0].deadline <= now:
            entry = self._waiting.popleft()
            fail(
                entry.waiter,
                NotConnected(
                    f"{self.queue.broker_name} had no leader for "
                    f"{self._config.delivery_timeout:g} s, and nothing was sent; look which nodes "
                    "run"
                ),
            )
            self._producer.released(1, len(entry.body))

    def close(self, error: ClusterError) -> None:
        """Give up what is left."""
        if self._recovery is not None:
            self._recovery.cancel()
        self._is_stopped = True
        for flight in list(self._unresolved):
            if self._connection is not None:
                self._connection.waiting.pop(flight.opaque, None)
            self._give_up(flight, SendTimeout(f"the producer was closed: {error}"))
        while self._waiting:
            entry = self._waiting.popleft()
            fail(entry.waiter, error)
            self._producer.released(1, len(entry.body))

    # --- sending ---------------------------------------------------------------------------------

    def _launch(self, entries: Sequence[Entry], connection: Connection) -> None:
        """Number these messages and send them as one request."""
        producer = self._producer
        properties, body = self._number(entries)
        flight = Flight(self, entries, properties, body, producer.turn_ms)
        flight.numbers_end = self._sequence
        self._unresolved[flight] = None
        self._post(flight, connection)

    def _number(self, entries: Sequence[Entry]) -> tuple[bytes, bytes]:
        """Properties and body of a request for these messages, under the next numbers."""
        sequence = self._sequence
        if len(entries) == 1:
            self._sequence = sequence + 1
            (entry,) = entries
            return self._prefix % sequence + entry.tail, entry.body
        self._sequence = sequence + len(entries)
        return b"", encode_numbered(entries, self._prefix, sequence)

    def _post(self, flight: Flight, connection: Connection) -> None:
        flight.attempts += 1
        flight.was_first = not self._out
        flight.error = None
        flight.sent_at = self._producer.turn_time
        encoder = self._encoder if len(flight.entries) == 1 else self._batch_encoder
        flight.opaque = connection.post_send(
            encoder, flight.properties, flight.body, flight.born_ms, flight
        )
        self._out += 1

    def _pump_soon(self) -> None:
        """Send what waits after everything else that is due in this turn."""
        if not self._is_pump_due:
            self._is_pump_due = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pump_due = False
        if self._is_stopped:
            return
        connection = self._connection
        if connection is None or not connection.is_open:
            self._is_stopped = True
            self._recover_when_settled()
            return
        self._producer.begin_turn()
        flights_max = (
            self._config.batches_in_flight_max
            if self._config.batching
            else self._config.in_flight_max
        )
        while self._waiting and self._out < flights_max:
            self._launch(self._next_entries(), connection)

    def _next_entries(self) -> Sequence[Entry]:
        """What goes into the next request: one message, or as many as a batch may hold."""
        waiting = self._waiting
        if not self._is_batching:
            return (waiting.popleft(),)
        room = self._config.batch_bytes_max
        count = 0
        for _, body, tail, _ in islice(waiting, self._config.batch_count_max):
            room -= len(body) + len(tail) + ITEM_EXTRA_SIZE if count else len(body)
            if room < 0 and count:
                break
            count += 1
        if count < len(waiting):
            return [waiting.popleft() for _ in range(count)]
        entries = list(waiting)
        waiting.clear()
        return entries

    # --- failures --------------------------------------------------------------------------------

    def _give_up(self, flight: Flight, error: ClusterError) -> None:
        del self._unresolved[flight]
        size = 0
        for entry in flight.entries:
            size += len(entry.body)
            if not flight.was_reported:
                fail(entry.waiter, error)
        self._producer.released(len(flight.entries), size)

    def _report_late(self, flight: Flight) -> None:
        """Tell that the time is over; the flight itself goes on (see the module's text)."""
        if flight.was_reported:
            return
        flight.was_reported = True
        last = f"; last failure: {flight.error}" if flight.error else ""
        for entry in flight.entries:
            fail(
                entry.waiter,
                SendTimeout(
                    f"no receipt from {self.queue.broker_name} within "
                    f"{self._config.delivery_timeout:g} s{last}"
                ),
            )

    def _recover_when_settled(self) -> None:
        if self._out == 0 and self._recovery is None and not self._producer.is_closed:
            self._recovery = asyncio.ensure_future(self._recover())

    async def _recover(self) -> None:
        """Find the leader and send every unresolved flight again."""
        first = next(iter(self._unresolved), None)
        rules = [rule_for(flight.error) for flight in self._unresolved if flight.error]
        if rules:
            await asyncio.sleep(rules[0].pause)
        gap = _standing_gap(first)
        if gap is not None and not self._misses_what_was_refused(gap):
            self._give_up_doubts(gap)
        if self._needs_new_numbers or gap is not None:
            self._renumber(stands_still=gap is not None)
        look = any(rule.action is Action.FIND_LEADER for rule in rules)
        connection = None
        while connection is None:  # ends with a leader, or when the producer is closed
            try:
                connection = await self._producer.leaders.connection(
                    self.queue.broker_name, self.queue.topic, look=look
                )
            except ClusterError:
                await asyncio.sleep(self._producer.client.config.retry_pause)
        self._recovery = None
        self._connection = connection
        self._is_stopped = False
        self._producer.begin_turn()
        for flight in self._unresolved:
            self._post(flight, connection)
        self._pump()

    def _misses_what_was_refused(self, gap: SequenceGap) -> bool:
        """Is the number that the broker misses one that was refused for good?"""
        return any(gap.missing in numbers for numbers in self._refused)

    def _give_up_doubts(self, gap: SequenceGap) -> None:
        """Tell that what is in doubt may be stored: the broker has forgotten this stream."""
        for flight in [one for one in self._unresolved if one.was_unsure]:
            told = (
                f"an earlier attempt may have stored it, and the broker has forgotten that ({gap})"
            )
            self._give_up(flight, OutcomeUnknown(f"{told}; look, or send it again"))

    def _renumber(self, *, stands_still: bool) -> None:
        """New numbers, once all that is unresolved can never be stored under the old ones."""
        flights = list(self._unresolved)
        if not stands_still and any(flight.was_unsure for flight in flights):
            return
        self._needs_new_numbers = False
        self._take_new_numbers()
        for flight in flights:
            flight.was_unsure = False
            flight.properties, flight.body = self._number(flight.entries)
            flight.numbers_end = self._sequence

    def _take_new_numbers(self) -> None:
        # A new id is drawn: one that others could tell beforehand could be taken by them.
        producer_id = secrets.token_hex(8).encode() if self._epoch else self._producer.producer_id
        self._epoch += 1
        self._sequence = 0
        self._refused.clear()
        self._prefix = b"__PID\x01%b\x02__SEQ\x01%%d\x02" % producer_id

    def _make_encoder(self, *, is_batch: bool) -> SendEncoder:
        level = self._config.durability
        return SendEncoder(
            producer_group=self._producer.group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            broker_name=self.queue.broker_name,
            is_batch=is_batch,
            sys_flag=self._producer.sys_flag,
            durability=level.value if level else None,
        )


def _standing_gap(first: Flight | None) -> SequenceGap | None:
    """Why the stream stands still: a number is missing before the first unresolved flight that is
    not on its way, either. None while it does not.

    A gap tells so only when nothing before the flight was open as it was sent: what is open is
    answered later, and may have been overtaken.
    """
    if first is None or not isinstance(first.error, SequenceGap):
        return None
    return first.error if first.was_first else None


def _of_all_attempts(flight: Flight, error: ClusterError) -> ClusterError:
    """The last attempt's error, which tells nothing certain of an attempt before it."""
    if not flight.was_unsure or error.outcome is Outcome.UNKNOWN:
        return error
    unknown = OutcomeUnknown(
        f"an earlier attempt may have stored it; look before you send it again: {error}"
    )
    unknown.__cause__ = error
    return unknown
