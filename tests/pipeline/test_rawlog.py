"""Raw files in pieces: every record in exactly one, whatever their size; damage is named."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from commitlog.errors import StoreDamaged, StoreUsageError
from commitlog.records.message import Message
from commitlog.records.record import MAGIC_ENTRY
from commitlog.store.reader import StoreReader
from commitlog.store.store import MessageStore
from pipeline.bench import made
from pipeline.frames.locate import SLOT
from pipeline.options import LogOptions, OptionError, log_options
from pipeline.rawlog import read
from pipeline.rawlog.plan import _Index, plan, share_out
from pipeline.rawlog.read import batches
from pipeline.rawlog.shares import Piece

from .jobs.stores import CONFIG

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
PLAIN = GOLDEN / "java-store" / "normal"
DLEDGER = GOLDEN / "dledger" / "dledger-broker" / "store"
STORES = [PLAIN, GOLDEN / "java-store" / "normal_running1", DLEDGER]
COLUMNS = ("topic", "queue", "offset", "value", "physical_offset", "log_index", "term")


def _rows(options: LogOptions) -> list[dict[str, Any]]:
    return [
        row
        for piece in plan(options)
        for batch in batches(options, piece)
        for row in batch.to_pylist()
    ]


def _expected(store: Path) -> list[tuple[str, int, int, bytes, int]]:
    with StoreReader(store) as reader:
        return [
            (m.topic, m.queue_id, m.queue_offset, bytes(m.body), m.physical_offset)
            for item in reader.items()
            for m in [item.message]
            if m is not None
        ]


def _found(rows: list[dict[str, Any]]) -> list[tuple[str, int, int, bytes, int]]:
    return [
        (row["topic"], row["queue"], row["offset"], row["value"], row["physical_offset"])
        for row in rows
    ]


@pytest.mark.parametrize("piece_bytes", [1 << 10, 3_333, 10_000, 1 << 20])
@pytest.mark.parametrize("store", STORES, ids=lambda path: path.parent.name + path.name)
def test_every_record_once_whatever_the_pieces(store: Path, piece_bytes: int) -> None:
    options = LogOptions(store, columns=COLUMNS, partition_bytes=piece_bytes, internal=True)
    assert _found(_rows(options)) == _expected(store)


@pytest.mark.parametrize("piece_bytes", [1 << 10, 10_000])
def test_without_an_index_the_same(tmp_path: Path, piece_bytes: int) -> None:
    store = tmp_path / "store"
    shutil.copytree(DLEDGER, store)
    for index in store.glob("dledger-*/index"):
        shutil.rmtree(index)
    options = LogOptions(store, columns=COLUMNS, partition_bytes=piece_bytes, internal=True)
    with_index = LogOptions(DLEDGER, columns=COLUMNS, internal=True)
    assert _rows(options) == _rows(with_index)
    assert not any(piece.index for piece in plan(options))
    assert any(piece.index for piece in plan(with_index))


@pytest.mark.parametrize("window", [600, 1_000, 5_000])
def test_records_across_windows_of_the_search(
    tmp_path: Path, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that begins in one window and ends in the next is no damage."""
    monkeypatch.setattr(read, "SEARCH_BYTES", window)
    options = LogOptions(PLAIN, columns=COLUMNS, internal=True)
    assert _found(_rows(options)) == _expected(PLAIN)
    store = tmp_path / "store"
    shutil.copytree(DLEDGER, store)
    for index in store.glob("dledger-*/index"):
        shutil.rmtree(index)
    options = LogOptions(store, columns=COLUMNS, internal=True)
    assert _found(_rows(options)) == _expected(DLEDGER)


@pytest.mark.parametrize("count", [1, 7, 30])
def test_records_of_a_piece_are_counted_by_the_index(count: int) -> None:
    options = LogOptions(DLEDGER, columns=COLUMNS, internal=True, partition_records=count)
    assert _found(_rows(options)) == _expected(DLEDGER)
    sizes = [sum(piece.last_slot - piece.first_slot for piece in s) for s in share_out(options)]
    assert max(sizes) <= count
    assert max(sizes) - min(sizes) <= 1, "equal shares"
    bytes_first = LogOptions(DLEDGER, partition_bytes=1 << 10, partition_records=30)
    assert max(piece.last_slot - piece.first_slot for piece in plan(bytes_first)) < 30


def test_each_index_file_is_read_twice_at_most_however_many_log_files_there_are() -> None:
    """Of 12 index files with 10 entries each, log files hold 3 or 30."""
    slots = np.zeros(10, SLOT)
    slots["magic"], slots["size"] = MAGIC_ENTRY, 100
    texts = {}
    for number in range(12):
        slots["position"] = (np.arange(10) + 10 * number) * 100
        texts[f"{number:020d}"] = slots.tobytes()
    for size in (300, 3_000):
        index = _Index(files := _Files(texts), Path("/index"))
        found = [
            int(position)
            for begin in range(0, 12_000, size)
            for _, rows in index.overlapping(begin, begin + size)
            for position in rows["position"]
            if begin <= position < begin + size
        ]
        assert found == list(range(0, 12_000, 100))
        assert max(files.reads.values()) <= 2


