"""What proves that a node noticed damage, by kind of place; and that each proof can be missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.drivers import noticing, regions
from chaos.drivers.noticing import Patch
from chaos.drivers.words import Words
from chaos.live import small_reads
from commitlog.records.checksum import crc32
from dledger.durable.double_slot import SLOT_SIZE
from tests.chaos.drivers.fake_stage import NO_DAMAGE, FakeStage, of

PREFIX = "2026-11-23 16:00:00.000 ERROR cluster.local: "
LOST = "neither slot of the flush mark is valid (R2); rebuild this replica from its peers"


async def proof(folder: Path, patch: Patch, printed: str = "", **status: Any) -> str:
    """Of a node that did this since the damage."""
    (folder / "log.txt").write_text("stopped: damage at position 7 of an earlier start\n")
    words = Words(folder)
    with (folder / "log.txt").open("a") as log:
        log.write(printed)
    return await noticing.proof(of(FakeStage(folder, **status)), [patch], words)


def at(kind: str, name: str) -> Patch:
    """In the second slot, if it has slots."""
    return Patch(Path(name), 5000, b"23", b"xy", kind)


def slot(number: int) -> bytes:
    """Whole, and empty."""
    head = b"DLS1" + bytes(4) + number.to_bytes(8, "big")
    return (head + crc32(head).to_bytes(4, "big")).ljust(SLOT_SIZE, b"\0")


def wrote_down(folder: Path, *rows: dict[str, Any]) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / small_reads.FILE).write_text(lines)


# -- the log and its index


@pytest.mark.parametrize(
    ("kind", "counted", "seen"),
    [
        (regions.LOG, {}, ""),
        (regions.LOG, {"found": 2}, "it counts found: 2"),
        (regions.LOG, {"restored_entries": 3}, "it counts restored_entries: 3"),
        (regions.LOG, {"damaged": [{"first": 1}]}, "it counts damaged ranges: 1"),
        (regions.LOG, {"mended_slots": 4}, ""),
        (regions.INDEX, {}, ""),
        (regions.INDEX, {"mended_slots": 4}, "it counts mended_slots: 4"),
        (regions.INDEX, {"found": 2}, ""),
        (regions.SLOT, {"found": 2, "mended_slots": 4}, ""),
        (regions.STATE, {"found": 2, "mended_slots": 4}, ""),
    ],
)
async def test_counters_are_of_their_region(
    tmp_path: Path, kind: str, counted: dict[str, Any], seen: str
) -> None:
    patch = at(kind, "00000000000000000000")
    assert await proof(tmp_path, patch, repair=NO_DAMAGE | counted) == seen


@pytest.mark.parametrize(
    ("position", "length", "hit"), [(191, 2, {133, 134}), (192, 32, {134}), (200, 1, {134})]
)
async def test_a_slot_of_the_index_counts_when_it_was_hit(
    tmp_path: Path, position: int, length: int, hit: set[int]
) -> None:
    file = Path("00000000000000004096")  # begins with the slot of entry 128
    log, index = (
        Patch(file, position, b"0" * length, b"x" * length, kind)
        for kind in (regions.LOG, regions.INDEX)
    )
    for entry in range(132, 137):
        wrote_down(tmp_path, {"file": "index", "entry": entry})
        assert bool(await proof(tmp_path, index)) is (entry in hit)
        assert not await proof(tmp_path, log)


# -- small files


@pytest.mark.parametrize(
    ("slots", "went_by", "whole", "counts"),
    [
        ([17, None], 17, False, True),
        ([17, 18], 18, False, False),  # taken for good
        ([None, 18], 18, False, False),  # another one was refused
        ([None, None], 0, False, False),  # says so itself, or went on with nothing
        ([17, None], 18, False, False),  # refused by the rule and taken all the same
        ([17, 15], 17, True, True),
        ([17, 16], 17, True, False),  # the older one, and not the one that was put there
        ([17, 15], 15, True, False),  # it went by the earlier value
        ([17, 18], 18, True, False),
        ([17, 18], 17, True, False),  # it went by the older of the two
        ([17, None], 17, True, False),  # no such value was put there
    ],
)
async def test_a_slot_of_a_pair_counts_when_its_reader_went_by_the_other(
    tmp_path: Path, slots: list[int | None], went_by: int, whole: bool, counts: bool
) -> None:
    first = {"file": "hardstate", "slots": slots, "went_by": went_by}
    later = {"file": "hardstate", "slots": [19, 20], "went_by": 20}
    wrote_down(tmp_path, {"file": "flushmark", "slots": [1, None], "went_by": 1}, first, later)
    patch = at(regions.SLOT, "hardstate")
    if whole:
        number = 18 if slots[1] == 18 else 15
        patch = Patch(patch.path, SLOT_SIZE, b"", slot(number), regions.SLOT, True)
    assert bool(await proof(tmp_path, patch)) is counts
    assert noticing.taken(tmp_path, patch) == "its reader took hardstate for good"


@pytest.mark.parametrize("name", ["hardstate", "dispatched", "state.ckpt"])
async def test_what_nobody_read_was_neither_noticed_nor_taken(tmp_path: Path, name: str) -> None:
    wrote_down(tmp_path, {"file": "flushmark", "slots": [1, None], "went_by": 1})
    patch = at(regions.SLOT if name == "hardstate" else regions.STATE, name)
    assert not await proof(tmp_path, patch)
    assert not noticing.taken(tmp_path, patch)


@pytest.mark.parametrize(("valid", "counts"), [(False, True), (True, False)])
async def test_the_dispatch_mark_counts_when_its_reader_refused_it(
    tmp_path: Path, valid: bool, counts: bool
) -> None:
    later = {"file": "dispatched", "valid": not valid}
    wrote_down(tmp_path, {"file": "dispatched", "valid": valid}, later)
    patch = at(regions.STATE, "dispatched")
    assert bool(await proof(tmp_path, patch)) is counts


async def test_a_saved_state_counts_when_the_node_says_so(tmp_path: Path) -> None:
    said = "/n0/data/state.ckpt cannot be used (magic, version, size or checksum is wrong); all is"
    patch = at(regions.STATE, "state.ckpt")
    seen = await proof(tmp_path, patch, f"{PREFIX}{said}\n")
    assert seen == "it said that state.ckpt cannot be used"
    assert not await proof(tmp_path, patch, f"{PREFIX}/n0/data/state.ckpt cannot be used (old)\n")
    wrote_down(tmp_path, {"file": "state.ckpt", "valid": True})
    assert not await proof(tmp_path, patch)
    assert noticing.taken(tmp_path, patch)


@pytest.mark.parametrize("kind", [regions.LOG, regions.INDEX])
def test_of_the_log_other_bytes_say_nothing_of_reading(tmp_path: Path, kind: str) -> None:
    wrote_down(tmp_path, {"file": "index", "entry": 1})
    assert not noticing.taken(tmp_path, at(kind, "index"))


# -- words


@pytest.mark.parametrize("kind", [regions.LOG, regions.SLOT, regions.STATE, regions.QUEUE])
async def test_an_end_counts_by_the_words_of_damage(tmp_path: Path, kind: str) -> None:
    patch = at(kind, "hardstate")
    assert LOST in await proof(tmp_path, patch, f"{PREFIX}stopped: {LOST}\n{LOST}\n")
    assert LOST in await proof(tmp_path, patch, failed=LOST)
    assert not await proof(tmp_path, patch, f"{PREFIX}{LOST}\n")  # it said so and went on
    assert not await proof(tmp_path, patch, f"{PREFIX}stopped: out of memory\n")
    assert not await proof(tmp_path, patch, failed="[Errno 28] No space left on device")


def test_words_are_those_that_came_since(tmp_path: Path) -> None:
    assert Words(tmp_path).last() == ""
    (tmp_path / "log.txt").write_text("stopped: before\n")
    words = Words(tmp_path)
    assert words.last() == words.line("stopped") == ""
    with (tmp_path / "log.txt").open("a") as log:
        log.write("stopped: one\nstopped: two\nand more\n")
    assert words.line("stopped: ") == "stopped: two"
    assert words.line("stopped: ", "o", "one") == "stopped: one"
    assert words.last() == "and more"
