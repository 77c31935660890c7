"""Queues assigned by the broker, and the table of who pulls and who pops."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from cluster.core.assignment import STRATEGIES, assign, average, by_circle
from cluster.core.request_modes import POP, RequestMode, RequestModeTable
from cluster.protocol.json_body import MessageQueue

QUEUES = [MessageQueue("T", name, number) for name in ("b", "a") for number in range(4)]
PULLS = RequestMode("T", "G")


@pytest.mark.parametrize(
    ("members", "queues", "wanted"),
    [
        (3, 8, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (2, 4, [[0, 1], [2, 3]]),
        (4, 2, [[0], [1], [], []]),
        (1, 3, [[0, 1, 2]]),
    ],
)
def test_average_as_java_does_it(members: int, queues: int, wanted: list[list[int]]) -> None:
    assert [average(place, members, queues) for place in range(members)] == wanted


def test_by_circle_as_java_does_it() -> None:
    assert [by_circle(place, 3, 8) for place in range(3)] == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert by_circle(2, 3, 2) == []


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))
def test_every_queue_has_one_owner(strategy: Any) -> None:
    for members, queues in itertools.product(range(1, 9), range(1, 20)):
        given = [i for place in range(members) for i in strategy(place, members, queues)]
        assert sorted(given) == list(range(queues)), (members, queues)


def test_members_and_queues_are_sorted_before_they_are_shared() -> None:
    first = assign(average, "c1", ["c2", "c1"], QUEUES, PULLS)
    second = assign(average, "c2", ["c2", "c1"], QUEUES, PULLS)
    assert first == sorted(QUEUES)[:4]
    assert second == sorted(QUEUES)[4:]
    assert assign(average, "c9", ["c2", "c1"], QUEUES, PULLS) == [], "no member"
    assert assign(average, "c1", ["c1"], [], PULLS) == []


def test_who_pops_may_take_from_every_queue() -> None:
    found = assign(average, "c1", ["c1", "c2"], QUEUES, RequestMode("T", "G", POP))
    assert found == [MessageQueue("T", "a", -1), MessageQueue("T", "b", -1)]


def test_queues_shared_with_the_members_before() -> None:
    members = ["c1", "c2", "c3", "c4"]
    shared = RequestMode("T", "G", POP, 1)
    assert assign(average, "c4", members, QUEUES, shared) == [
        *sorted(QUEUES)[:2], *sorted(QUEUES)[6:],
    ]  # fmt: skip
    all_of_them = RequestMode("T", "G", POP, 99)
    assert assign(average, "c2", members, QUEUES, all_of_them) == sorted(QUEUES)
    few = QUEUES[:2]
    given = [assign(average, name, members, few, shared) for name in members]
    assert given == [[few[0]], [few[1]], [few[0]], [few[1]]], "nobody is left without"


def test_the_table() -> None:
    table = RequestModeTable()
    assert table.get("T", "G").mode == "PULL"
    table.replay(RequestMode("T", "G", POP, 3))
    table.replay(RequestMode("U", "G", POP))
    again = RequestModeTable()
    again.restore([row.to_json() for row in table.rows()])
    assert again.rows() == table.rows()
    assert again.to_json()["messageRequestModeMap"]["T"]["G"]["popShareQueueNum"] == 3
    again.replay_deletion("G")
    assert len(again) == 0
    with pytest.raises(ValueError, match="none of PULL, POP"):
        RequestMode.from_json({"topic": "T", "consumerGroup": "G", "mode": "PUSH"})
