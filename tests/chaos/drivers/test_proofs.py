"""A fault that did nothing tells nothing: each proof is empty when its effect was not there."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest

from chaos.drivers import amnesia, file_damage, hooks, power, processes
from chaos.drivers.loop_disk import Cut
from chaos.drivers.stage import Stage
from tests.chaos.drivers.fake_stage import FakeStage, always, in_turn, of

LOG = "dledger-n0/data/00000000000000000000"
NOTHING = Cut("n0", 0, ())
INDEX_ONLY = Cut("n0", 3, ("dledger-n0/index/00000000000000000000",))
LOST = Cut("n0", 3, (LOG,))
BACK = Cut("n0", 3, (LOG,), written_back=1)
TORN = Cut("n0", 3, (LOG,), torn=True)


@pytest.fixture
def stage(tmp_path: Path) -> FakeStage:
    return FakeStage(tmp_path)


# -- power


@pytest.mark.parametrize(
    ("fault", "cuts", "counts"),
    [
        (power.power_partial, [NOTHING], False),
        (power.power_partial, [LOST], False),
        (power.power_partial, [NOTHING, BACK], True),
        (power.torn_tail, [NOTHING], False),
        (power.torn_tail, [BACK], False),
        (power.torn_tail, [LOST, LOST, TORN], True),
    ],
)
async def test_a_cut_counts_when_a_page_came_back_or_tore(
    stage: FakeStage, monkeypatch: pytest.MonkeyPatch, fault: Any, cuts: list[Cut], counts: bool
) -> None:
    monkeypatch.setattr(power, "hold_syncs", always(None))
    monkeypatch.setattr(power, "cut", in_turn([[one] for one in cuts]))
    assert bool(await fault(of(stage))) is counts


# -- a folder that is gone


@pytest.mark.parametrize(
    ("refused", "words", "seen", "breaks"),
    [
        (True, "x/dledger-n0 was never formatted for a node; format it once", True, None),
        (True, "MemoryError", False, None),
        (False, "", False, "amnesia"),
    ],
)
async def test_who_starts_without_its_folder_breaks_a_promise(
    stage: FakeStage,
    monkeypatch: pytest.MonkeyPatch,
    refused: bool,
    words: str,
    seen: bool,
    breaks: str | None,
) -> None:
    (stage.path / "data").mkdir()
    (stage.path / "data" / "log").write_text("kept")
    stage.refused = refused
    monkeypatch.setattr(file_damage, "last_line", lambda _: words)
    assert bool(await file_damage.wipe(of(stage))) is seen
    assert stage.notes.get("breaks") == breaks
    assert (stage.path / "data" / "log").read_text() == "kept"


# -- hooks


async def test_without_a_roll_nothing_was_cut(
    stage: FakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no second best: half a record is another fault."""
    asked: list[str] = []

    async def die_at(_: Stage, name: str, *__: object, **___: object) -> str:
        asked.append(name)
        return ""

    monkeypatch.setattr(hooks, "die_at", die_at)
    monkeypatch.setattr(hooks, "_keep_filling", always(None))
    assert await hooks.snapshot_cut(of(stage)) == ""
    assert len(asked) == 1
    assert asked[0].startswith("data.create.")


@pytest.mark.virtual_time
@pytest.mark.usefixtures("loop_clock")
@pytest.mark.parametrize("seed", range(8))
async def test_a_strobe_is_several_skews(
    stage: FakeStage, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    asked: list[object] = []

    async def ask(*_: object, clock: object) -> str:
        asked.append(clock)
        return "clock jumped"

    monkeypatch.setattr(hooks, "ask", ask)
    monkeypatch.setattr(hooks, "STROBE_SECONDS", (0.01, 0.02))
    stage.random, stage.seconds = Random(seed), 0.1
    strobes = Random(seed).random() < 0.5
    told = await hooks.clock(of(stage))
    assert ("skews in turn" in told) is strobes
    assert (len(asked) > 3) is strobes
    assert asked[-1] == {"skip": 0.0, "rate": 1.0, "wall_ms": 0}


# -- the NATS recipe


@contextlib.contextmanager
def hidden(seen: str) -> Iterator[Callable[[], str]]:
    yield lambda: seen


@pytest.mark.parametrize(
    ("cut", "a", "b", "counts"),
    [
        (LOST, "dropped", "dropped", True),
        (NOTHING, "dropped", "dropped", False),
        (INDEX_ONLY, "dropped", "dropped", False),
        (LOST, "", "dropped", False),
        (LOST, "dropped", "", False),
    ],
)
async def test_every_step_of_the_recipe_is_proved(
    stage: FakeStage, monkeypatch: pytest.MonkeyPatch, cut: Cut, a: str, b: str, counts: bool
) -> None:
    seen = [a, b, b]
    monkeypatch.setenv("DLEDGER_RECIPE_SECONDS", "0.01")
    monkeypatch.setattr(amnesia, "on", lambda *_: of(stage))
    monkeypatch.setattr(amnesia, "_hidden", lambda *_, **__: hidden(seen.pop(0)))
    monkeypatch.setattr(power, "hold_syncs", always(None))
    monkeypatch.setattr(power, "cut", always([cut]))
    told = await amnesia.nats_amnesia_partition(of(stage))
    assert bool(told) is counts


async def test_a_recipe_in_which_nothing_was_acknowledged_proves_nothing(
    stage: FakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLEDGER_RECIPE_SECONDS", "0.01")
    monkeypatch.setattr(amnesia, "on", lambda *_: of(stage))
    monkeypatch.setattr(amnesia, "_hidden", lambda *_, **__: hidden("dropped"))
    monkeypatch.setattr(amnesia, "committed", always(5))
    monkeypatch.setattr(power, "hold_syncs", always(None))
    monkeypatch.setattr(power, "cut", always([LOST]))
    assert await amnesia.nats_amnesia_partition(of(stage)) == ""


def test_a_killed_process_that_nobody_has_reaped_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        victim = psutil.Process(child.pid)
        assert not processes.is_dead(victim)
        victim.kill()
        while victim.status() != psutil.STATUS_ZOMBIE:
            pass
        assert processes.is_dead(victim)
    assert processes.is_dead(victim)
