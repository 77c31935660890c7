"""A stage that does what a test says, for proofs of drivers."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from chaos.drivers.stage import Stage

NO_DAMAGE = {"found": 0, "restored_entries": 0, "mended_slots": 0, "damaged": []}


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
        self.status = {"failed": "", "repair": NO_DAMAGE, "committed_index": 0} | status
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


def of(stage: FakeStage) -> Stage:
    return cast(Stage, stage)
