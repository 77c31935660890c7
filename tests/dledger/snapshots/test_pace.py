"""States are written at a pace, in pieces, and at once where the node is being closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from commitlog.files.system import OS_FILES
from dledger.core.types import Index, Term
from dledger.log.log_start import LogStart
from dledger.snapshots.pace import AT_ONCE, MAKING_REST_MAX, Pace, pieces
from dledger.snapshots.snapshot_files import SnapshotFolder
from dledger.snapshots.state_file import PIECE
from tests.waiting import limit

START = LogStart(Term(3), Index(700), 0xABCD, 1 << 20, 1 << 20)
RATE = PIECE / 2  # a piece in 2 s


class Clock:
    """Seconds that rests move."""

    def __init__(self) -> None:
        self.now = 100.0
        self.rests: list[float] = []

    def __call__(self) -> float:
        return self.now

    def rest(self, seconds: float) -> None:
        """Time goes by."""
        self.rests.append(seconds)
        self.now += seconds


def test_each_piece_has_its_time_and_what_its_writing_took_is_a_part_of_it() -> None:
    clock = Clock()
    pace = Pace(RATE, clock, clock.rest)
    for took in (0.0, 0.5, 3.0, 0.0):
        pace.before(PIECE)
        clock.now += took
    pace.before(PIECE)
    assert clock.rests == pytest.approx([2.0, 1.5, 2.0]), "nothing is made up for"


def test_a_state_takes_its_bytes_by_the_rate_and_no_longer(tmp_path: Path) -> None:
    clock = Clock()
    folder = SnapshotFolder(OS_FILES, tmp_path)
    (tmp_path / "staging").mkdir()
    state = [b"a" * (2 * PIECE + 10), b"b" * PIECE, b"c" * PIECE]
    folder.save(START, state, Pace(RATE, clock, clock.rest))
    assert clock.now - 100 == pytest.approx(6, abs=0.01), "the last piece is not waited for"
    assert len(clock.rests) == 4
    assert folder.load(START) == b"".join(state)
    folder.save_recent(START, state, Pace(RATE, clock, clock.rest))
    assert len(clock.rests) == 8
    with folder.find_recent(START).open() as file:
        assert file.read() == b"".join(state)


def test_behind_a_part_that_was_long_in_the_making_others_have_as_long() -> None:
    clock = Clock()

    def parts() -> Iterator[bytes]:
        for seconds in (0.03, 5.0, 0.001):
            clock.now += seconds
            yield b"x" * 100

    pace = Pace(100 / 0.002, clock, clock.rest)  # a part in 2 ms
    for _ in pieces(parts(), pace):
        clock.now += 0.5  # to write it is no making
    assert clock.rests == pytest.approx([0.03, MAKING_REST_MAX, 0.001])
    pace.hurry()
    assert len(list(pieces(parts(), pace))) == 3
    assert len(clock.rests) == 3


def test_parts_are_cut_in_pieces_and_none_is_lost() -> None:
    parts = [b"", b"x" * 7, b"y" * (3 * PIECE + 1), b"z" * PIECE]
    found = list(pieces(parts, AT_ONCE))
    assert [len(piece) for piece in found] == [7, PIECE, PIECE, PIECE, 1, PIECE]
    assert b"".join(found) == b"".join(parts)


@pytest.mark.parametrize("hurried", [False, True])
def test_without_a_rate_or_in_a_hurry_there_is_no_rest(hurried: bool) -> None:
    clock = Clock()
    pace = Pace(RATE if hurried else 0, clock, clock.rest)
    if hurried:
        pace.hurry()
    for _ in range(3):
        pace.before(PIECE)
    assert clock.rests == []


def test_a_hurry_ends_the_rest_under_way() -> None:
    pace = Pace(1 / limit(600))
    resting, written = threading.Event(), threading.Event()
    rest = pace._rest

    def told(seconds: float) -> object:
        resting.set()
        return rest(seconds)

    pace._rest = told

    def write() -> None:
        for _ in range(3):
            pace.before(1)
        written.set()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    assert resting.wait(limit(10))
    assert not written.is_set()
    pace.hurry()
    assert written.wait(limit(10))
    thread.join()


def test_a_state_beside_a_log_has_the_rate_for_what_the_log_grew_by_and_else_a_quarter() -> None:
    clock, log_end = Clock(), 7_000_000
    pace = Pace(RATE, clock, clock.rest, lambda: log_end)
    pace.begin()
    for _ in range(3):
        pace.before(PIECE)
    assert clock.rests == pytest.approx([8.0, 8.0]), "the log stands"
    log_end += 5 * PIECE
    for _ in range(4):
        pace.before(PIECE)
    assert clock.rests[2:] == pytest.approx([2.0, 2.0, 2.0, 8.0]), "five pieces, and no more"
    pace.begin()
    pace.before(PIECE)
    assert clock.rests[6:] == pytest.approx([2.0]), "a state has its first piece at once"
    log_end += PIECE
    pace.before(PIECE)
    pace.before(PIECE)
    assert clock.rests[7:] == pytest.approx([2.0, 8.0]), "and what the one before had is its own"
