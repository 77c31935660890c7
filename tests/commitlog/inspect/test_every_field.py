"""Whatever field of a closed store's derived files is wrong, the viewer says so: exit code 1.

Only what no reader ever looks at (room behind the last entry, ordinal 0) may hold anything.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from commitlog.config import StoreConfig
from commitlog.files.system import OS_FILES
from commitlog.inspect import main
from commitlog.inspect.geometry import derived_sizes
from commitlog.queues.batch_queue_entry import ENTRY_SIZE as BATCH_SIZE
from commitlog.queues.queue_entry import is_ext_address, tags_code, unpack_entries
from commitlog.queues.queue_ext_unit import UNIT_SIZE_MIN, unpack_ext_unit
from commitlog.records.message import Message
from commitlog.store.store import MessageStore

from ..golden import BROKER, JAVA, PLAIN_CASES, SMALL, copy, rows

Inspect = Callable[..., tuple[int, str, str]]
SLOTS, ENTRY_AT = 40, 40 + 64 * 4


@pytest.fixture
def inspect(capsys: pytest.CaptureFixture[str]) -> Inspect:
    def run(*argv: object) -> tuple[int, str, str]:
        code = main([str(part) for part in argv])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return copy(JAVA / "normal", tmp_path / "store")


def flipped(path: Path, places: Iterator[int] | list[int] | range) -> Iterator[int]:
    """Each place of the file broken in turn, and whole again at the end."""
    whole = path.read_bytes()
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        yield place
    path.write_bytes(whole)


def index_file(root: Path, number: int) -> Path:
    return sorted((root / "index").iterdir())[number]


@pytest.mark.parametrize("number", [0, 3, 6])
def test_the_index(number: int, plain: Path, inspect: Inspect) -> None:
    path = index_file(plain, number)
    data = path.read_bytes()
    used = [SLOTS + 4 * n + 3 for n in range(64) if any(data[SLOTS + 4 * n : SLOTS + 4 * n + 4])]
    fields = (0, 4, 12, 19)  # of an entry: hash, position, seconds, previous
    places = [7, 15, 23, 31, 35, 39, *used[:4]]
    places += [ENTRY_AT + 20 * n + at for n in (1, 2, 5) for at in fields if (n, at) != (1, 12)]
    for place in flipped(path, places):
        code, out, err = inspect(plain, "-o", "json")
        assert code == 1, place
        assert str(plain / "index") in err
        assert json.loads(out)["messages"] == 130
    assert inspect(plain)[0] == 0


def test_after_a_crash_slots_and_header_may_be_of_any_moment(plain: Path, inspect: Inspect) -> None:
    (plain / "abort").write_text("1")
    for _ in flipped(index_file(plain, 6), [SLOTS + 3]):
        assert inspect(plain)[0] == 0


def test_an_index_that_begins_too_late(plain: Path, inspect: Inspect) -> None:
    index_file(plain, 0).unlink()
    code, _, err = inspect(plain)
    assert code == 1
    assert "no entry for a key of the message at 0" in err


def test_a_single_index_file_with_a_broken_header(tmp_path: Path, inspect: Inspect) -> None:
    root = tmp_path / "store"
    with MessageStore(root, SMALL, threads=False) as store:
        for number in range(20):
            store.put(Message(topic="t", body=b"x", properties={"KEYS": f"k{number}"}))
    for place in flipped(index_file(root, 0), [15, 23, 30, 39]):
        code, _, err = inspect(root)
        assert code == 1, place
        assert "index" in err
    whole = index_file(root, 0).read_bytes()
    index_file(root, 0).write_bytes(whole[:16] + b"\x7f" * 16 + whole[32:])
    code, _, err = inspect(root)
    assert code == 1
    assert "fit no number of slots and entries" in err
    code, _, err = inspect(root, "--rebuild", tmp_path / "out")
    assert (code, (tmp_path / "out").exists()) == (2, False)
    given = ["--index-slots", 64, "--index-entries", 40]
    assert inspect(root, "--rebuild", tmp_path / "out", *given)[0] == 1
    assert index_file(tmp_path / "out", 0).read_bytes() == whole


def test_an_index_file_without_an_entry_says_nothing(tmp_path: Path, inspect: Inspect) -> None:
    with MessageStore(tmp_path, SMALL, threads=False) as store:
        store.put(Message(topic="t", body=b"x"))
    (tmp_path / "index").mkdir(exist_ok=True)
    (tmp_path / "index" / "20260101000000000").write_bytes(bytes(1096))
    assert inspect(tmp_path)[0] == 0


def test_batch_queues(plain: Path, inspect: Inspect) -> None:
    (path,) = (plain / "batchconsumequeue").rglob("0" * 20)
    for place in flipped(path, range(BATCH_SIZE)):
        code, _, err = inspect(plain)
        assert code == 1, place
        assert str(path.parent) in err


def test_queue_entries(plain: Path, inspect: Inspect) -> None:
    path = plain / "consumequeue" / "T0" / "0" / f"{0:020d}"
    for place in flipped(path, range(60)):
        assert inspect(plain)[0] == 1, place


def test_a_queue_that_begins_too_late(plain: Path, inspect: Inspect) -> None:
    queue = plain / "consumequeue" / "T0" / "1"
    (queue / f"{0:020d}").unlink()
    code, _, err = inspect(plain)
    assert code == 1
    assert "20 of 23 entries are missing from queue offset 0 on" in err


def test_a_queue_of_which_the_log_knows_nothing(plain: Path, inspect: Inspect) -> None:
    shutil.copytree(plain / "consumequeue" / "T0", plain / "consumequeue" / "T7")
    code, _, err = inspect(plain)
    assert code == 1
    assert "T7/0: its entries point at nothing" in err
    (plain / "consumequeue" / "T7").rename(plain / "consumequeue" / "%LMQ%T7")
    assert inspect(plain)[0] == 0


# ---- the slots of a dledger folder ---------------------------------------------------------------


def test_slots_and_channels_of_a_dledger_folder(tmp_path: Path, inspect: Inspect) -> None:
    root = copy(PLAIN_CASES[3] / "store", tmp_path / "store")
    folder = next(root.iterdir())
    for place in flipped(folder / "index" / f"{2048:020d}", range(32)):
        code, _, err = inspect(folder)
        assert code == 1, place
        assert "the first that of entry 64" in err
    for place in flipped(folder / "data" / f"{16_384:020d}", [*range(16, 24), *range(32, 44)]):
        assert inspect(folder)[0] == 1, place  # term, channel, both checksums
    shutil.rmtree(folder / "index")
    code, _, err = inspect(folder)
    assert code == 0
    assert err.startswith("note: ")
    assert "75 slots from entry 0 on are missing" in err


@pytest.mark.parametrize("what", ["short", "stray"])
def test_odd_files_among_the_slots(what: str, tmp_path: Path, inspect: Inspect) -> None:
    root = copy(BROKER / "store", tmp_path / "store")
    index = root / "dledger-n1" / "index"
    if what == "short":
        (index / f"{8192:020d}").write_bytes(b"?")
    else:
        (index / "notes").write_bytes(b"?")
    code, _, err = inspect(root)
    assert code == 1
    assert str(index) in err


# ---- extension files -----------------------------------------------------------------------------


@pytest.fixture
def extended(tmp_path: Path) -> Path:
    """A store with two extension files, of 1,638 units and the rest."""
    config = StoreConfig(
        commit_log_file_size=1 << 20,
        body_size_max=12_288,
        consume_queue_file_size=20_000,
        consume_queue_ext_enabled=True,
        consume_queue_ext_file_size=32_771,
        index_slots=64,
        index_entries=40,
    )
    root = tmp_path / "extended"
    with MessageStore(root, config, threads=False) as store:
        for _ in range(2):
            tags = ({"TAGS": f"t{n}"} if n % 3 else {} for n in range(900))
            store.put_batch([Message(topic="t", body=b"x", properties=p) for p in tags])
    return root


def ext_tree(root: Path) -> dict[str, bytes]:
    kinds = ("consumequeue", "consumequeue_ext")
    paths = [path for kind in kinds for path in (root / kind).rglob("0*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def test_extension_files_are_rebuilt(extended: Path, tmp_path: Path, inspect: Inspect) -> None:
    assert inspect(extended, "--rebuild", tmp_path / "out")[0] == 0
    tree = ext_tree(tmp_path / "out")
    assert tree == ext_tree(extended)
    assert sum(name.startswith("consumequeue_ext") for name in tree) > 1
    first, second = list(unpack_entries(tree[f"consumequeue/t/0/{0:020d}"]))[:2]
    assert is_ext_address(first.tags_code)
    assert second.tags_code - first.tags_code == UNIT_SIZE_MIN
    unit = unpack_ext_unit(tree[f"consumequeue_ext/t/0/{0:020d}"], UNIT_SIZE_MIN)
    assert unit is not None
    assert unit.tags_code == tags_code("t1")


def test_extension_units(extended: Path, inspect: Inspect) -> None:
    assert inspect(extended)[0] == 0
    for place in flipped(extended / f"consumequeue_ext/t/0/{0:020d}", range(40)):
        code, _, err = inspect(extended)
        assert code == 1, place
        assert "consumequeue_ext/t/0" in err
    for _ in flipped(extended / f"consumequeue/t/0/{0:020d}", [19]):  # another unit's address
        assert inspect(extended)[0] == 1


# ---- folders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [JAVA / "normal", BROKER / "store"], ids=["plain", "dledger"])
def test_the_folder_of_a_node_holds_the_store_in_data(
    store: Path, tmp_path: Path, inspect: Inspect
) -> None:
    copy(store, tmp_path / "n0" / "data")
    (tmp_path / "n0" / "log.txt").write_text("?")
    assert inspect(tmp_path / "n0", "-o", "jsonl") == inspect(store, "-o", "jsonl")


@pytest.mark.parametrize("kind", ["commitlog", "dledger-n0/data"])
@pytest.mark.parametrize("last", ["none", "empty", "zeros"])
def test_a_store_without_messages(kind: str, last: str, tmp_path: Path, inspect: Inspect) -> None:
    folder = tmp_path / kind
    folder.mkdir(parents=True)
    if last != "none":
        (folder / f"{0:020d}").write_bytes(b"" if last == "empty" else bytes(16_384))
    code, out, err = inspect(tmp_path, "-o", "json")
    assert (code, err, json.loads(out)["messages"]) == (0, "", 0)
    assert inspect(tmp_path, "-o", "jsonl") == (0, "", "")
    assert inspect(tmp_path, "--rebuild", tmp_path / "out")[0] == 0
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == [
        "batchconsumequeue",
        "consumequeue",
        "consumequeue_ext",
        "index",
    ]


def test_sizes_of_damaged_index_files_come_from_the_others(plain: Path) -> None:
    for number in (0, 2, 6):
        path = index_file(plain, number)
        path.write_bytes(b"\x7f" * 40 + path.read_bytes()[40:])
    sizes = derived_sizes(OS_FILES, plain)
    assert sizes.index is not None
    assert (sizes.index.slots, sizes.index.entries) == (64, 40)


def test_divisions_that_differ_by_one_entry_are_told_apart(tmp_path: Path) -> None:
    """Five slots take the room of one entry, and a message's keys have the same position."""
    with MessageStore(tmp_path, SMALL, threads=False) as store:
        store.put(Message(topic="t", body=b"", properties={"KEYS": "a b c"}))
        store.put(Message(topic="t", body=b"", properties={"KEYS": "d e f g h i"}))
    sizes = derived_sizes(OS_FILES, tmp_path)
    assert sizes.index is not None
    assert (sizes.index.slots, sizes.index.entries) == (64, 40)


@pytest.mark.parametrize("count", [1, 20])
def test_a_log_that_ends_before_what_was_committed(
    count: int, tmp_path: Path, inspect: Inspect
) -> None:
    """Zeros alone look like the end, and a folder of entries has no queues to tell."""
    root = copy(PLAIN_CASES[3] / "store", tmp_path / "store")
    folder = next(root.iterdir())
    row = rows(PLAIN_CASES[3] / "expected.tsv")[-count]
    path, at = folder / "data" / f"{16_384:020d}", int(row["pos"]) - 16_384
    path.write_bytes(path.read_bytes()[:at].ljust(16_384, b"\0"))
    code, out, err = inspect(folder, "-o", "jsonl")
    assert code == 1
    assert len(out.splitlines()) == 75 - count
    assert f"at position {row['pos']}: the log ends after entry {74 - count}" in err
    assert "entry 74 was committed" in err
