"""Faults of clients and hand-overs: what they ask for, and what they take for an effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.drivers import clients, hooks
from chaos.drivers.stage import Clients, Stage
from chaos.live import client_processes
from chaos.live.client_processes import PausedMember, _Member
from cluster.client import Client
from cluster.errors import ConnectionLost

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("loop_clock")]


def member() -> _Member:
    made = _Member(cast(Any, None), {}, 0)
    made.awake.set()
    return made


async def working(one: _Member) -> None:
    """A process of it, which begins an operation every now and then."""
    while True:  # until it is cancelled
        await one.until_awake()
        await asyncio.sleep(0.005)


class FakeClients:
    def __init__(self, one: _Member) -> None:
        self._member = one

    def pause(self, chance: int) -> PausedMember:
        return PausedMember("client 1.0", self._member)


class FakeStage:
    """Of a cluster of three."""

    node, others, seconds = "n0", ("n1", "n2"), 0.05

    def __init__(self, statuses: dict[str, dict[str, Any] | None] | None = None) -> None:
        self.random, self.notes, self.arena = Random(1), dict[str, object](), self
        self._statuses = statuses or {}

    async def statuses(self) -> dict[str, dict[str, Any] | None]:
        return self._statuses

    async def leader(self) -> str:
        return "n1"

    def folder(self, node: str) -> Path:
        return Path("nowhere")

    async def hold(self) -> None:
        await asyncio.sleep(self.seconds)

    async def until(self, seen: Callable[[], bool], seconds_max: float) -> bool:
        return seen()


async def paused(one: _Member) -> str:
    return await clients.pause(cast(Stage, FakeStage()), cast(Clients, FakeClients(one)))


async def test_a_paused_client_begins_nothing_and_goes_on_afterwards() -> None:
    one = member()
    task = asyncio.ensure_future(working(one))
    assert await paused(one) == "client 1.0 stood still before 1 operations"
    assert one.awake.is_set()
    both = await asyncio.gather(paused(one), paused(one))
    assert all(told for told in both), "each holds it back"
    assert one.awake.is_set()
    task.cancel()


async def test_a_client_without_a_wish_proves_nothing() -> None:
    assert await paused(member()) == ""


async def test_visitors_count_only_when_they_were_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [False] * 5 + [True] * 5

    async def visit(_: Stage) -> bool:
        await asyncio.sleep(0.03)
        return answers.pop(0) if answers else False

    monkeypatch.setattr(clients, "_visit", visit)
    monkeypatch.setattr(clients, "BETWEEN_VISITS_SECONDS", 0.0)
    assert await clients.churn(cast(Stage, FakeStage())) == "5 clients came and went"
    monkeypatch.setattr(clients, "EFFECT_SECONDS_MAX", 0.05)
    assert await clients.churn(cast(Stage, FakeStage())) == ""


@pytest.mark.parametrize(
    ("answers", "is_open", "gave_up"),
    [(False, True, True), (True, True, False), (False, False, False)],
)
async def test_a_request_is_given_up_when_no_answer_came_on_an_open_connection(
    answers: bool, is_open: bool, gave_up: bool
) -> None:
    """A connection that ended says nothing about patience."""

    async def call(_: int, *, time_limit: float) -> None:
        assert time_limit == clients.PATIENCE_SECONDS
        if not answers:
            raise ConnectionLost("no answer in time")

    async def connection(_: str) -> SimpleNamespace:
        return SimpleNamespace(call=call, is_open=is_open)

    impatient = SimpleNamespace(leaders=SimpleNamespace(connection=connection))
    assert await clients._gives_up(cast(Client, impatient), "broker-a") is gave_up


async def test_a_storm_in_which_nobody_gave_up_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def storms(given_up: int, stage: Stage, end: float) -> int:
        return given_up

    for given_up, told in ((3, "15 requests were given up and asked again"), (0, "")):
        monkeypatch.setattr(clients, "_storms", partial(storms, given_up))
        assert await clients.storm(cast(Stage, FakeStage())) == told


async def test_a_fault_of_clients_is_each_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(stage: Stage, *_: object) -> str:
        return str(stage.notes["how"])

    for name in ("vanish", "pause", "churn", "storm"):
        monkeypatch.setattr(clients, name, told)
    stage = cast(Any, FakeStage())
    stage.clients = FakeClients(member())
    assert {await clients.client(stage) for _ in range(30)} == {"vanish", "pause", "churn", "storm"}


def status(last: int, disk: str = "good") -> dict[str, Any]:
    return {"last_index": last, "disk": disk}


@pytest.mark.parametrize(
    ("statuses", "worst", "why"),
    [
        ({"n1": status(90), "n2": status(70)}, "n2", "entry 70"),
        ({"n1": status(90, "stalled"), "n2": status(70)}, "n1", "entry 90, its disk is ill"),
        ({"n1": None, "n2": status(70, "stalled")}, "n1", "no answer"),
    ],
)
async def test_a_hand_over_names_the_worst_follower_first(
    monkeypatch: pytest.MonkeyPatch,
    statuses: dict[str, dict[str, Any] | None],
    worst: str,
    why: str,
) -> None:
    asked: list[str] = []

    async def ask(_: Stage, node: str, *, transfer: str) -> str:
        asked.append(transfer)
        return "" if transfer else "leadership was handed over"

    monkeypatch.setattr(hooks, "ask", ask)
    monkeypatch.setattr(hooks, "HAND_OVER_PAUSE_SECONDS", 0.0)
    firsts: list[Sequence[str]] = []
    for seed in range(12):
        stage = FakeStage(statuses)
        stage.random = Random(seed)
        asked.clear()
        assert await hooks.transfer(cast(Stage, stage)) == "leadership was handed over"
        firsts.append(tuple(asked))
        if len(asked) == 2:
            assert stage.notes == {"asked_for": worst, "asked_for_at": why, "refused": worst}
    assert set(firsts) == {("",), (worst, "")}


def test_the_crowd_has_what_the_drivers_ask_for() -> None:
    assert {name for name in vars(Clients) if not name.startswith("_")} <= set(
        vars(client_processes.ClientProcesses)
    )
