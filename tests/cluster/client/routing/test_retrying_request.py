"""A request again and again until a leader answers; what a repeat cannot know is said."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import cluster
from cluster.client import Admin, ClientConfig
from cluster.client.message import Receipt
from cluster.client.routing.leader_requests import RetryingRequest
from cluster.errors import (
    ClusterError,
    ConnectionLost,
    IllegalOperation,
    NotLeader,
    OutcomeUnknown,
    QueueFull,
    ServerError,
)
from cluster.protocol.frames import Frame
from cluster.protocol.json_body import MessageQueue

from ..stub_cluster import StubGroup

pytestmark = pytest.mark.virtual_time

QUEUE = MessageQueue("T", "broker-a", 0)
DELAYED = Receipt(QUEUE, 0, 1, 1, 0, b"UNIQ_KEY\x01K\x02TIMER_DELAY_MS\x019\x02")


class Script:
    """What happens to each attempt, in order; `looked`: whether it asked who leads."""

    def __init__(self, *outcomes: ClusterError | Frame) -> None:
        self.outcomes = list(outcomes)
        self.looked: list[bool] = []

    def play(self, patch: pytest.MonkeyPatch) -> Script:
        """Take the place of the network."""

        async def once(
            _: RetryingRequest, code: int, ext: Mapping[str, str], body: bytes, *, look: bool
        ) -> Frame:
            self.looked.append(look)
            outcome = self.outcomes.pop(0)
            if isinstance(outcome, ClusterError):
                raise outcome
            return outcome

        patch.setattr(RetryingRequest, "_ask_once", once)
        return self


async def ask(time_limit: float = 5.0) -> Frame:
    async with cluster.connect("127.0.0.1:1") as mq:
        return await RetryingRequest(mq.instance, QUEUE, time_limit=time_limit).ask(
            37, {}, final=ServerError
        )


async def test_it_looks_for_the_leader_when_the_route_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Frame(0, 1)
    script = Script(NotLeader(), QueueFull("busy"), ConnectionLost("gone"), found).play(monkeypatch)
    assert await ask() is found
    assert script.looked == [False, True, False, True]


@pytest.mark.parametrize("error", [IllegalOperation("no"), ServerError("the first one counts")])
async def test_a_refusal_ends_it(monkeypatch: pytest.MonkeyPatch, error: ClusterError) -> None:
    script = Script(error).play(monkeypatch)
    with pytest.raises(type(error)):
        await ask()
    assert len(script.looked) == 1


async def test_who_does_not_answer_is_not_asked_again(group: StubGroup) -> None:
    """A leader that is paused keeps its connections; no name server knows better yet."""
    settings = ClientConfig(request_timeout=0.2, stall_timeout=0.1)
    async with cluster.connect(group.nameserver.address, config=settings) as mq:
        admin = Admin(mq)
        assert (await admin.describe_topic("T")).message_count == 0
        group.nodes[0].is_frozen = True
        group.elect(group.nodes[1], register=False)
        with pytest.raises(ConnectionLost):
            await admin.describe_topic("T")
        assert (await admin.describe_topic("T")).message_count == 0


async def test_its_time_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Script(NotLeader(), NotLeader()).play(monkeypatch)
    with pytest.raises(NotLeader):
        await ask(time_limit=0.0)


async def test_a_recall_that_may_have_worked_is_not_called_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster.connect("127.0.0.1:1") as mq, mq.producer() as producer:
        Script(ConnectionLost("gone"), IllegalOperation("recalled")).play(monkeypatch)
        with pytest.raises(OutcomeUnknown, match="may have recalled it"):
            await producer.recall(DELAYED)
        Script(QueueFull("busy"), IllegalOperation("delivered")).play(monkeypatch)
        with pytest.raises(IllegalOperation):
            await producer.recall(DELAYED)
