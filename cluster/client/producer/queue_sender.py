"""The stream of one producer to one queue: numbered without a gap, in order, in one group (R8).

A batch is one request with one or several messages. The stream has two states:

    FLOWING      messages are numbered and sent as they come
    a failure    no new batch is sent; each open batch gets its answer, or the connection ends and
                 all open batches are unsure
    RECOVERING   find the leader, send every unresolved batch again, in order, same numbers; the
                 broker answers those that it has as it answered them first
    FLOWING      again

A message whose deadline passes is reported as unknown and still sent again, because a missing
number would stop the stream. The sender takes new numbers (a new producer id, from 0) only if the
batches under the old numbers are certainly not stored and never will be: a message was refused for
good, or the broker forgot the producer, and every attempt of all remaining batches was refused. A
refusal tells of its own attempt only: copies of earlier attempts may wait at a former leader and be
stored later. So a batch with an unsure attempt keeps its numbers until the stream is blocked: the
first batch, sent while no batch before it was open, is refused because a number before it is
missing. If the missing number is one that was refused for good, no later batch is stored, nor can
it be stored under its numbers. If it is another one, the broker has forgotten numbers that it had
acknowledged, and batches with unsure attempts are reported as unknown.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Sequence
from itertools import islice

from cluster.client.connection.connection import Connection
from cluster.client.message import Receipt
from cluster.client.producer.in_flight_batch import Entry, InFlightBatch, fail, tell
from cluster.client.producer.sender_context import SenderContext
from cluster.client.routing.retry_rules import Action, rule_for
from cluster.errors import (
    ClusterError,
    LeaderLostWhileWaiting,
    NotConnected,
    NotLeader,
    Outcome,
    OutcomeUnknown,
    ProducerForgotten,
    QueueFull,
    SendTimeout,
    SequenceGap,
)
from cluster.protocol.batch import ITEM_EXTRA_SIZE, encode_numbered
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.send_own import SendEncoder, SendResult

new_tuple = tuple.__new__
"""Makes a named tuple in a third of the time of its class; used once per message."""
QUOTA_PAUSE_MAX = 0.5
"""Seconds: half of what a quota allows in a second has come together then."""


class QueueSender:
    """One producer's stream to `queue`.

    Invariant: `_unresolved` holds batches in order of their numbers; `_out` of them await answers.
    """

    def __init__(self, context: SenderContext, queue: MessageQueue) -> None:
        self.queue = queue
        self._context, self._config = context, context.config
        self._instance, self._limiter = context.instance, context.limiter
        self._is_batching = context.config.batching
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Entry] = deque()
        self._unresolved: dict[InFlightBatch, None] = {}
        self._out = 0
        self._connection: Connection | None = None
        self._is_stopped = False
        self._needs_new_numbers = False
        self._recovery: asyncio.Task[None] | None = None
        self._is_pump_due = False
        self._quota_pause = 0.0  # the latest, while the quota of the account refuses some
        self._epoch = 0
        self._sequence = 0
        self._refused: list[range] = []  # numbers that were refused for good
        self._prefix = b""
        self._take_new_numbers()
        self._on_stored, self._on_refused = self.stored, self.refused  # bound once
        self._encoder = self._make_encoder(is_batch=False)
        self._batch_encoder = self._make_encoder(is_batch=True)

    def add(self, entry: Entry) -> None:
        """Send a message now, with others in a batch, or when the stream flows again."""
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

    def stored(self, batch: InFlightBatch, result: SendResult) -> None:
        """Give receipts: a majority has the batch on disk."""
        self._out -= 1
        del self._unresolved[batch]
        if not self._unresolved:
            self._quota_pause = 0.0
        entries = batch.entries
        count = len(entries)
        self._limiter.give(count, len(entries[0][1]) if count == 1 else batch.size)
        if not batch.was_reported:
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

    def refused(self, batch: InFlightBatch, error: ClusterError) -> None:
        """Handle a failure or an unknown result; retry_rules.py gives the next step."""
        self._out -= 1
        batch.error = error
        if isinstance(error, ProducerForgotten) and not batch.was_unsure:
            self._needs_new_numbers = True  # never stored, so new numbers repeat no message
        elif rule_for(error).action is Action.GIVE_UP:
            end = batch.numbers_end
            self._refused.append(range(end - len(batch.entries), end))
            self._give_up(batch, batch.error_of_all_attempts(error))
            self._needs_new_numbers = True
        elif error.outcome is Outcome.UNKNOWN:
            batch.was_unsure = True
        elif isinstance(error, NotLeader) and error.leader:
            self._instance.leaders.hint(self.queue.broker_name, error.leader)
        self._is_stopped = True
        self._recover_when_settled()

    def leader_changed(self, address: str | None) -> None:
        """Stop waiting for the former leader's answers: the replica at `address` leads now."""
        connection = self._connection
        if connection is None or connection.address == address:
            return
        reason = f"{self.queue.broker_name} is led by {address} now, not {connection.address}"
        if not self._out:
            self._connection = None
        for batch in list(self._unresolved):
            waiter = connection.waiting.get(batch.opaque)
            if waiter is batch:
                del connection.waiting[batch.opaque]
                self.refused(batch, LeaderLostWhileWaiting(reason))

    def check(self, now: float) -> None:
        """Look for stalled requests and for messages past their deadline, at loop time `now`."""
        first = next(iter(self._unresolved), None)
        connection = self._connection
        if first is not None and self._out and connection is not None:
            instance = self._instance
            silent = now - first.sent_at
            if silent > instance.config.request_timeout:
                instance.leaders.suspect(self.queue.broker_name, connection.address)
                instance.pool.drop(connection.address)
            elif silent > instance.config.stall_timeout:
                instance.leaders.ask_news(self.queue.broker_name, self.queue.topic)
        for batch in self._unresolved:
            if batch.entries[0].deadline > now:
                break
            self._report_late(batch)
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
            self._limiter.give(1, len(entry.body))

    def close(self, error: ClusterError) -> None:
        """Fail all messages: those that were sent as `SendTimeout`, the others as `error`."""
        self._is_closed = self._is_stopped = True
        if self._recovery is not None:
            self._recovery.cancel()
        for batch in list(self._unresolved):
            if self._connection is not None:
                self._connection.waiting.pop(batch.opaque, None)
            self._give_up(batch, SendTimeout(f"the producer was closed: {error}"))
        while self._waiting:
            entry = self._waiting.popleft()
            fail(entry.waiter, error)
            self._limiter.give(1, len(entry.body))

    # --- sending ---------------------------------------------------------------------------------

    def _launch(self, entries: Sequence[Entry], connection: Connection) -> None:
        """Number these messages and send them as one request."""
        batch = InFlightBatch(entries, self._context.turn_ms, self._on_stored, self._on_refused)
        self._number(batch)
        self._unresolved[batch] = None
        self._post(batch, connection)

    def _number(self, batch: InFlightBatch) -> None:
        """Write the batch's request with the next numbers."""
        entries, sequence = batch.entries, self._sequence
        self._sequence = batch.numbers_end = sequence + len(entries)
        if len(entries) == 1:
            _, batch.body, tail, _ = entries[0]
            batch.properties = self._prefix % sequence + tail
        else:
            batch.properties, batch.body = b"", encode_numbered(entries, self._prefix, sequence)

    def _post(self, batch: InFlightBatch, connection: Connection) -> None:
        batch.attempts += 1
        batch.was_first = not self._out
        batch.error = None
        batch.sent_at = self._context.turn_time
        encoder = self._encoder if len(batch.entries) == 1 else self._batch_encoder
        batch.opaque = connection.post_send(
            encoder, batch.properties, batch.body, batch.born_ms, batch
        )
        self._out += 1

    def _pump_soon(self) -> None:
        """Send waiting messages at the end of this turn, so that its messages form batches."""
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
        self._context.begin_turn()
        batches_max = (
            self._config.batches_in_flight_max
            if self._config.batching
            else self._config.in_flight_max
        )
        while self._waiting and self._out < batches_max:
            self._launch(self._next_entries(), connection)

    def _next_entries(self) -> Sequence[Entry]:
        """The messages of the next request: one, or as many as a batch may hold."""
        waiting = self._waiting
        if not self._is_batching:
            return (waiting.popleft(),)
        free = self._config.batch_bytes_max
        count = 0
        for _, body, tail, _ in islice(waiting, self._config.batch_count_max):
            free -= len(body) + len(tail) + ITEM_EXTRA_SIZE if count else len(body)
            if free < 0 and count:
                break
            count += 1
        if count < len(waiting):
            return [waiting.popleft() for _ in range(count)]
        entries = list(waiting)
        waiting.clear()
        return entries

    # --- failures --------------------------------------------------------------------------------

    def _give_up(self, batch: InFlightBatch, error: ClusterError) -> None:
        del self._unresolved[batch]
        if not batch.was_reported:
            for entry in batch.entries:
                fail(entry.waiter, error)
        self._limiter.give(len(batch.entries), batch.size)

    def _report_late(self, batch: InFlightBatch) -> None:
        """Report a deadline that passed; the batch itself is sent again (see the module's text)."""
        if batch.was_reported:
            return
        batch.was_reported = True
        last = f"; last failure: {batch.error}" if batch.error else ""
        for entry in batch.entries:
            fail(
                entry.waiter,
                SendTimeout(
                    f"no receipt from {self.queue.broker_name} within "
                    f"{self._config.delivery_timeout:g} s{last}"
                ),
            )

    def _recover_when_settled(self) -> None:
        if self._out == 0 and self._recovery is None and not self._is_closed:
            self._recovery = asyncio.ensure_future(self._recover())

    def _pause(self, error: ClusterError | None, pause: float) -> float:
        """Longer each time that the account's quota refuses some, until all is through.

        All that is unresolved is sent again each time, and the broker reads every one of them.
        """
        if not (isinstance(error, QueueFull) and error.is_of_quota):
            return pause
        self._quota_pause = min(QUOTA_PAUSE_MAX, 2 * self._quota_pause or pause)
        return self._quota_pause

    async def _recover(self) -> None:
        """Find the leader and send every unresolved batch again."""
        first = next(iter(self._unresolved), None)
        rules = [rule_for(batch.error) for batch in self._unresolved if batch.error]
        if rules:
            newest = next(reversed(self._unresolved))
            await asyncio.sleep(self._pause(newest.error, rules[0].pause))
        gap = first.blocking_gap if first is not None else None
        if gap is not None and not self._misses_what_was_refused(gap):
            self._give_up_doubts(gap)
        if self._needs_new_numbers or gap is not None:
            self._renumber(is_blocked=gap is not None)
        look = any(rule.action is Action.FIND_LEADER for rule in rules)
        connection = None
        while connection is None:  # ends with a leader, or when the producer is closed
            try:
                connection = await self._instance.leaders.connection(
                    self.queue.broker_name, self.queue.topic, look=look
                )
            except ClusterError:
                await asyncio.sleep(self._instance.config.retry_pause)
        self._recovery = None
        self._connection = connection
        self._is_stopped = False
        self._context.begin_turn()
        for batch in self._unresolved:
            self._post(batch, connection)
        self._pump()

    def _misses_what_was_refused(self, gap: SequenceGap) -> bool:
        """True if the number that the broker misses is one that was refused for good."""
        return any(gap.missing in numbers for numbers in self._refused)

    def _give_up_doubts(self, gap: SequenceGap) -> None:
        """Report unsure batches as unknown: the broker has forgotten this stream."""
        for batch in [one for one in self._unresolved if one.was_unsure]:
            told = (
                f"an earlier attempt may have stored it, and the broker has forgotten that ({gap})"
            )
            self._give_up(batch, OutcomeUnknown(f"{told}; look, or send it again"))

    def _renumber(self, *, is_blocked: bool) -> None:
        """Number all unresolved batches anew, if none can be stored under its old numbers."""
        batches = list(self._unresolved)
        if not is_blocked and any(batch.was_unsure for batch in batches):
            return
        self._needs_new_numbers = False
        self._take_new_numbers()
        for batch in batches:
            batch.was_unsure = False
            self._number(batch)

    def _take_new_numbers(self) -> None:
        # The new id is random: another account could take an id that it can guess.
        producer_id = secrets.token_hex(8).encode() if self._epoch else self._context.producer_id
        self._epoch += 1
        self._sequence = 0
        self._refused.clear()
        self._prefix = b"__PID\x01%b\x02__SEQ\x01%%d\x02" % producer_id

    def _make_encoder(self, *, is_batch: bool) -> SendEncoder:
        level = self._config.durability
        return SendEncoder(
            producer_group=self._context.group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            broker_name=self.queue.broker_name,
            is_batch=is_batch,
            sys_flag=self._context.sys_flag,
            durability=level.value if level else None,
        )
