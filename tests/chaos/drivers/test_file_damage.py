"""What is told of damage: noticed, not noticed, or gone before anybody read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.drivers import file_damage, regions
from chaos.drivers.noticing import Patch
from chaos.live import small_reads
from tests.chaos.drivers.fake_stage import NO_DAMAGE, FakeStage, always, of

WHOLE = b"0123456789"
SAID = "stopped: damage at position 2; keep the files as they are\n"


pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("loop_clock")]


@pytest.fixture
def patch(tmp_path: Path) -> Patch:
    path = tmp_path / "file"
    path.write_bytes(WHOLE)
    return Patch(path, 2, b"23", b"xy", regions.SLOT)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_damage, "ask", always("done"))


class Node(FakeStage):
    """Writes what it is given, and does as it is told, when it starts first."""

    def __init__(self, patch: Patch, *, writes: bytes = b"", **status: Any) -> None:
        super().__init__(patch.path.parent, **status)
        self.patch, self.writes = patch, writes
        self.printed = ""
        self.rows: list[dict[str, object]] = []
        self.was_damaged = False

    async def start(self, _: str) -> None:
        if self.was_damaged:
            return
        self.was_damaged = self.patch.is_there()
        if self.writes:
            self.patch.path.write_bytes(self.writes)
        with (self.path / "log.txt").open("a") as log:
            log.write(self.printed)
        lines = "".join(json.dumps(row) + "\n" for row in self.rows)
        (self.path / small_reads.FILE).write_text(lines)


async def told(node: Node) -> str:
    node.notes |= {"unnoticed": "of the try before", "overwritten": "of the try before"}
    said = await file_damage._with_damage(of(node), [node.patch], "2 bytes")
    assert node.was_damaged
    return said


async def test_damage_that_stands_there_is_not_noticed_and_is_undone(patch: Patch) -> None:
    node = Node(patch)
    assert await told(node) == ""
    assert node.notes == {"unnoticed": "2 bytes; it stands there still", "overwritten": ""}
    assert patch.path.read_bytes() == WHOLE


@pytest.mark.parametrize("written", [WHOLE, b"01ab456789"])
async def test_what_is_gone_unread_has_had_no_effect(patch: Patch, written: bytes) -> None:
    node = Node(patch, writes=written)
    assert await told(node) == ""
    said = "2 bytes; overwritten before anybody read it"
    assert node.notes == {"unnoticed": "", "overwritten": said}
    assert patch.path.read_bytes() == written


async def test_what_is_gone_and_was_taken_for_good_is_not_noticed(patch: Patch) -> None:
    node = Node(patch, writes=WHOLE)
    node.rows = [{"file": "file", "slots": [17, 18], "went_by": 18}]
    assert await told(node) == ""
    assert node.notes["unnoticed"] == "2 bytes; its reader took file for good"
    assert not node.notes["overwritten"]


async def test_what_was_refused_says_what_stands_there_now(patch: Patch) -> None:
    node = Node(patch, writes=WHOLE)
    node.rows = [{"file": "file", "slots": [None, 18], "went_by": 18}]
    assert await told(node) == (
        "2 bytes; it ran: 1 of 1 places are as before, 0 were written anew; "
        "its reader refused slot 0 of file and went by the other one"
    )
    assert node.notes == {"unnoticed": "", "overwritten": ""}


async def test_a_count_is_a_proof_while_the_damage_stands(patch: Patch) -> None:
    log = Patch(patch.path, 2, b"23", b"xy", regions.LOG)
    node = Node(log, repair=NO_DAMAGE | {"found": 2})
    assert await told(node) == "2 bytes; it ran: it counts found: 2"


async def test_a_refusal_is_a_proof_by_its_words_alone(patch: Patch) -> None:
    node = Node(patch)
    node.refused, node.printed = True, SAID
    assert await told(node) == f"2 bytes; it refused to start: {SAID.strip()}"
    crashed = Node(patch)
    crashed.refused, crashed.printed = True, "MemoryError\n"
    assert await told(crashed) == ""
    assert str(crashed.notes["unnoticed"]).endswith("does not say why, but: MemoryError")


async def test_what_came_of_an_earlier_damage_is_no_proof(patch: Patch) -> None:
    (patch.path.parent / small_reads.FILE).write_text(
        json.dumps({"file": "file", "slots": [None, 18], "went_by": 18}) + "\n"
    )
    (patch.path.parent / "log.txt").write_text(SAID)

    class Silent(Node):
        async def start(self, _: str) -> None:
            self.was_damaged |= self.patch.is_there()

    assert await told(Silent(patch)) == ""
