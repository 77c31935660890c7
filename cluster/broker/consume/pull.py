"""Messages of one queue for a consumer (11 and 361).

Source: docs/spec/remoting.md 2.3, docs/spec/store.md 6.7.

    offset within the queue      found 0, or 20 when nothing matched in what was scanned
    offset == end                suspended when the client lets us, else 19
    outside                      21 with where to go, said only after this replica proved that it
                                 leads and is caught up (21 makes consumers throw offsets away)

A follower answers found messages and nothing else (R18). Bodies are the records' bytes as they
stand in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from cluster.broker.config import BrokerConfig
from cluster.broker.consume.long_poll import LongPolls
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.read.queue_reader import Found, QueueReader
from cluster.broker.kernel.read.wanted import Subscriptions, Wanted
from cluster.errors import ClusterError, FlowControlled
from cluster.protocol.codes import ResponseCode
from cluster.protocol.frames import Frame, refusal, response
from cluster.protocol.headers import (
    PULL_FLAG_SUSPEND,
    PullRequest,
    PullResponse,
    encode,
)
from cluster.security.access_file import Access
from commitlog.errors import StoreError
from dledger.errors import DledgerError, NotLeader

_log = logging.getLogger(__name__)


class Client(Protocol):
    """The connection a pull came on."""

    @property
    def closed(self) -> bool:
        """True once the connection has ended."""
        ...

    def answer(self, frame: Frame) -> None:
        """Send a response frame."""
        ...

    def when_writable(self, call: Callable[[], None]) -> None:
        """Now, or when the client has taken the answers before this one."""
        ...


class PullPath:
    """All pulls of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        derived: DerivedStore,
        queues: QueueReader,
        subscriptions: Subscriptions,
        polls: LongPolls,
        access: Access,
        *,
        when_current: Callable[[Callable[[DledgerError | None], None]], None],
        to_error: Callable[[Exception], ClusterError],
        mistake: Callable[[], None],
        ask_again: Callable[[Any, Frame], None],
        judge_again: Callable[[Any, Frame], None],
    ) -> None:
        """`mistake`: told in an `except` that a pull failed by one of ours. `judge_again` serves a
        pull anew, by the rights that its account has now (R29)."""
        self._config, self._derived, self.queues = config, derived, queues
        self.subscriptions, self._polls = subscriptions, polls
        self.when_current, self.to_error, self.mistake = when_current, to_error, mistake
        self.ask_again, self._judge_again, self._access = ask_again, judge_again, access

    def try_found(self, client: Client, frame: Frame, request: PullRequest) -> bool:
        """Answer when there are messages; a follower may do only this by itself (R18)."""
        try:
            self.subscriptions.topic(request)
            wanted = self.subscriptions.wanted(request)
            found = self.queues.scan(request, request.queue_offset, wanted)
        except ClusterError:
            return False
        if found is None or not found.records:
            return False
        client.answer(self._frame(frame, request, 0, found.next_offset, found.records, "FOUND"))
        return True

    def serve(
        self, client: Client, frame: Frame, request: PullRequest, *, waited: bool = False
    ) -> None:
        """Answer on the leader, once all that is applied now is dispatched. Raises the errors that
        the client is answered with.

        When accounts change while it waits for that, it is judged again.
        """
        changes = self._access.changes
        self.subscriptions.topic(request)
        wanted = self.subscriptions.wanted(request)
        if self._derived.behind and not waited and not self._derived.space.why:
            applied = self._derived.applied
            self._derived.when_dispatched(
                applied,
                lambda error: client.when_writable(
                    lambda: self._when_dispatched(client, frame, request, changes, error)
                ),
            )
            return
        found = self.queues.scan(request, request.queue_offset, wanted)
        if found is not None:
            self.answer_found(client, frame, request, found)
            return
        # Not in the queue as dispatched so far: be sure that we lead and see every commit.
        self.when_current(
            lambda error: client.when_writable(
                lambda: self._at_edge(client, frame, request, wanted, changes, error)
            )
        )

    def _when_dispatched(
        self,
        client: Client,
        frame: Frame,
        request: PullRequest,
        changes: int,
        error: DledgerError | None,
    ) -> None:
        if client.closed:
            return
        if self._access.changes != changes:
            self._judge_again(client, frame)
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
        """Answer 0 with the records, or 20 with the offset behind the scan if no message
        matched.
        """
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
        changes: int,
        error: DledgerError | None,
    ) -> None:
        """The bounds are certain now."""
        if client.closed:
            return
        if isinstance(error, NotLeader):
            self.ask_again(client, frame)
            return
        if self._access.changes != changes:
            self._judge_again(client, frame)
            return
        try:
            if error is not None:
                raise self.to_error(error)
            found = self.queues.scan(request, request.queue_offset, wanted)
            if found is not None:
                self.answer_found(client, frame, request, found)
                return
            low, high = self.queues.bounds(request.topic, request.queue_id)
            offset = request.queue_offset
            if offset != high:
                moved_to = low if offset < low else high
                remark = "OFFSET_TOO_SMALL" if offset < low else "OFFSET_OVERFLOW_BADLY"
                code = ResponseCode.PULL_OFFSET_MOVED
                client.answer(self._frame(frame, request, code, moved_to, (), remark))
            elif request.sys_flag & PULL_FLAG_SUSPEND and request.suspend_timeout_millis > 0:
                self._suspend(client, frame, request, wanted)
            else:
                self.answer_nothing(client, frame, request, offset)
        except (ClusterError, StoreError) as refused:
            client.answer(refusal(frame, self.to_error(refused)))

    def _suspend(
        self,
        client: Client,
        frame: Frame,
        request: PullRequest,
        wanted: Wanted,
    ) -> None:
        seconds = min(request.suspend_timeout_millis / 1000, self._config.long_poll_seconds_max)
        if not self._polls.suspend(WaitingPull(self, client, frame, request, wanted), seconds):
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

    def _frame(
        self,
        frame: Frame,
        request: PullRequest,
        code: int,
        next_offset: int,
        records: list[bytes | memoryview] | tuple[()],
        remark: str,
    ) -> Frame:
        low, high = self.queues.bounds(request.topic, request.queue_id)
        ext = encode(PullResponse(next_begin_offset=next_offset, min_offset=low, max_offset=high))
        return response(frame, code, ext, b"".join(records), remark)


