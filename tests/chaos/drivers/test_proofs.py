"""A fault that did nothing tells nothing: each proof is empty when its effect was not there."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from chaos.drivers import amnesia, file_damage, hooks, power, processes
from chaos.drivers.file_damage import Patch
from chaos.drivers.loop_disk import Cut
from chaos.drivers.stage import Stage

LOG = "dledger-n0/data/00000000000000000000"
NOTHING = Cut("n0", 0, ())
INDEX_ONLY = Cut("n0", 3, ("dledger-n0/index/00000000000000000000",))
LOST = Cut("n0", 3, (LOG,))
BACK = Cut("n0", 3, (LOG,), written_back=1)
TORN = Cut("n0", 3, (LOG,), torn=True)


def always(value: object) -> Callable[..., Awaitable[Any]]:
    async def function(*_: object, **__: object) -> Any:
        return value

    return function


def in_turn(values: list[Any]) -> Callable[..., Awaitable[Any]]:
    async def function(*_: object, **__: object) -> Any:
        return values.pop(0) if len(values) > 1 else values[0]

    return function


class FakeStage:
    """Nodes that come and go when they are told to, and say what a test wants."""

    nodes = ("n0", "n1", "n2")
    node = "n0"
    seconds = 0.0

    def __init__(self, folder: Path, **status: Any) -> None:
        self.random, self.notes = Random(1), cast(dict[str, object], {})
        repair = {"found": 0, "restored_entries": 0, "mended_slots": 0}
        self.status = {"failed": "", "repair": repair, "committed_index": 0} | status
        self.path, self.refused = folder, False
        self.arena = SimpleNamespace(statuses=self._statuses, leader=always("n1"))

    async def _statuses(self) -> dict[str, Any]:
        self.status["committed_index"] += 7
        return dict.fromkeys(self.nodes, self.status)

    def folder(self, _: str) -> Path:
        return self.path

    def running(self, _: str) -> bool:
        return not self.refused

    def process(self, _: str) -> None:
        return None

    async def started_or_refused(self, _: str) -> bool:
        return self.refused

    async def is_ready(self, _: str) -> bool:
        return not self.refused

    async def start(self, _: str) -> None: ...

    async def up_again(self, _: str) -> float:
        return 0.0

    async def hold(self) -> None: ...

    async def kill(self, _: object) -> None: ...

    @contextlib.contextmanager
    def majority_whole(self) -> Iterator[None]:
        yield

    async def until(self, seen: Callable[[], bool], _: float) -> bool:
        return seen()


@pytest.fixture
def stage(tmp_path: Path) -> FakeStage:
    return FakeStage(tmp_path)


def of(stage: FakeStage) -> Stage:
    return cast(Stage, stage)


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


# -- rot


@pytest.fixture
def patch(tmp_path: Path) -> Patch:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    return Patch(path, 2, b"23", b"xy")


async def damaged(stage: FakeStage, patch: Patch, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(file_damage, "ask", always("done"))
    monkeypatch.setattr(file_damage, "NOTICE_SECONDS_MAX", 0.2)
    return await file_damage._with_damage(of(stage), [patch], "2 bytes")


async def test_damage_that_nobody_noticed_is_no_proof_and_is_undone(
    stage: FakeStage, patch: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await damaged(stage, patch, monkeypatch) == ""
    assert stage.notes["unnoticed"] == "2 bytes"
    assert patch.path.read_bytes() == b"0123456789"


async def test_a_refusal_a_count_and_other_bytes_are_proofs(
    tmp_path: Path, patch: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = FakeStage(tmp_path)
    refused.refused = True
    assert "it refused to start" in await damaged(refused, patch, monkeypatch)
    repair = {"found": 2, "restored_entries": 0, "mended_slots": 0}
    counted = FakeStage(tmp_path, repair=repair)
    assert "it counts found: 2" in await damaged(counted, patch, monkeypatch)
    failed = FakeStage(tmp_path, failed="the log is damaged")
    assert "the log is damaged" in await damaged(failed, patch, monkeypatch)
    mended = FakeStage(tmp_path)

    async def start(_: str) -> None:
        patch.path.write_bytes(b"0123456789")

    monkeypatch.setattr(mended, "start", start)
    assert "1 of 1 places are as before" in await damaged(mended, patch, monkeypatch)


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
