"""Queues are derived: a broken one costs its own lookups at most, never a message to come."""

from __future__ import annotations

from pathlib import Path

import pytest

from commitlog.errors import StoreDamaged
from commitlog.queues.queue_entry import ENTRY
from commitlog.records.message import Message
from commitlog.store.store import MessageStore

from ..golden import JAVA, JAVA_END, SMALL, copy

QUEUE = f"consumequeue/T0/0/{0:020d}"


def overwrite(path: Path, number: int, position: int, size: int) -> None:
    data = bytearray(path.read_bytes())
    data[number * 20 : number * 20 + 20] = ENTRY.pack(position, size, 0)
    path.write_bytes(data)


def made_by_us(folder: Path) -> Path:
    with MessageStore(folder, SMALL, threads=False) as store:
        for number in range(5):
            store.put(Message("T0", b"%d" % number))
            store.put(Message("T1", b"%d" % number))
    return folder


@pytest.mark.parametrize("ours", [True, False], ids=["with our mark", "Java's"])
@pytest.mark.parametrize(
    ("position", "size"), [(1 << 50, 100), (JAVA_END - 50, 40), (0, (1 << 31) - 2)]
)
def test_a_last_entry_that_lies(ours: bool, position: int, size: int, tmp_path: Path) -> None:
    """It claims a later message than there is; new ones would count as repeats."""
    root = made_by_us(tmp_path / "s") if ours else copy(JAVA / "normal", tmp_path / "s")
    path = root / QUEUE
    count = sum(entry[1] > 0 for entry in ENTRY.iter_unpack(path.read_bytes()))
    overwrite(path, count - 1, position, size)
    for _ in range(2):
        with MessageStore(root, SMALL, threads=False) as store:
            put = store.put(Message("T0", b"new", {"KEYS": "mine"}))
            assert store.get("T0", 0, put.queue_offset)[0].body == b"new"
            other = store.put(Message("T1", b"other"))
            assert store.get("T1", 0, other.queue_offset)[0].body == b"other"
            assert store.query("T0", "mine")[-1].body == b"new"


@pytest.mark.parametrize(
    ("position", "said"),
    [(1 << 50, "points outside the log"), (None, "points at a message of T1/0")],
)
def test_an_entry_in_the_middle_is_damage(position: int | None, said: str, tmp_path: Path) -> None:
    root = made_by_us(tmp_path)
    with MessageStore(root, SMALL, threads=False) as store:
        other = store.get("T1", 0, 3, 1)[0]
    place = other.physical_offset if position is None else position
    overwrite(root / QUEUE, 1, place, other.record_size)
    with MessageStore(root, SMALL, threads=False) as store:
        with pytest.raises(StoreDamaged, match=said):
            store.get("T0", 0, 1, 1)
        assert [message.body for message in store.get("T0", 0, 2)] == [b"2", b"3", b"4"]
