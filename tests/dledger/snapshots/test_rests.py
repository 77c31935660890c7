"""A thread that works for long rests behind each ms of it, and before each read of a state."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest

from dledger.snapshots.rests import REST_MAX, REST_SHARE, WORK_SECONDS, Rests
from dledger.snapshots.state_file import buffered


class Work:
    """A clock that work and rests carry on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rested: list[float] = []
        self.rests = Rests(lambda: self.now, self.rest)

    def rest(self, seconds: float) -> None:
        self.rested.append(seconds)
        self.now += seconds

    def does(self, seconds: float) -> None:
        self.now += seconds
        self.rests.between()


def test_it_rests_behind_enough_work_for_half_of_it() -> None:
    work = Work()
    for _ in range(10):
        work.does(WORK_SECONDS * 0.4)
    assert work.rested == pytest.approx([WORK_SECONDS * 1.2 * REST_SHARE] * 3)
    work.does(60.0)
    assert work.rested[3] == REST_MAX


def test_time_before_it_begins_is_no_work() -> None:
    work = Work()
    work.now += 5.0
    work.rests.begin()
    work.rests.between()
    assert work.rested == []


def test_a_node_that_is_closed_waits_for_no_rest() -> None:
    work = Work()
    work.rests.hurry()
    work.does(1.0)
    assert work.rested == []
    Rests().hurry()


@pytest.mark.parametrize(
    ("read", "count"),
    [
        (lambda file: b"".join(file), 501),
        (lambda file: b"".join(file.readlines()), 501),
        (lambda file: b"".join(iter(file.readline, b"")), 501),
        (lambda file: b"".join(iter(partial(file.read, 100), b"")), 52),
        (lambda file: b"".join(iter(partial(file.read1, 100), b"")), 52),
        (lambda file: file.read(), 1),
    ],
)
def test_a_reader_rests_before_each_read(
    tmp_path: Path, read: Callable[[BinaryIO], bytes], count: int
) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"ten bytes\n" * 500 + b"and the end" * 5)
    calls: list[None] = []
    with buffered(io.FileIO(path), lambda: calls.append(None)) as file:
        assert read(file) == path.read_bytes()
    assert len(calls) == count + (count == 501)
    with buffered(io.FileIO(path), lambda: calls.append(None)) as file:
        array = bytearray(10)
        calls.clear()
        assert (file.readinto(array), bytes(array), len(calls)) == (10, b"ten bytes\n", 1)  # type: ignore[attr-defined]
