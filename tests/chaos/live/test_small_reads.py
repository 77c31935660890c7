"""What a node's readers refused is written down, by the product's own readers on a real folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.live import small_reads
from chaos.live.small_reads import rows_of
from cluster.broker.kernel.apply import checkpoint
from commitlog.dispatch import dispatch_mark
from commitlog.dispatch.dispatch_mark import DispatchMark
from commitlog.files.system import OsFileSystem
from dledger import RaftConfig, ReplicatedLog
from dledger.durable.double_slot import SLOT_SIZE, DoubleSlot
from dledger.log.cold import ColdReader
from tests.chaos.drivers.conftest import config, data
from tests.dledger.runtime.group import until

__all__ = ["config", "data"]  # fixtures
FILES = OsFileSystem()
HIT = 70  # an entry


@pytest.fixture
def listened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Until the test ends readers of this process write into this folder."""
    for owner, name in (
        (DoubleSlot, "__init__"),
        (ColdReader, "_rewrite_slots"),
        (dispatch_mark, "decode_mark"),
        (checkpoint, "load"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # put back at the end
    folder = tmp_path / "node"
    folder.mkdir()
    small_reads.write_down(folder)
    return folder


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.fixture
def pair(tmp_path: Path, listened: Path) -> Path:
    """A file whose slots hold numbers 3 and 2."""
    path = tmp_path / "pair"
    slots = DoubleSlot.create(FILES, path, b"old", staging=tmp_path / "staging")
    slots.write(b"new")
    slots.close()
    small_reads.forget(listened)
    return path


@pytest.mark.parametrize(
    ("hit", "slots", "went_by"),
    [((), [3, 2], 3), ((0,), [None, 2], 2), ((1,), [3, None], 3), ((0, 1), [None, None], 0)],
)
def test_each_opening_of_a_pair_says_which_slot_it_went_by(
    pair: Path, listened: Path, hit: tuple[int, ...], slots: list[int | None], went_by: int
) -> None:
    for number in hit:
        flip(pair, number * SLOT_SIZE + 21)
    DoubleSlot.open(FILES, pair).close()
    assert rows_of(listened, "pair") == [{"file": "pair", "slots": slots, "went_by": went_by}]


@pytest.mark.parametrize("valid", [True, False])
def test_a_dispatch_mark_is_valid_or_not(tmp_path: Path, listened: Path, valid: bool) -> None:
    (tmp_path / "dispatched").write_bytes(dispatch_mark.encode_mark(DispatchMark(7, 8, {})))
    if not valid:
        flip(tmp_path / "dispatched", 30)
    assert (dispatch_mark.read_mark(FILES, tmp_path) is not None) is valid
    assert rows_of(listened, "dispatched") == [{"file": "dispatched", "valid": valid}]


@pytest.mark.parametrize("valid", [True, False])
def test_so_is_a_saved_state(tmp_path: Path, listened: Path, valid: bool) -> None:
    path = tmp_path / "state.ckpt"
    assert not checkpoint.load(FILES, path, lambda _: None)
    assert not rows_of(listened, "state.ckpt"), "what is not there was not refused"
    path.write_bytes(checkpoint.encode(b"{}"))
    if not valid:
        flip(path, 17)
    assert checkpoint.load(FILES, path, lambda _: None) is valid
    assert rows_of(listened, "state.ckpt") == [{"file": "state.ckpt", "valid": valid}]


@pytest.mark.parametrize("rotten", [True, False])
async def test_a_slot_of_the_index_is_named_when_it_is_refused(
    data: Path, config: RaftConfig, listened: Path, rotten: bool
) -> None:
    if rotten:
        flip(data / "dledger-n0" / "index" / f"{0:020}", HIT * 32 + 11)
    log = ReplicatedLog(config)
    await log.start()
    await until(lambda: log.is_leader)
    await log.read_barrier()
    assert (await log.read(HIT + 1)).index == HIT + 1  # begins where the record before it ends
    await log.close()
    rows = [row["entry"] for row in rows_of(listened, small_reads.INDEX)]
    assert (HIT in rows) is rotten
    assert rotten or not rows


def test_half_a_line_is_passed_over(tmp_path: Path) -> None:
    assert rows_of(tmp_path, "index") == []
    (tmp_path / small_reads.FILE).write_text('{"file": "index", "entry": 7}\n{"file": "ind')
    assert rows_of(tmp_path, "index") == [{"file": "index", "entry": 7}]
    small_reads.forget(tmp_path)
    small_reads.forget(tmp_path)
    assert rows_of(tmp_path, "index") == []


def test_a_reader_does_not_mind_when_nothing_can_be_written(pair: Path, listened: Path) -> None:
    listened.rmdir()
    DoubleSlot.open(FILES, pair).close()
    assert rows_of(listened, "pair") == []
