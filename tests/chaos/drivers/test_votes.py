"""The course that looks for a forgotten vote: what it tells, and when the run is invalid."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.checkers.verdict import Word
from chaos.drivers import power, votes
from chaos.drivers.loop_disk import Cut
from chaos.drivers.stage import Stage
from chaos.drivers.votes import Vote
from chaos.faults import Target
from chaos.live.judgement import Evidence, Limits, judge_run
from chaos.live.nemesis import Happened
from chaos.schedule import Planned
from dledger.core.messages import VoteReply
from dledger.core.types import HardState, NodeId, Term

VOTE = Vote("n1", "n2", 7)
KEPT = HardState(Term(7), NodeId("n2"), 1)


def always(value: object) -> Any:
    async def function(*_: object, **__: object) -> Any:
        return value

    return function


def reply(*, granted: bool) -> VoteReply:
    return VoteReply(NodeId("n1"), Term(7), Term(7), granted=granted, pre=False)


async def course(
    monkeypatch: pytest.MonkeyPatch, on_disk: HardState | None, answer: VoteReply | None
) -> tuple[str, str]:
    """What it tells, and what it notes as broken."""
    stage = SimpleNamespace(
        disks=object(),
        nodes=("n0", "n1", "n2"),
        notes={},
        folder=lambda _: Path("/nowhere"),
        running=lambda _: True,
        majority_whole=contextlib.nullcontext,
    )
    monkeypatch.setattr(votes, "roles", always(("n0", ["n1", "n2"])))
    monkeypatch.setattr(votes, "_granted", always(VOTE))
    monkeypatch.setattr(votes, "on", lambda *_: stage)
    monkeypatch.setattr(power, "cut", always([Cut("n1", 0, ())]))
    monkeypatch.setattr(votes.regions, "log_folder", lambda data: data)
    monkeypatch.setattr(votes, "hard_state_on_disk", lambda _: on_disk)
    monkeypatch.setattr(votes, "_asked_again", always(answer))
    monkeypatch.setattr(votes, "all_back", always(None))
    told = await votes.vote_then_power_loss(cast(Stage, stage))
    return told, str(stage.notes.get("broken", ""))


async def test_a_vote_that_stands_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told, broken = await course(monkeypatch, KEPT, reply(granted=False))
    assert "its disk has the vote; asked again in term 7 it refused" in told
    assert broken == ""


async def test_without_an_answer_nothing_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await course(monkeypatch, KEPT, None) == ("", "")


@pytest.mark.parametrize(
    "on_disk",
    [None, HardState(Term(6), NodeId("n0"), 1), HardState(Term(7), None, 1)],
)
async def test_a_vote_that_is_not_on_the_disk_is_broken(
    monkeypatch: pytest.MonkeyPatch, on_disk: HardState | None
) -> None:
    assert (await course(monkeypatch, on_disk, reply(granted=False)))[1]


async def test_a_second_vote_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    told, broken = await course(monkeypatch, KEPT, reply(granted=True))
    assert "it granted" in told
    assert "let another one have it" in broken


def test_what_a_course_saw_broken_makes_the_run_invalid() -> None:
    planned = Planned(0, 1.0, "vote-then-power-loss", Target.ALL, 0.0, 1)
    one = Happened(planned, ("n0", "n1", "n2"), 1.0, 2.0, "seen", notes={"broken": "a vote"})
    found = judge_run(
        Evidence([], {}, [one], [], [], "", 3, 5.0, 0.1), Limits(10.0, 10.0, acked_min=0)
    )
    assert ("vote-changed", "a vote") in {(a.name, a.detail) for a in found.verdict.anomalies}
    assert found.word is Word.INVALID