class WaitingPull:
    """A suspended pull; see long_poll.py."""

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
        """The topic of the request."""
        return self._request.topic

    @property
    def queue_id(self) -> int:
        """The number of the request's queue."""
        return self._request.queue_id

    @property
    def settled(self) -> bool:
        """True once it was answered or sent elsewhere, or its connection has closed."""
        return self._answered or self._client.closed

    def wake(self) -> None:
        """Scan the new messages: answer, or move `offset` on. An error is told to this client
        only.
        """
        self._guarded(self._look)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # whatever it is: this pull alone is refused
            if not isinstance(error, ClusterError | StoreError):
                self._path.mistake()
            self.refuse(self._path.to_error(error))

    def _look(self) -> None:
        found = self._path.queues.scan(self._request, self.offset, self._wanted)
        if found is None:
            return
        if found.records:
            self._answered = True
            self._path.answer_found(self._client, self._frame, self._request, found)
        else:
            self.offset = found.next_offset

    def expire(self) -> None:
        """Answer that there is no message: 19, or 20 when the scan moved on."""
        self._answered = True
        nothing, client = self._path.answer_nothing, self._client
        self._guarded(lambda: nothing(client, self._frame, self._request, self.offset))

    def route_again(self, route: Callable[[Any, Frame], None]) -> None:
        """Leadership ended while the pull waited: send it to the present leader."""
        self._answered = True
        route(self._client, self._frame)

    def refuse(self, error: ClusterError) -> None:
        """Tell the client about an error."""
        self._answered = True
        self._client.answer(refusal(self._frame, error))
