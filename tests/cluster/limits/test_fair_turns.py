"""One connection gets a bounded share of each turn of the event loop."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import pytest

from cluster.limits import fair_turns
from cluster.limits.fair_turns import (
    BYTES_PER_SECOND,
    OTHERS_SECONDS,
    PIECE_SECONDS_MAX,
    PIECE_SIZE,
    PIECE_SIZE_MIN,
    REQUEST_COST,
    REST_FACTOR,
    REST_SECONDS_MAX,
    REST_SECONDS_MIN,
    TURN_BYTES_MAX,
    TURN_COST_MAX,
    TURN_SECONDS_MAX,
    Debt,
    FairQueue,
    Neighbours,
    Turn,
)

PER_TURN = TURN_COST_MAX // REQUEST_COST


class Transport:
    """Notes whether it is read from."""

    def __init__(self) -> None:
        self.reads = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Connection:
    """A queue under test, its event loop one turn at a time, and a clock that serving moves.

    Requests are numbers of four bytes; `zeros` of them are bytes of a frame that is not whole yet.
    """

    def __init__(
        self,
        seconds_each: float = 0.0,
        *,
        decode_seconds_each: float = 0.0,
        refuses: bool = False,
        neighbours: Neighbours | None = None,
    ) -> None:
        self.turns: deque[Callable[[], None]] = deque()
        self.rests: list[tuple[float, Callable[[], None]]] = []
        self.served: list[int] = []
        self.pieces: list[int] = []
        self.ended = False
        self.pause_at: int | None = None
        self.end_at: int | None = None
        self._seconds_each, self._decode_seconds_each = seconds_each, decode_seconds_each
        self._refuses, self.now = refuses, 0.0
        self.transport = Transport()
        self.queue: FairQueue[int] = FairQueue(
            self._serve,
            self._end,
            self._decode,
            neighbours or Neighbours(),
            call_soon=self.turns.append,
            call_later=lambda seconds, step: self.rests.append((seconds, step)),
            now=lambda: self.now,
            used=lambda: self.now,
        )
        self.queue.connected(self.transport)  # type: ignore[arg-type]

    def read(self, numbers: Iterable[int]) -> None:
        self.queue.read(array("i", numbers).tobytes())

    def _decode(self, piece: bytes) -> Sequence[int]:
        self.pieces.append(len(piece))
        found = [number for number in array("i", piece) if number >= 0]
        self.now += self._decode_seconds_each * len(found)
        if self.end_at in found:
            self.queue.end()
        return found

    def _serve(self, requests: Sequence[int], turn: Turn) -> int:
        for number, request in enumerate(requests):
            if self.queue.is_paused:
                return number
            self.served.append(request)
            self.now += self._seconds_each
            if self._refuses:
                turn.refused(1)
            if request == self.pause_at:
                self.queue.pause()
            if turn.spend(REQUEST_COST):
                return number + 1
        return len(requests)

    def _end(self) -> None:
        self.ended = True

    def turn(self) -> None:
        self.turns.popleft()()

    def rest(self) -> float:
        """Until the rest that was begun is over; its seconds."""
        ((seconds, step),) = self.rests
        self.rests.clear()
        self.now += seconds
        step()
        return seconds


def _busy() -> Neighbours:
    """Another connection is served now."""
    neighbours = Neighbours()
    neighbours.served("another one", 0.0)
    return neighbours


def test_requests_over_the_bound_wait_for_next_turn_in_order() -> None:
    found = Connection()
    found.read(range(3 * PER_TURN))
    assert found.served == list(range(PER_TURN))
    assert not found.transport.reads
    found.turn()
    assert found.served == list(range(2 * PER_TURN))
    found.turn()
    assert found.served == list(range(3 * PER_TURN))
    assert not found.transport.reads, "this turn has had its share"
    found.turn()
    assert found.transport.reads
    assert not found.turns


def test_what_is_read_in_several_pieces_in_one_turn_shares_its_bound() -> None:
    """A loop reads one socket up to 32 times before it looks at anybody else."""
    found = Connection()
    for first in range(0, 3 * PER_TURN, PER_TURN // 2):
        found.read(range(first, first + PER_TURN // 2))
    assert found.served == list(range(PER_TURN))
    assert not found.transport.reads
    found.turn()
    assert found.served == list(range(2 * PER_TURN))


def test_what_comes_of_a_frame_that_is_not_whole_counts_too() -> None:
    found = Connection()
    for _ in range(TURN_BYTES_MAX // (1 << 18) - 1):
        found.queue.read(b"\xff" * (1 << 18))
    assert found.transport.reads
    found.queue.read(b"\xff" * (1 << 18))
    assert not found.transport.reads
    found.turn()
    assert found.transport.reads
    found.turn()
    assert not found.turns


def test_requests_that_take_long_end_the_turn_by_time() -> None:
    found = Connection(seconds_each=TURN_SECONDS_MAX)
    found.read(range(3))
    assert found.served == [0]
    found.turn()
    assert found.served == [0, 1]


def test_requests_read_while_others_wait_are_served_after_them() -> None:
    found = Connection()
    found.read(range(PER_TURN + 1))
    found.read([1000])
    assert len(found.turns) == 1
    found.turn()
    assert found.served == [*range(PER_TURN + 1), 1000]


def test_answers_that_pile_up_stop_serving_until_they_are_taken() -> None:
    found = Connection()
    found.pause_at = 2
    found.read(range(5))
    assert found.served == [0, 1, 2]
    assert not found.transport.reads
    found.turn()
    assert not found.turns, "nothing is tried while the client does not read"
    assert found.served == [0, 1, 2]
    found.queue.resume()
    assert found.served == [0, 1, 2, 3, 4]
    assert found.transport.reads


def test_end_waits_for_what_was_read_before_it() -> None:
    found = Connection()
    found.end_at = PER_TURN
    found.read(range(PER_TURN + 1))
    assert not found.ended
    found.read([1000])
    found.turn()
    assert found.ended
    assert len(found.served) == PER_TURN + 1


def test_requests_of_a_connection_that_is_gone_are_dropped() -> None:
    found = Connection()
    found.read(range(2 * PER_TURN))
    found.queue.disconnected()
    found.turn()
    assert len(found.served) == PER_TURN
    assert not found.turns


def test_bounds_leave_most_of_a_heartbeat_interval_to_the_others() -> None:
    assert fair_turns.TURN_SECONDS_MAX * 10 <= 0.1 / 5


def test_to_decode_what_is_cheap_to_send_takes_small_pieces_and_turns() -> None:
    """A read of 256 KiB brings thousands of requests that take longer to decode than to serve."""
    found = Connection(decode_seconds_each=PIECE_SECONDS_MAX / PIECE_SIZE_MIN * 4)
    count = TURN_BYTES_MAX // 8
    found.read(range(count))
    assert len(found.served) == 1, "its decoding has used the turn"
    while found.turns:
        found.turn()
    assert found.served == list(range(count))
    assert max(found.pieces) <= PIECE_SIZE // 8
    assert max(found.pieces[4:]) <= 2 * PIECE_SIZE_MIN


def test_a_turn_that_was_too_long_is_paid_with_rest_beside_others() -> None:
    """A list of a thousand rows cannot be cut; three times as long the others have the loop."""
    found = Connection(seconds_each=5 * TURN_SECONDS_MAX, neighbours=_busy())
    found.read([1, 2])
    found.turn()
    assert found.served == [1]
    assert not found.transport.reads
    assert found.rest() == pytest.approx(REST_FACTOR * 4 * TURN_SECONDS_MAX)
    assert found.served == [1, 2]


def test_a_turn_that_was_too_long_costs_nothing_when_nobody_else_is_there() -> None:
    neighbours = Neighbours()
    neighbours.served("one that went", -2 * OTHERS_SECONDS)
    found = Connection(seconds_each=5 * TURN_SECONDS_MAX, neighbours=neighbours)
    found.read([1, 2])
    found.turn()
    assert not found.rests
    assert found.served == [1, 2]


def test_time_of_requests_that_were_refused_is_owed() -> None:
    found = Connection(seconds_each=TURN_SECONDS_MAX, refuses=True, neighbours=_busy())
    found.read([1, 2])
    found.turn()
    assert found.rest() == pytest.approx(REST_FACTOR * TURN_SECONDS_MAX)


def test_bytes_that_make_no_frame_whole_are_owed() -> None:
    found = Connection(neighbours=_busy())
    size = 1 << 20
    found.queue.read(b"\xff" * size)
    found.turn()  # the turn before was spent with reading them
    found.turn()
    assert found.rest() == pytest.approx(REST_FACTOR * size / BYTES_PER_SECOND)
    assert found.transport.reads


def test_requests_within_their_share_never_rest() -> None:
    found = Connection(seconds_each=TURN_SECONDS_MAX / 2, neighbours=_busy())
    found.read(range(2000))
    while found.turns:
        found.turn()
    assert len(found.served) == 2000
    assert not found.rests


def test_a_connection_that_is_gone_does_not_come_back_from_its_rest() -> None:
    found = Connection(seconds_each=5 * TURN_SECONDS_MAX, neighbours=_busy())
    found.read([1, 2])
    found.turn()
    found.queue.disconnected()
    found.rest()
    assert found.served == [1]


def test_small_debts_are_paid_by_the_time_that_passes() -> None:
    debt, small = Debt(), REST_SECONDS_MIN / REST_FACTOR / 2
    assert [debt.add(small, now * REST_SECONDS_MIN) for now in range(100)] == [0.0] * 100
    assert debt.add(small, 0.2) == 0.0
    assert debt.add(small, 0.2) == pytest.approx(REST_SECONDS_MIN)


def test_no_debt_makes_a_connection_look_dead() -> None:
    assert Debt().add(100.0, 0.0) == REST_SECONDS_MAX


def test_neighbours_are_all_but_oneself() -> None:
    neighbours = Neighbours()
    assert neighbours.others_at("a") == float("-inf")
    neighbours.served("a", 1.0)
    neighbours.served("a", 2.0)
    assert neighbours.others_at("a") == float("-inf")
    assert neighbours.others_at("b") == 2.0
    neighbours.served("b", 3.0)
    assert neighbours.others_at("a") == 3.0
    assert neighbours.others_at("b") == 2.0
