"""Messages of one queue for a consumer (11 and 361).

Source: docs/spec/remoting.md 2.3, docs/spec/store.md 6.7.

    offset within the queue      found 0, or 20 when nothing matched in what was scanned
    offset == end                parked when the client lets us, else 19
    outside                      21 with where to go, said only after this replica proved that it
                                 leads and is caught up (21 makes consumers throw offsets away)

A follower answers found messages and nothing else (R18). Bodies are the records' bytes as they
stand in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from cluster.broker.config import BrokerConfig
from cluster.broker.consume.long_poll import LongPolls
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.read.wanted import Subscriptions, Wanted
from cluster.core.filter_bits import FilterBits
from cluster.errors import ClusterError, FlowControlled
from cluster.protocol.codes import ResponseCode
from cluster.protocol.frames import Frame, refusal, response
from cluster.protocol.headers import (
    PULL_FLAG_SUSPEND,
    PullRequest,
    PullResponse,
    encode,
)
from commitlog.errors import StoreError
from commitlog.java import signed
from commitlog.queue_entry import ENTRY, ENTRY_SIZE, is_ext_address
from dledger.errors import DledgerError, NotLeader

_log = logging.getLogger(__name__)


class Client(Protocol):
    """The connection a pull came on."""

    @property
    def closed(self) -> bool: ...

    def answer(self, frame: Frame) -> None: ...

    def when_writable(self, call: Callable[[], None]) -> None:
        """Now, or when the client has taken the answers before this one."""
        ...


class Found(NamedTuple):
    """What a scan gave: records, and the first offset not looked at."""

    records: list[bytes | memoryview]
    next_offset: int


class PullPath:
    """All pulls of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        derived: DerivedStore,
        reader: RecordReader,
        subscriptions: Subscriptions,
        polls: LongPolls,
        *,
        filters: FilterBits | None = None,
        when_current: Callable[[Callable[[DledgerError | None], None]], None],
        to_error: Callable[[Exception], ClusterError],
        mistake: Callable[[], None],
    ) -> None:
        """`mistake`: told in an `except` that a pull failed by one of ours."""
        self._config, self._derived, self._reader = config, derived, reader
        self.subscriptions, self._polls, self._filters = subscriptions, polls, filters
        self.when_current, self.to_error, self.mistake = when_current, to_error, mistake
        self.messages = self.bytes = 0
        self.got: Callable[[str, str, int, int], None] = _nobody_counts
        #: See `Services.ask_again`; set by wiring.
        self.ask_again: Callable[[Any, Frame], None] = lambda *_: None

    def scan(self, request: PullRequest, offset: int, wanted_by: Wanted) -> Found | None:
        """Messages from `offset` on; None when the queue has none there."""
        queue = self._derived.queue(request.topic, request.queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return None
        config = self._config
        count_max = max(1, min(request.max_msg_nums, config.pull_count_max))
        if wanted_by.expression is not None:
            raw = queue.read_raw(offset, config.pull_scan_max)
            return self._matching(request, offset, raw, count_max, wanted_by)
        hashes = wanted_by.hashes
        raw = queue.read_raw(offset, count_max if hashes is None else config.pull_scan_max)
        wanted: list[tuple[int, int]] = []
        offsets: list[int] = []
        size = scanned = 0
        bytes_max = self._bytes_max(request)
        for position, entry_size, tags_code in ENTRY.iter_unpack(raw):
            if hashes is not None and is_ext_address(tags_code):
                tags_code = self._tags_of(request, tags_code, hashes)
            if hashes is None or signed(tags_code) in hashes:
                if wanted and (size + entry_size > bytes_max or len(wanted) == count_max):
                    break
                wanted.append((position, entry_size))
                offsets.append(offset + scanned)
                size += entry_size
            scanned += 1
        assert len(raw) % ENTRY_SIZE == 0
        records = self._reader.records(wanted) if wanted else []
        self._count(request, records)
        if len(records) < len(wanted):  # damage behind the last one: the next pull meets it
            return Found(records, offsets[len(records)])
        return Found(records, offset + scanned)

    def _bytes_max(self, request: PullRequest) -> int:
        """What the client asks for (maxMsgBytes) within what the broker gives; none: the latter."""
        most, asked = self._config.pull_bytes_max, request.max_msg_bytes or 0
        return min(most, asked) if asked > 0 else most

    def _tags_of(self, request: PullRequest, address: int, hashes: frozenset[int]) -> int:
        """The tags that an extension says; what was lost counts as wanted, clients look again."""
        unit = self._derived.ext_unit(request.topic, request.queue_id, address)
        return next(iter(hashes), 0) if unit is None else unit.tags_code

    def _matching(
        self, request: PullRequest, offset: int, raw: bytes, count_max: int, wanted_by: Wanted
    ) -> Found:
        """Records that an expression takes: read one by one, since only they say so."""
        found: list[bytes | memoryview] = []
        size = scanned = 0
        bytes_max = self._bytes_max(request)
        for position, entry_size, tags_code in ENTRY.iter_unpack(raw):
            if found and size + entry_size > bytes_max:
                break
            if len(found) == count_max:
                break
            if not self._may_match(request, tags_code, wanted_by):
                scanned += 1
                continue
            try:
                (record,) = self._reader.records([(position, entry_size)])
            except StoreError:
                if not scanned:
                    raise
                break  # damage behind the last one: the next pull meets it
            if wanted_by.takes(record):
                found.append(record)
                size += entry_size
            scanned += 1
        self._count(request, found)
        return Found(found, offset + scanned)

    def _may_match(self, request: PullRequest, tags_code: int, wanted_by: Wanted) -> bool:
        """False: the queue's extension says that the expression does not take this message."""
        if self._filters is None or not is_ext_address(tags_code):
            return True
        unit = self._derived.ext_unit(request.topic, request.queue_id, tags_code)
        group, topic = request.consumer_group, request.topic
        return self._filters.may_match(group, topic, wanted_by.text, unit)

    def _count(self, request: PullRequest, records: list[bytes | memoryview]) -> None:
        if records:
            size = sum(map(len, records))
            self.messages += len(records)
            self.bytes += size
            self.got(request.consumer_group, request.topic, len(records), size)

    def try_found(self, client: Client, frame: Frame, request: PullRequest) -> bool:
        """Answer when there are messages; what a follower may do by itself (R18)."""
        try:
            self.subscriptions.topic(request)
            wanted = self.subscriptions.wanted(request)
            found = self.scan(request, request.queue_offset, wanted)
        except ClusterError:
            return False
        if found is None or not found.records:
            return False
        client.answer(self._frame(frame, request, 0, found.next_offset, found.records, "FOUND"))
        return True

    def serve(
        self, client: Client, frame: Frame, request: PullRequest, *, waited: bool = False
    ) -> None:
        """Answer on the leader, once what is applied now is dispatched. Raises what is told."""
        self.subscriptions.topic(request)
        wanted = self.subscriptions.wanted(request)
        if self._derived.behind and not waited and not self._derived.room.why:
            applied = self._derived.applied
            self._derived.when_dispatched(
                applied,
                lambda error: client.when_writable(
                    lambda: self._when_dispatched(client, frame, request, error)
                ),
            )
            return
        found = self.scan(request, request.queue_offset, wanted)
        if found is not None:
            self.answer_found(client, frame, request, found)
            return
        # Not in the queue as dispatched so far: be sure that we lead and see every commit.
        self.when_current(
            lambda error: client.when_writable(
                lambda: self._at_edge(client, frame, request, wanted, error)
            )
        )

    def _when_dispatched(
        self, client: Client, frame: Frame, request: PullRequest, error: DledgerError | None
    ) -> None:
        if client.closed:
            return
        try:
            if error is not None:
                raise self.to_error(error)
            self.serve(client, frame, request, waited=True)
        except (ClusterError, StoreError) as error:
            client.answer(refusal(frame, self.to_error(error)))

    def answer_found(
        self, client: Client, frame: Frame, request: PullRequest, found: Found
    ) -> None:
        if found.records:
            answer = self._frame(frame, request, 0, found.next_offset, found.records, "FOUND")
        else:
            answer = self._frame(
                frame,
                request,
                ResponseCode.PULL_RETRY_IMMEDIATELY,
                found.next_offset,
                (),
                "NO_MATCHED_MESSAGE",
            )
        client.answer(answer)

    def _at_edge(
        self,
        client: Client,
        frame: Frame,
        request: PullRequest,
        wanted: Wanted,
        error: DledgerError | None,
    ) -> None:
        """The bounds are certain now."""
        if client.closed:
            return
        if isinstance(error, NotLeader):
            self.ask_again(client, frame)
            return
        try:
            if error is not None:
                raise self.to_error(error)
            found = self.scan(request, request.queue_offset, wanted)
            if found is not None:
                self.answer_found(client, frame, request, found)
                return
            low, high = self.bounds(request.topic, request.queue_id)
            offset = request.queue_offset
            if offset != high:
                moved_to = low if offset < low else high
                remark = "OFFSET_TOO_SMALL" if offset < low else "OFFSET_OVERFLOW_BADLY"
                code = ResponseCode.PULL_OFFSET_MOVED
                client.answer(self._frame(frame, request, code, moved_to, (), remark))
            elif request.sys_flag & PULL_FLAG_SUSPEND and request.suspend_timeout_millis > 0:
                self._park(client, frame, request, wanted)
            else:
                self.answer_nothing(client, frame, request, offset)
        except (ClusterError, StoreError) as refused:
            client.answer(refusal(frame, self.to_error(refused)))

    def _park(
        self,
        client: Client,
        frame: Frame,
        request: PullRequest,
        wanted: Wanted,
    ) -> None:
        seconds = min(request.suspend_timeout_millis / 1000, self._config.long_poll_seconds_max)
        if not self._polls.park(WaitingPull(self, client, frame, request, wanted), seconds):
            raise FlowControlled("too many pulls wait for messages; pause and pull again")

    def answer_nothing(
        self, client: Client, frame: Frame, request: PullRequest, scanned_to: int
    ) -> None:
        """Time is over: 19, or 20 with where the scan got to."""
        if scanned_to == request.queue_offset:
            code, remark = ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"
        else:
            code, remark = ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"
        client.answer(self._frame(frame, request, code, scanned_to, (), remark))

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First and next offset of a queue, as dispatched."""
        queue = self._derived.queue(topic, queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def _frame(
        self,
        frame: Frame,
        request: PullRequest,
        code: int,
        next_offset: int,
        records: list[bytes | memoryview] | tuple[()],
        remark: str,
    ) -> Frame:
        low, high = self.bounds(request.topic, request.queue_id)
        ext = encode(PullResponse(next_begin_offset=next_offset, min_offset=low, max_offset=high))
        return response(frame, code, ext, b"".join(records), remark)


def _nobody_counts(group: str, topic: str, count: int, size: int) -> None:
    """Until the broker is wired."""


class WaitingPull:
    """A parked pull; see long_poll.py."""

    __slots__ = ("_answered", "_client", "_frame", "_path", "_request", "_wanted", "offset")

    def __init__(
        self,
        path: PullPath,
        client: Client,
        frame: Frame,
        request: PullRequest,
        wanted: Wanted,
    ) -> None:
        self._path, self._client, self._frame = path, client, frame
        self._request, self._wanted = request, wanted
        self.offset = request.queue_offset
        self._answered = False

    @property
    def topic(self) -> str:
        return self._request.topic

    @property
    def queue_id(self) -> int:
        return self._request.queue_id

    @property
    def settled(self) -> bool:
        return self._answered or self._client.closed

    def wake(self) -> None:
        self._guarded(self._look)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # whatever it is: this pull alone is refused
            if not isinstance(error, ClusterError | StoreError):
                self._path.mistake()
            self.refuse(self._path.to_error(error))

    def _look(self) -> None:
        found = self._path.scan(self._request, self.offset, self._wanted)
        if found is None:
            return
        if found.records:
            self._answered = True
            self._path.answer_found(self._client, self._frame, self._request, found)
        else:
            self.offset = found.next_offset

    def expire(self) -> None:
        self._answered = True
        nothing, client = self._path.answer_nothing, self._client
        self._guarded(lambda: nothing(client, self._frame, self._request, self.offset))

    def route_again(self, route: Callable[[Any, Frame], None]) -> None:
        """Leadership ended while it waited: the pull goes to whoever leads now."""
        self._answered = True
        route(self._client, self._frame)

    def refuse(self, error: ClusterError) -> None:
        """Tell the client about an error."""
        self._answered = True
        self._client.answer(refusal(self._frame, error))
