"""What a leader tells of its groups (cluster/broker/clients/notified_groups.py)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.broker.clients.notified_groups import LOOK_SECONDS, SIZE_MAX, NotifiedGroups
from cluster.core.groups import ClientInfo, ClientRegistry
from cluster.nameserver.notify_routes import members_told
from cluster.protocol.heartbeat import ConsumerData
from dledger.runtime.owned import Owned


def told(*rows: tuple[str, int, str]) -> str:
    """The text for groups of so many members of a language."""
    return groups_of(*rows)()


def groups_of(*rows: tuple[str, int, str]) -> NotifiedGroups:
    registry = ClientRegistry()
    for group, members, language in rows:
        for number in range(members):
            info = ClientInfo(f"c{number}", language=language, version=479)
            registry.heartbeat(info, (), (ConsumerData(group, ()),), cast(Any, object()), 0.0)
    return NotifiedGroups(
        registry,
        cast(Any, SimpleNamespace(leads=True)),
        cast(Any, None),
        is_ordered=lambda group: group == "ordered",
        changed=lambda: None,
        is_asked=lambda: True,
    )


def test_one_java_member_is_not_told_the_others_are() -> None:
    assert told(("one", 1, "JAVA"), ("three", 3, "JAVA")) == "three:4"
    assert told(("go", 1, "GO"), ("ordered", 1, "JAVA"), ("ours", 2, "PYTHON")) == (
        "go:0,ordered:0,ours:0"
    )


def test_what_takes_too_much_room_is_cut_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    java, go = f"{'j' * 250}-%d", f"{'a' * 250}-%d"
    rows = [(go % number, 1, "GO") for number in range(1000)]
    groups = groups_of(*rows, (java % 0, 1, "JAVA"), (java % 1, 2, "JAVA"))
    for _ in range(2):
        text = groups()
        assert len(text) <= SIZE_MAX
    found = members_told(text)
    assert found is not None
    assert [found.of(f"%RETRY%{java % number}") for number in (0, 1)] == [1, 2]
    assert found.of(f"%RETRY%{go % 999}") == 0
    assert len(caplog.records) == 1
    many = told(*((java % number, 2, "JAVA") for number in range(1000)))
    assert SIZE_MAX - 300 < len(many) <= SIZE_MAX


def test_a_name_that_would_tear_the_list_apart_is_left_out() -> None:
    assert told(("a,g", 2, "JAVA"), ("*", 1, "GO"), ("\ud800", 2, "JAVA"), ("g:1", 1, "GO")) == ""


class _Counted(ClientRegistry):
    """Says how often its groups were looked through."""

    looks = 0

    def consumer_groups(self) -> Any:
        self.looks += 1
        return super().consumer_groups()


@pytest.mark.virtual_time
async def test_groups_are_counted_once_a_second_and_only_for_a_name_server_that_asks() -> None:
    registry, news, asked, failed = _Counted(), [0], [False], list[BaseException]()
    groups = NotifiedGroups(
        registry,
        cast(Any, SimpleNamespace(leads=True)),
        Owned(failed.append),
        is_ordered=lambda _: False,
        changed=lambda: news.append(1),
        is_asked=lambda: asked[0],
    )
    groups.look.start()

    async def come(name: str) -> None:
        """Ten groups of a Go client in two seconds."""
        for number in range(10):
            channel = cast(Any, object())
            info = ClientInfo("c", language="GO", version=317)
            registry.heartbeat(info, (), (ConsumerData(f"{name}{number}", ()),), channel, 0.0)
            await asyncio.sleep(LOOK_SECONDS / 5)

    await come("a")
    assert (registry.looks, sum(news)) == (0, 0)
    asked[0] = True
    await asyncio.sleep(LOOK_SECONDS)
    before = registry.looks, sum(news)
    await come("b")
    assert registry.looks - before[0] <= 3
    assert 1 <= sum(news) - before[1] <= 3
    groups.look.stop()
    assert failed == []