class _Files:
    """Counts how often each file is read."""

    def __init__(self, texts: dict[str, bytes]) -> None:
        self._texts, self.reads = texts, Counter[str]()

    def list(self, folder: Path) -> list[str]:
        return [*self._texts, "not-a-number"]

    def read(self, path: Path) -> bytes:
        self.reads[path.name] += 1
        return self._texts[path.name]


def _addresses(pieces: Iterable[Piece]) -> list[tuple[int, int]]:
    return [(piece.position + piece.begin, piece.position + piece.end) for piece in pieces]


@pytest.mark.parametrize("bytes_max", [100_000, 333_333, 1_000_000, 2_000_000, 1 << 30])
@pytest.mark.parametrize("with_index", [True, False])
def test_shares_are_equal_over_the_ends_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_max: int, with_index: bool
) -> None:
    monkeypatch.setattr(made, "FILE_SIZE", 3 << 20)
    made.make_log(tmp_path, 20_480)
    if not with_index:
        shutil.rmtree(tmp_path / "dledger-n0" / "index")
    options = LogOptions(tmp_path, partition_bytes=bytes_max)
    found = share_out(options)
    sizes = [sum(piece.end - piece.begin for piece in share) for share in found]
    assert len(found) == -(-sum(sizes) // bytes_max), "as few as can be"
    assert max(sizes) - min(sizes) <= 2 * 400, "a record at each end"
    if bytes_max >= 1_000_000:
        assert any(len(share) > 1 for share in found), "one goes on in the next file"
    bounds = _addresses(piece for share in found for piece in share)
    assert bounds == sorted(bounds)
    for (_, end), (begin, _) in pairwise(bounds):
        assert begin == end or (begin % (3 << 20) == 0 and begin - end < 3 << 20)
    if with_index:
        slots = [n for p in plan(options) for n in range(p.first_slot, p.last_slot)]
        assert slots == list(range(20_480))


def test_a_record_longer_than_a_share(tmp_path: Path) -> None:
    """The shares that it covers are left out."""
    made.make_log(tmp_path, 4096, body_size=3000)
    options = LogOptions(tmp_path, partition_bytes=1 << 10, end_index=5)
    assert [share[0].last_slot for share in share_out(options)] == [1, 2, 3, 4, 5]


def test_without_an_index_records_are_not_counted() -> None:
    with pytest.raises(OptionError, match="use bytesPerPartition"):
        plan(LogOptions(PLAIN, partition_records=10))


def test_bounds_of_the_index() -> None:
    options = LogOptions(DLEDGER, columns=COLUMNS, start_index=50, end_index=60)
    assert [row["log_index"] for row in _rows(options)] == list(range(50, 60))
    above = LogOptions(DLEDGER, columns=COLUMNS, start_index=10_000)
    assert _rows(above) == []


def test_internal_topics_are_left_out(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "s", CONFIG) as store:
        for topic in ("T", "rmq_sys_dledger_T"):
            store.put(Message(topic=topic, body=b"x"))
    for word, topics in (("false", {"T"}), ("true", {"T", "rmq_sys_dledger_T"})):
        given = {"path": str(tmp_path / "s"), "columns": "topic", "includeInternal": word}
        assert {row["topic"] for row in _rows(log_options(given))} == topics


def test_a_replica_has_its_label() -> None:
    rows = _rows(LogOptions(PLAIN, columns=("topic",), replica="n1"))
    assert {row["replica"] for row in rows} == {"n1"}


def test_damage_is_named_or_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = tmp_path / "store"
    shutil.copytree(PLAIN, store)
    expected = _expected(PLAIN)
    position = expected[3][4]
    log = min((store / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[position : position + 8] = b"\xff" * 8  # size and magic of one record
    log.write_bytes(data)
    strict = LogOptions(store, columns=COLUMNS, internal=True)
    with pytest.raises(StoreDamaged, match=f"position {position}|{position}"):
        _rows(strict)
    skipping = LogOptions(store, columns=COLUMNS, internal=True, repair="skip")
    with caplog.at_level(logging.WARNING):
        assert _found(_rows(skipping)) == expected[:3] + expected[4:]
    assert "bytes are left out" in caplog.text


@pytest.mark.parametrize("piece_bytes", [1 << 10, 1 << 20])
def test_zeros_before_other_records_are_damage_and_no_end(tmp_path: Path, piece_bytes: int) -> None:
    """As a disk that lost a page leaves them; what is behind them was left out without a word."""
    store = tmp_path / "store"
    shutil.copytree(PLAIN, store)
    expected = _expected(PLAIN)
    log = min((store / "commitlog").iterdir())
    raw = log.read_bytes()
    for number in (0, 3, 20):
        position, behind = expected[number][4], expected[number + 1][4]
        log.write_bytes(raw[:position] + bytes(behind - position) + raw[behind:])
        strict = LogOptions(store, columns=COLUMNS, internal=True, partition_bytes=piece_bytes)
        with pytest.raises(StoreDamaged, match=f"position {position} "):
            _rows(strict)
        skipping = replace(strict, repair="skip")
        assert _found(_rows(skipping)) == expected[:number] + expected[number + 1 :]


@pytest.mark.parametrize("piece_bytes", [1 << 10, 1 << 20])
@pytest.mark.parametrize("store", [PLAIN, DLEDGER], ids=["plain", "entries"])
def test_bytes_that_state_a_long_record_are_damage(
    store: Path, tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any record of a log that is longer than a window, also the first of a later piece."""
    monkeypatch.setattr(read, "SEARCH_BYTES", 1_000)
    copy = tmp_path / "store"
    shutil.copytree(store, copy)
    for index in copy.glob("dledger-*/index"):
        shutil.rmtree(index)
    expected = _expected(store)
    log = min((*copy.glob("commitlog/*"), *copy.glob("dledger-*/data/*")))
    raw, lead = log.read_bytes(), 0 if store is PLAIN else 48
    strict = LogOptions(copy, columns=COLUMNS, internal=True, partition_bytes=piece_bytes)
    skipping = replace(strict, repair="skip")
    for number in range(1, 12):
        begin = expected[number][4] - lead
        log.write_bytes(raw[:begin] + b"\x7f" * (lead + 40) + raw[begin + lead + 40 :])
        with pytest.raises(StoreDamaged, match=f"position {begin} "):
            _rows(strict)
        assert _found(_rows(skipping)) == expected[:number] + expected[number + 1 :]


@pytest.mark.parametrize("slots", [0, 1, 10, 200])
def test_rows_behind_an_index_that_lost_its_end_are_found(tmp_path: Path, slots: int) -> None:
    copy = tmp_path / "store"
    shutil.copytree(DLEDGER, copy)
    for index in copy.glob("dledger-*/index/*"):
        raw = index.read_bytes()
        index.write_bytes(raw[: 32 * slots] + bytes(len(raw) - 32 * slots))
    options = LogOptions(copy, columns=COLUMNS, internal=True)
    assert _found(_rows(options)) == _expected(DLEDGER)


def test_sizes_that_do_not_add_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = tmp_path / "store"
    shutil.copytree(PLAIN, store)
    expected = _expected(PLAIN)
    position = expected[5][4]
    log = min((store / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    data[position + 84 : position + 88] = b"\x7f\xff\xff\xff"  # its body's size
    log.write_bytes(data)
    with pytest.raises(StoreDamaged):
        _rows(LogOptions(store, columns=COLUMNS, internal=True))
    skipping = LogOptions(store, columns=COLUMNS, internal=True, repair="skip")
    with caplog.at_level(logging.WARNING):
        assert _found(_rows(skipping)) == expected[:5] + expected[6:]
    assert "left out" in caplog.text


def test_an_index_that_lies_is_found_out(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(DLEDGER, store)
    log = next(store.glob("dledger-*/data/*"))
    data = bytearray(log.read_bytes())
    data[8:16] = (77).to_bytes(8, "big")  # the first entry's own number
    log.write_bytes(data)
    with pytest.raises(StoreDamaged, match="not what the index says"):
        _rows(LogOptions(store, columns=COLUMNS))


def test_an_open_store_is_refused(tmp_path: Path) -> None:
    with MessageStore(tmp_path / "s", CONFIG) as store:
        store.put(Message(topic="T", body=b"x"))
        with pytest.raises(StoreUsageError, match="running node"):
            plan(LogOptions(tmp_path / "s"))
    assert len(_rows(LogOptions(tmp_path / "s", columns=("value",)))) == 1


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "has no path; give"),
        ({"path": "/x", "colums": "topic"}, "unknown option 'colums'"),
        ({"path": "/x", "columns": "topic,bodie"}, "no column 'bodie'"),
        ({"path": "/x", "startIndex": "one"}, "startIndex is 'one'; give a whole number"),
        ({"path": "/x", "bytesPerPartition": "one"}, "bytesPerPartition is 'one'"),
        ({"path": "/x", "startIndex": "-1"}, "give 0 or more"),
        ({"path": "/x", "startIndex": "5", "endIndex": "5"}, "nothing would be read"),
        ({"path": "/x", "repair": "maybe"}, "strict or skip"),
        ({"path": "/x", "bytesPerPartition": "10"}, "give 1024"),
        ({"path": "/x", "recordsPerPartition": "0"}, "one at least"),
        ({"path": "/x", "recordsPerPartition": "some"}, "whole number"),
        ({"path": "/x", "includeInternal": "yes"}, "true or false"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], what: str) -> None:
    with pytest.raises(OptionError, match=what):
        log_options(given)


def test_right_options() -> None:
    found = log_options(
        {
            "PATH": "file:///x",
            "replica": "n1",
            "startIndex": "3",
            "endIndex": "9",
            "columns": "topic, value",
            "bytesPerPartition": "2048",
            "recordsPerPartition": "70",
            "repair": "skip",
            "includeInternal": "TRUE",
        }
    )
    assert found == LogOptions(
        Path("/x"), "n1", 3, 9, ("topic", "value"), 2048, 70, "skip", internal=True
    )
