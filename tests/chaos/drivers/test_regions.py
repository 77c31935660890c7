"""Which bytes may be damaged, of a real folder; and that the product notices each of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chaos.drivers import regions
from chaos.drivers.noticing import Patch
from chaos.drivers.regions import INDEX, LOG, SLOT, Region
from chaos.drivers.stand_in import hard_state_on_disk
from commitlog.files.system import OsFileSystem
from dledger.core.types import Index
from dledger.durable.double_slot import SLOT_SIZE, decode_slot
from dledger.durable.flush_mark import MarkFile
from tests.chaos.drivers.conftest import ENTRIES


def of_kind(data: Path, kind: str) -> list[Region]:
    return [region for region in regions.regions(data) if region.kind == kind]


async def test_the_log_is_hit_up_to_what_is_known_to_be_on_disk(data: Path) -> None:
    files = of_kind(data, LOG)
    assert len(files) == 2
    mark = regions.mark_of(data)
    last = max(files, key=lambda region: region.path.name)
    assert int(last.path.name) + last.end > mark.position
    for region in files:
        raw = region.path.read_bytes()
        assert raw[region.end - 1] or raw[region.end - 2]  # of a record, and no room behind it
        assert int(region.path.name) + region.end <= mark.position + 600


async def test_slots_of_the_index_are_those_of_such_records(data: Path) -> None:
    (index,) = of_kind(data, INDEX)
    assert index.begin == regions.first_index(regions.log_folder(data), regions.mark_of(data)) * 32
    assert (index.end - index.begin) // 32 >= ENTRIES


async def test_what_a_start_writes_anew_is_not_hit(data: Path) -> None:
    """Slots above the mark's `slots`: rot there is gone before anybody reads it."""
    folder, mark = regions.log_folder(data), regions.mark_of(data)
    file = MarkFile.open(OsFileSystem(), folder)
    file.write_both(replace(mark, slots=Index(50)))
    file.close()
    (index,) = of_kind(data, INDEX)
    assert index.end == 50 * 32


async def test_one_slot_of_a_pair_is_one_region(data: Path) -> None:
    slots = of_kind(data, SLOT)
    assert {(one.path.name, one.begin // SLOT_SIZE) for one in slots} == {
        (name, number) for name in regions.DOUBLE_SLOTS for number in (0, 1)
    }
    for one in slots:
        raw = one.path.read_bytes()[one.begin // SLOT_SIZE * SLOT_SIZE :][:SLOT_SIZE]
        flipped = bytearray(raw)
        flipped[one.end - one.begin - 1] ^= 1
        assert decode_slot(raw) is not None
        assert decode_slot(bytes(flipped)) is None  # its last byte counts


async def test_the_vote_on_disk_is_read_and_not_touched(data: Path) -> None:
    folder = regions.log_folder(data)
    before = (folder / "hardstate").read_bytes()
    found = hard_state_on_disk(folder)
    assert found is not None
    assert found.term >= 1
    assert found.voted_for == "n0"
    assert (folder / "hardstate").read_bytes() == before
    (folder / "hardstate").write_bytes(bytes(2 * SLOT_SIZE))
    assert hard_state_on_disk(folder) is None


@pytest.fixture
def patch(tmp_path: Path) -> Patch:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    patch = Patch(path, 2, b"23", b"xy")
    patch.apply()
    return patch


def test_damage_is_there_until_somebody_writes(patch: Patch) -> None:
    assert patch.path.read_bytes() == b"01xy456789"
    assert patch.is_there()
    assert not patch.is_repaired()
    assert patch.undo()
    assert patch.is_repaired()
    assert not patch.is_there()


def test_what_was_written_since_is_left_alone(patch: Patch) -> None:
    patch.path.write_bytes(b"01ab456789")
    assert not patch.is_there()
    assert not patch.is_repaired()
    assert not patch.undo()
    assert patch.path.read_bytes() == b"01ab456789"


def test_a_file_that_is_gone_holds_no_damage(patch: Patch) -> None:
    patch.path.unlink()
    assert not patch.is_there()
    assert not patch.undo()
