"""The key index on disk against an obvious model; roll, cut, unclean load, query rules."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commitlog.errors import StoreLayoutError
from commitlog.files.system import OS_FILES
from commitlog.index.index_format import QUERY_HITS_MAX, IndexGeometry, key_hash
from commitlog.index.index_service import IndexService

from ..strategies import random_search

GEOMETRY = IndexGeometry(5, 8)  # seven entries a file, long chains
START_MS = 1_700_000_000_000


def open_index(root: Path, geometry: IndexGeometry = GEOMETRY) -> IndexService:
    return IndexService(
        OS_FILES, root / "index", staging=root / "staging", geometry=geometry, now=lambda: 1.0
    )


def sync(index: IndexService) -> None:
    index.capture().run()


def put(index: IndexService, texts: list[tuple[str, int, int]]) -> None:
    index.put(
        [key_hash(f"t#{text}") for text, _, _ in texts],
        [position for _, position, _ in texts],
        [time_ms for _, _, time_ms in texts],
    )


entries = st.lists(
    st.tuples(st.sampled_from(["a", "b", "Aa", "BB", "k1", "k2"]), st.integers(0, 2500)),
    max_size=40,
)


@settings(random_search, max_examples=40)
@given(entries, st.integers(1, 9), st.integers(0, 45))
def test_like_the_model(some: list[tuple[str, int]], batch: int, cut_at: int) -> None:
    stored: list[tuple[str, int, int]] = []
    for number, (text, step) in enumerate(some):
        stored.append((text, number * 10, (stored[-1][2] if stored else START_MS) + step))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        index = open_index(root)
        for begin in range(0, len(stored), batch):
            put(index, stored[begin : begin + batch])
            if begin % 3 == 0:
                sync(index)
        check(index, stored)
        sync(index)
        index.close()
        index = open_index(root)  # the same from the files alone
        check(index, stored)
        times = {position: time_ms for _, position, time_ms in stored}
        index.cut(cut_at * 10, times.__getitem__)
        check(index, stored[:cut_at])
        put(index, stored[cut_at:])
        check(index, stored)
        contents = dump(index)
        index.close()
        index = open_index(root / "again")
        put(index, stored)
        assert dump(index) == contents  # byte for byte as if nothing had been cut
        index.close()


def dump(index: IndexService) -> list[bytes]:
    sync(index)
    return [file.path.read_bytes() for file in index.files]


def check(index: IndexService, stored: list[tuple[str, int, int]]) -> None:
    assert index.entry_count == len(stored)
    for text in ("a", "Aa", "k1", "none"):
        wanted = key_hash(f"t#{text}")
        hits = [at for key, at, _ in reversed(stored) if key_hash(f"t#{key}") == wanted]
        assert index.query("t", text, 99) == hits[:QUERY_HITS_MAX]
        assert index.query("t", text, 2) == hits[:2]


def test_a_query_in_time(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    stored = [("a", n * 10, START_MS + n * 1000) for n in range(30)]
    put(index, stored)
    for begin, end in [(0, 29), (3, 3), (5, 17), (20, 99), (-9, 4), (40, 50), (-9, -1)]:
        hits = index.query("t", "a", 64, START_MS + begin * 1000, START_MS + end * 1000)
        assert hits == [n * 10 for n in range(29, -1, -1) if begin <= n <= end]
    index.close()


def test_a_message_that_fills_a_file_goes_on_in_the_next(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    put(index, [("a", 0, START_MS), ("b", 0, START_MS)] * 5)
    assert [file.count for file in index.files] == [7, 3]
    assert [file.path.name for file in index.files][1] == str(int(index.files[0].path.name) + 1)
    assert index.query("t", "a") == [0] * 5
    index.close()


def test_unclean_load_of_a_foreign_index(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    put(index, [("a", n * 10, START_MS + n * 1000) for n in range(18)])
    sync(index)
    assert index.drop_unsafe(START_MS + 13_000) == 140
    assert [file.count for file in index.files] == [7, 7]
    assert index.drop_unsafe(START_MS + 13_000) is None
    assert index.drop_unsafe(0) == 0
    assert not list((tmp_path / "index").iterdir())
    index.close()


def test_files_go_with_the_log(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    put(index, [("a", n * 10, START_MS) for n in range(18)])
    assert index.drop_before(60) == 0
    assert index.drop_before(61) == 1
    assert index.drop_before(10_000) == 1  # never the last
    assert len(list((tmp_path / "index").iterdir())) == 1
    index.close()


@pytest.mark.parametrize("damage", ["slots", "header", "torn header", "newer file"])
def test_keep_makes_slots_anew(tmp_path: Path, damage: str) -> None:
    """After a power cut slots, header and later files may be of any age; entries are synced."""
    index = open_index(tmp_path)
    stored = [("a" if n % 2 else "b", n * 10, START_MS + n) for n in range(12)]
    put(index, stored)
    sync(index)
    name, following = index.files[-1].path.name, index.files[-1].header.next_ordinal
    wanted = dump(index)
    put(index, [("c", 1000 + n, START_MS + 99) for n in range(6)])
    sync(index)
    index.close()
    path = tmp_path / "index" / name
    data = bytearray(path.read_bytes())
    if damage == "slots":
        data[40:60] = bytes(20)
    elif damage == "header":
        data[36:40] = (1).to_bytes(4, "big")
    elif damage == "torn header":  # newer bounds, the old count, and slots of neither
        data[8:16] = stored[-1][2].to_bytes(8, "big")  # within the same millisecond
        data[24:40] = (5000).to_bytes(8, "big") + bytes(4) + following.to_bytes(4, "big")
        data[40:60] = bytes(20)
    path.write_bytes(data)
    index = open_index(tmp_path)
    assert index.keep(name, following, stored[-1][2])
    check(index, stored)
    assert dump(index) == wanted
    assert not index.keep("20990101000000000", 2, 0)
    index.close()


def test_another_geometry_is_refused(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    put(index, [("a", 0, START_MS)])
    index.close()
    with pytest.raises(StoreLayoutError, match="index sizes"):
        open_index(tmp_path, IndexGeometry(6, 8))


def test_memory_of_full_files_goes_back(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    put(index, [("a", n, START_MS) for n in range(20)])
    sync(index)
    sync(index)
    assert [file._slots is None for file in index.files] == [True, True, False]
    assert index.query("t", "a", 64) == list(range(19, -1, -1))
    index.close()
