"""Handlers that decide: records and a response from tables alone, without a broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.broker.admin.groups.settings import PutGroups, forbidden, put_groups
from cluster.broker.admin.topic_requests import create_topic, create_topics, delete_topic
from cluster.broker.consume.assignment_requests import set_request_mode
from cluster.broker.kernel.net.decisions import Decision, WhenSettled
from cluster.broker.kernel.write.rows_in_log import RowsInLog
from cluster.core.apply import AppliedState
from cluster.core.internal_topics import GroupsChanged, RequestModeChanged, TopicsChanged
from cluster.core.request_modes import POP, RequestMode
from cluster.core.subscription_groups import new_group
from cluster.core.topics import TopicConfig, built_in_topics
from cluster.errors import ClusterError, InvalidRequest, QueueFull
from cluster.protocol.admin_headers import GroupForbiddenRequest
from cluster.protocol.headers import CreateTopicRequest, TopicRequest

ORDERS = TopicConfig("orders", 4, 4)


class Ports:
    """Tables and what is on its way; a writer that could not write."""

    def __init__(self) -> None:
        self.state = AppliedState(built_in_topics("C", "B"))
        self.state.topics.replay_put(ORDERS, 1)
        self.queues = SimpleNamespace(bounds=lambda topic, queue: (0, 0))
        self.writer = SimpleNamespace(topics_in_log=RowsInLog(), groups_in_log=RowsInLog())


def create(name: str) -> CreateTopicRequest:
    return CreateTopicRequest(
        topic=name, default_topic="TBW102", read_queue_nums=2, write_queue_nums=2, perm=6
    )


BEAN = new_group("billing")
RETRY = TopicsChanged(create=(TopicConfig("%RETRY%billing", 1, 1),))
BAN = GroupsChanged(forbid={"billing": {"orders": 1}})
CASES: list[tuple[Callable[..., Any], Any, tuple[object, ...]]] = [
    (create_topic, create("new"), (TopicsChanged(create=(TopicConfig("new", 2, 2),)),)),
    (create_topic, create("orders"), (TopicsChanged(put=(TopicConfig("orders", 2, 2),)),)),
    (create_topics, [ORDERS], (TopicsChanged(put=(ORDERS,)),)),
    (create_topics, [], ()),
    (delete_topic, TopicRequest("orders"), (TopicsChanged(delete=("orders",)),)),
    (put_groups, PutGroups([BEAN]), (RETRY, GroupsChanged(put=(BEAN,)))),
    (put_groups, PutGroups([]), ()),
    (forbidden, GroupForbiddenRequest("billing", "orders", readable=False), (BAN,)),
    (forbidden, GroupForbiddenRequest("billing", "orders"), ()),
    (
        set_request_mode,
        RequestMode("orders", "billing", POP),
        (RequestModeChanged(RequestMode("orders", "billing", POP)),),
    ),
]


@pytest.mark.parametrize(("decide", "request_", "changes"), CASES)
def test_a_handler_decides_and_leaves_the_tables_as_they_are(
    decide: Callable[..., Decision], request_: Any, changes: tuple[object, ...]
) -> None:
    ports = Ports()
    before = ports.state.to_checkpoint()
    assert decide(ports, request_).changes == changes
    assert ports.state.to_checkpoint() == before
    assert len(ports.writer.topics_in_log) == len(ports.writer.groups_in_log) == 0


def test_a_handler_that_refuses_decides_nothing() -> None:
    with pytest.raises(InvalidRequest):
        delete_topic(cast(Any, Ports()), TopicRequest("a topic"))


def test_a_topic_with_a_change_on_its_way_is_judged_later() -> None:
    ports = Ports()
    ports.writer.topics_in_log.logged(1, frozenset({"new"}))
    assert create_topic(cast(Any, ports), create("new")) == WhenSettled("new")


class Call:
    def __init__(self) -> None:
        self.said: list[object] = []
        self.client = self.frame = None
        self.router = SimpleNamespace(
            request_again=lambda *_: self.said.append("again"),
            ask_again=lambda *_: self.said.append("next leader"),
        )

    def answer(self) -> None:
        self.said.append("ok")

    def refuse(self, error: Exception) -> None:
        self.said.append(error)

    def done(self, error: Exception | None) -> None:
        self.answer() if error is None else self.refuse(error)

    def guarded(self, step: Callable[[], object]) -> None:
        step()


class Writer:
    def __init__(self, *, changing: bool = True) -> None:
        self.written: list[object] = []
        self.done: Callable[[Exception | None], None] = lambda _: None
        self.changing = changing

    def write(self, change: object, done: Any, *before: object) -> None:
        self.written, self.done = [*before, change], done

    def waits_for(self, topic: str, then: Any) -> bool:
        self.done = then
        return self.changing


def carried_out(decision: Decision | WhenSettled, writer: Writer) -> Call:
    call = Call()
    decision.carry_out(cast(Any, SimpleNamespace(writer=writer)), cast(Any, call))
    return call


def test_the_answer_comes_when_the_changes_are_applied() -> None:
    writer, told = Writer(), list[object]()
    call = carried_out(Decision((RETRY, BAN)), writer)
    assert (writer.written, call.said) == ([RETRY, BAN], [])
    writer.done(None)
    assert call.said == ["ok"]
    call = carried_out(Decision((BAN,), told.append), writer)
    assert not told
    writer.done(None)
    assert (told, call.said) == ([call], [])


def test_changes_that_fail_are_told_and_what_has_none_is_answered_at_once() -> None:
    writer, told = Writer(), list[object]()
    error: ClusterError = QueueFull("full")
    call = carried_out(Decision((BAN,), told.append), writer)
    writer.done(error)
    assert (told, call.said) == ([], [error])
    writer = Writer()
    assert carried_out(Decision(), writer).said == ["ok"]
    call = carried_out(Decision(answer=told.append), writer)
    assert (told, writer.written) == ([call], [])


@pytest.mark.parametrize(("error", "said"), [(None, "again"), (QueueFull("x"), "next leader")])
def test_what_waits_is_judged_again(error: Exception | None, said: str) -> None:
    writer = Writer()
    call = carried_out(WhenSettled("new"), writer)
    assert call.said == []
    writer.done(error)
    assert call.said == [said]
    assert carried_out(WhenSettled("new"), Writer(changing=False)).said == ["again"]
