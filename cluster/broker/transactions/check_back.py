"""The leader asks producers for the outcome of their half messages (39; docs/spec/store.md 7.3).

    due ─► the count of checks is logged ─► applied ─► 39 to a producer of the group ─► 37, asked
        └► after the last check: a copy in TRANS_CHECK_MAX_TIME_TOPIC

The count comes first: a half is asked for at most `checks_max` times, whatever dies in between. A
check counts also when no producer of the group is connected, as in RocketMQ: a half whose producers
are gone does not wait for ever. The question goes to a connection wherever it is: the leader knows
those of followers, and reaches them over their links.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.transactions.outcomes import Outcomes, ReadHalf
from cluster.core.groups import ClientInfo, ClientRegistry
from cluster.core.internal_topics import HalvesChecked
from cluster.core.topics import TopicConfig, TopicTable
from cluster.core.transactions.halves import Outcome
from cluster.errors import ClusterError, QueueFull
from cluster.protocol.codes import VERSION, RequestCode
from cluster.protocol.frames import FLAG_ONEWAY, Frame
from cluster.protocol.headers import CheckTransactionRequest, encode
from cluster.protocol.offset_id import encode_offset_id
from commitlog.errors import StoreError
from commitlog.records import property_names as names
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.names import CHECK_MAX_TIME_TOPIC
from commitlog.records.properties import with_property
from dledger.errors import DledgerError

TICK_SECONDS: Final = 0.25
#: Halves of one turn; each is read from the log. More at once would hold up heartbeats.
DUE_COUNT_MAX: Final = 64
BUSY_SECONDS: Final = 0.02  # between turns while more are due

_log = logging.getLogger(__name__)


class CheckBacks:
    """Runs while this node leads. `advertised`: its address in message ids."""

    def __init__(
        self,
        outcomes: Outcomes,
        writer: StateWriter,
        registry: ClientRegistry,
        leadership: Leadership,
        topics: TopicTable,
        *,
        advertised: Host,
        broker_name: str,
        now_ms: Callable[[], int],
        call_later: Callable[[float, Callable[[], None]], object],
        may_decide: Callable[[ClientInfo, ReadHalf], bool],
    ) -> None:
        """`may_decide`: True if that client may see a half message and tell its outcome."""
        self._outcomes, self._table = outcomes, outcomes.table
        self._writer, self._registry, self._leadership = writer, registry, leadership
        self._topics, self._advertised, self._broker_name = topics, advertised, broker_name
        self._now_ms, self._call_later, self._may_decide = now_ms, call_later, may_decide
        self._host = pack_host(advertised)
        self._turn = 0
        self._ticking = False
        self._taken: set[int] = set()  # due, and what comes of them is not in the table yet
        self.asked = self.unanswerable = 0

    def leadership_ended(self) -> None:
        """Put the halves back that were taken: they are due again in the next leadership."""
        self._put_back(list(self._taken))

    def _put_back(self, positions: Iterable[int]) -> None:
        """Make these halves due again, except those that an earlier leadership put back."""
        back = [position for position in positions if position in self._taken]
        self._taken.difference_update(back)
        self._table.put_back(back)

    def role_changed(self) -> None:
        """A listener of `Leadership`. A new leader first hears which producers there are."""
        if self._leadership.leads and not self._ticking:
            self._ticking = True
            self._call_later(self._leadership.settled_in(), self._tick)

    def _tick(self) -> None:
        if not self._leadership.leads:
            self._ticking = False
            return
        due: Sequence[int] = ()
        try:
            due = self._table.take_due(self._now_ms(), DUE_COUNT_MAX)
            self._taken.update(due)
            if due:
                self._look(due)
        except (ClusterError, DledgerError) as error:  # too much in flight: they stay due
            self._put_back(due)
            _log.info("checks of transactions wait: %s", error)
        busy = len(due) == DUE_COUNT_MAX
        self._call_later(BUSY_SECONDS if busy else TICK_SECONDS, self._tick)

    def _look(self, due: Sequence[int]) -> None:
        now_ms, table = self._now_ms(), self._table
        checks: dict[int, int] = {}
        for position in due:
            half = table.get(position)
            if half is None:
                self._taken.discard(position)
            elif table.rule.is_given_up(half, now_ms):
                self._give_up(position)
            else:
                checks[position] = half.checks + 1
        if checks:
            self._writer.write(HalvesChecked(checks), lambda error: self._counted(checks, error))

    def _counted(self, checks: dict[int, int], error: Exception | None) -> None:
        if error is not None:
            self._put_back(checks)
            return
        self._taken.difference_update(checks)
        for position, count in checks.items():
            if self._leadership.leads and self._table.get(position) is not None:
                self._with_half(position, partial(self._ask, count=count))

    def _with_half(self, position: int, then: Callable[[ReadHalf], None]) -> None:
        """One half that cannot be read must not keep the others from being asked for."""
        try:
            then(self._outcomes.read(position))
        except QueueFull as full:
            self._put_back([position])
            _log.info("the outcome of a transaction waits: %s", full)
        except (ClusterError, DledgerError, StoreError, OSError) as error:
            self.unanswerable += 1
            _log.warning("the half message at %d cannot be checked: %s", position, error)

    # -- asking ------------------------------------------------------------------------------------

    def _ask(self, half: ReadHalf, *, count: int) -> None:
        """39 to one producer of the group, another one each time; oneway."""
        members = self._registry.producers(half.group)
        allowed = [member for member in members if self._may_decide(member.info, half)]
        channels = [c for member in allowed if not (c := member.best_channel()).is_paused]
        if not channels:
            _log.info("no producer of %s is connected that may be asked", half.group)
            return
        self._turn += 1
        key = half.message.properties.get(names.UNIQUE_KEY)
        question = CheckTransactionRequest(
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.position,
            topic=half.topic,
            msg_id=key,
            transaction_id=half.message.properties.get(names.TRANSACTION_ID, key),
            offset_msg_id=encode_offset_id(*self._advertised, half.position),
            bname=self._broker_name,
        )
        frame = Frame(
            RequestCode.CHECK_TRANSACTION_STATE,
            0,
            encode(question),
            self._as_sent(half, count),
            FLAG_ONEWAY,
            language="JAVA",
            version=VERSION,
        )
        channels[self._turn % len(channels)].answer(frame)
        self.asked += 1

    def _as_sent(self, half: ReadHalf, count: int) -> bytes:
        """The half's record with the topic and queue that it was sent to."""
        message = half.message
        times = names.TRANSACTION_CHECK_TIMES.encode()
        return bytes(
            encode_record(
                topic_field(half.topic),
                with_property(half.properties, times, b"%d" % count),
                message.body,
                half.queue_id,
                message.flag,
                message.sys_flag,
                message.born_timestamp_ms,
                pack_host(message.born_host),
                pack_host(message.store_host),
                message.reconsume_times,
                0,
                half.queue_offset,
                half.position,
                message.store_timestamp_ms,
            )
        )

    # -- giving up ---------------------------------------------------------------------------------

    def _give_up(self, position: int) -> None:
        if self._topics.get(CHECK_MAX_TIME_TOPIC) is None:
            topic = TopicConfig(CHECK_MAX_TIME_TOPIC, 1, 1)
            self._writer.create_topic(topic, lambda error: self._put_back([position]))
            return

        def ended(error: Exception | None) -> None:
            if error is not None:
                self._put_back([position])
            else:
                self._taken.discard(position)

        self._with_half(position, lambda half: self._outcomes.end(half, Outcome.GIVEN_UP, ended))
