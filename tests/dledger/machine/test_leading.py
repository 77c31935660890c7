"""The leader's side of commands that a follower hands over."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from dledger.core.types import NodeId
from dledger.errors import NotLeader
from dledger.machine.entries import Kind
from dledger.machine.leading import Leading
from dledger.wire.forwards import Asker, Forward, ForwardReason, ForwardReply, pack_reply
from tests.waiting import within


class Log:
    """A log that leads; the test ends what was appended."""

    def __init__(self) -> None:
        self.appended: asyncio.Future[range] = asyncio.get_running_loop().create_future()
        self.told: list[str] = []
        self.replies: list[Any] = []
        self.is_open = self.is_leader = True
        self.entry_size_max = 1000
        self.owned = self
        self.driver = SimpleNamespace(
            clock=SimpleNamespace(time_ms=lambda: 0),
            tell_commit=self.told.append,
            transport=SimpleNamespace(forward=lambda _, frame: self.replies.append(frame)),
        )

    def append_at_once(self, entries: list[bytes]) -> asyncio.Future[range]:
        return self.appended

    def when_done(self, future: asyncio.Future[range], call: Any) -> None:
        future.add_done_callback(call)


@pytest.mark.parametrize("commits", [True, False])
async def test_the_follower_is_told_how_its_command_ended(commits: bool) -> None:
    """Committed: the commit, for it reads the result of its own apply. Refused: why."""
    log: Any = Log()
    applier: Any = SimpleNamespace(sessions=SimpleNamespace(results=lambda _: {}))
    leading = Leading(log, applier)
    leading.take(NodeId("n2"), Forward(Asker(1, 7), 3, 1, [(Kind.COMMAND, 1, b"x")]))
    assert (log.told, log.replies) == ([], [])
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    if commits:
        log.appended.set_result(range(5, 6))
    else:
        log.appended.set_exception(NotLeader(None))
    log.appended.add_done_callback(lambda _: ended.set_result(None))
    await within(ended, "the end of it")
    if commits:
        assert (log.told, log.replies) == ([NodeId("n2")], [])
    else:
        refusal = pack_reply(ForwardReply(Asker(1, 7), ForwardReason.NOT_LEADER, -1))
        assert (log.told, log.replies) == ([], [refusal])
