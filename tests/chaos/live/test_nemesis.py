"""Who carries out a schedule tries again what found nothing to act on, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from chaos.drivers.stage import Stage
from chaos.faults import Target
from chaos.live import nemesis
from chaos.live.arena import Arena
from chaos.live.nemesis import TRIES_MAX, Happened, Nemesis
from chaos.schedule import Planned
from cluster.errors import ServiceNotAvailable


class Fault:
    """Says what it is told to, one word a try; "!": it cannot be carried out."""

    def __init__(self, *words: str, note: str = "") -> None:
        self.words, self.note, self.tries = list(words), note, 0

    async def __call__(self, stage: Stage) -> str:
        word = self.words[self.tries]
        self.tries += 1
        stage.notes["cuts"] = int(str(stage.notes.get("cuts", 0))) + 1
        if self.note:
            stage.notes[self.note] = "as if nothing had been"
        if word == "!":
            raise OSError("no such disk")
        return word


@pytest.fixture
def back(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nodes that were waited for, one by one."""
    found: list[str] = []

    async def up_again(_: Stage, node: str) -> float:
        found.append(node)
        return 0.5

    monkeypatch.setattr(Stage, "up_again", up_again)
    monkeypatch.setattr(nemesis, "AGAIN_SECONDS", 0.0)
    return found


async def played(fault: Fault, kind: str = "kill", leads: str = "n0") -> Happened:
    async def statuses() -> dict[str, Any]:
        return {}

    async def leader(**_: object) -> str:
        return leads

    cluster = SimpleNamespace(brokers=["n0", "n1", "n2"])
    arena = SimpleNamespace(cluster=cluster, through="proxies", statuses=statuses, leader=leader)
    times = iter(range(100))
    player = Nemesis(cast(Arena, arena), lambda: float(next(times)))
    player._faults = {kind: fault}
    await player.play([Planned(0, 0.0, kind, Target.LEADER, 1.0, 7)])
    return player.happened[0]


async def test_what_found_nothing_is_tried_again_once_its_nodes_are_back(back: list[str]) -> None:
    fault = Fault("", "killed")
    one = await played(fault)
    assert (one.seen, fault.tries, one.notes["tries"]) == ("killed; at try 2", 2, 2)
    assert back == ["n0", "n0"], "before the second try, and at the end"
    assert one.notes["cuts"] == 2, "notes of all tries: what power took is judged by them"
    assert one.began is not None
    assert one.ended is not None
    assert one.began < one.ended


async def test_a_fault_that_never_works_stays_without_effect(back: list[str]) -> None:
    fault = Fault(*[""] * 9)
    one = await played(fault)
    assert (one.took_effect, fault.tries, one.notes["tries"]) == (False, TRIES_MAX, TRIES_MAX)
    assert back


@pytest.mark.parametrize(
    ("leads", "notes"), [("n0", {"cuts": 1}), ("gone", {"cuts": 1, "aim_missed": "leader"})]
)
async def test_a_leader_that_was_not_there_is_noted(
    back: list[str], leads: str, notes: dict[str, object]
) -> None:
    assert (await played(Fault("killed"), leads=leads)).notes == notes


async def test_one_that_works_is_not_repeated(back: list[str]) -> None:
    fault = Fault("dropped bytes: 7", "")
    one = await played(fault, "partition")
    assert (one.seen, fault.tries) == ("dropped bytes: 7", 1)
    assert "tries" not in one.notes
    assert back == ["n0"]


@pytest.mark.parametrize(
    "error", [psutil.NoSuchProcess(7), ServiceNotAvailable("nobody leads"), OSError("no such disk")]
)
async def test_what_cannot_be_carried_out_does_not_end_the_run(
    back: list[str], error: Exception
) -> None:
    async def fault(_: Stage) -> str:
        raise error

    one = await played(cast(Fault, fault))
    assert not one.took_effect
    assert one.error.startswith(type(error).__name__)
    assert back


@pytest.mark.parametrize("note", ["unnoticed", "broken"])
async def test_what_a_node_did_not_notice_is_a_finding(back: list[str], note: str) -> None:
    fault = Fault("", "noticed at the second try", note=note)
    one = await played(fault)
    assert (one.took_effect, fault.tries) == (False, 1)
    assert back


async def test_what_was_overwritten_unread_is_tried_again(back: list[str]) -> None:
    fault = Fault("", "noticed", note="overwritten")
    one = await played(fault)
    assert (one.seen, fault.tries) == ("noticed; at try 2", 2)
    assert back


async def test_what_cannot_be_carried_out_is_told(back: list[str]) -> None:
    fault = Fault("!", "")
    one = await played(fault)
    assert (one.took_effect, fault.tries, one.error) == (False, 1, "OSError: no such disk")
    assert back
