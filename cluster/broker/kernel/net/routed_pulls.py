"""Pulls: a follower answers found messages, the leader all else; each may carry a commit.

follower   messages found ─► answered here; the commit alone goes to the leader
           not caught up ──► passed on, until it knows all accounts (accounts_known.py)
           nothing found ──► passed on, or held, with its commit
leader     commit, then served
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.net.accounts_known import AccountsKnown
from cluster.broker.kernel.net.hot_paths import Pulls
from cluster.broker.kernel.net.requests import Call
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import FLAG_ONEWAY
from cluster.protocol.headers import (
    PULL_FLAG_COMMIT_OFFSET,
    PullRequest,
    UpdateConsumerOffsetRequest,
    encode,
)
from cluster.security.access_file import Access

Commit = Callable[[Call, UpdateConsumerOffsetRequest], None]


class RoutedPulls:
    """One per router."""

    def __init__(
        self,
        pulls: Pulls,
        leadership: Leadership,
        access: Access,
        known: AccountsKnown,
        at_leader: Callable[[Call, Callable[[], None]], None],
        *,
        commit: Commit,
    ) -> None:
        """`at_leader` runs a step when this node leads, else passes the call's frame on, or holds
        it; `commit` is the function of code 15."""
        self._pulls, self._leadership, self._access = pulls, leadership, access
        self._known, self._at_leader, self._commit = known, at_leader, commit

    def take(self, call: Call, request: PullRequest) -> None:
        """One pull. A oneway one is there for its commit alone."""
        client: Any = call.client
        frame = call.frame
        if frame.flag & FLAG_ONEWAY:
            self._commit_only(call, request)
        elif (
            self._leadership.leads
            or not self._known.is_certain
            or not self._pulls.try_found(client, frame, request)
        ):
            self._at_leader(call, lambda: self._serve(call, request))
        else:
            self._commit_only(call, request)

    def _serve(self, call: Call, request: PullRequest) -> None:
        if _commits(request):
            own = _own_call(call, request)
            own.guarded(lambda: self._commit(own, _commit_of(request)))
        client: Any = call.client
        self._pulls.serve(client, call.frame, request)

    def _commit_only(self, call: Call, request: PullRequest) -> None:
        """Where there are accounts the leader gets the pull itself for that, as it is signed, and
        oneway, so that it is answered once."""
        if not _commits(request):
            return
        own, frame = _own_call(call, request), call.frame
        oneway = call._replace(frame=frame._replace(flag=frame.flag | FLAG_ONEWAY))
        asked = oneway if self._access.is_on else own
        self._at_leader(asked, lambda: self._commit(own, _commit_of(request)))


def _commits(request: PullRequest) -> bool:
    return bool(request.sys_flag & PULL_FLAG_COMMIT_OFFSET) and request.commit_offset >= 0


def _commit_of(request: PullRequest) -> UpdateConsumerOffsetRequest:
    """A pull may carry an offset to commit; that is a request of its own from here on.

    It never takes a group back: a pull that waited for messages, or for a leader, is served
    again by the next leader, long after its consumer committed more. Who means to go back
    says so with code 15. It is of the pull's own group and topic, which were checked.
    """
    return UpdateConsumerOffsetRequest(
        request.consumer_group,
        request.topic,
        request.queue_id,
        request.commit_offset,
        advance_only=True,
    )


def _own_call(call: Call, request: PullRequest) -> Call:
    """The commit as a request: code 15, oneway."""
    code = int(RequestCode.UPDATE_CONSUMER_OFFSET)
    ext = encode(_commit_of(request))
    return call._replace(frame=call.frame._replace(code=code, ext=ext, body=b"", flag=FLAG_ONEWAY))
