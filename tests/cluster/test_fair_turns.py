"""One connection gets a bounded share of each turn of the event loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from cluster import fair_turns
from cluster.fair_turns import (
    REQUEST_COST,
    TURN_BYTES_MAX,
    TURN_COST_MAX,
    TURN_SECONDS_MAX,
    FairQueue,
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
    """A queue under test, its event loop one turn at a time, and a clock that serving moves."""

    def __init__(self, seconds_each: float = 0.0) -> None:
        self.turns: deque[Callable[[], None]] = deque()
        self.served: list[int] = []
        self.ended = False
        self.pause_at: int | None = None
        self._seconds_each, self._now = seconds_each, 0.0
        self.transport = Transport()
        self.queue: FairQueue[int] = FairQueue(
            self._serve, self._end, call_soon=self.turns.append, now=lambda: self._now
        )
        self.queue.connected(self.transport)  # type: ignore[arg-type]

    def _serve(self, requests: Sequence[int], turn: Turn) -> int:
        for number, request in enumerate(requests):
            if self.queue.is_paused:
                return number
            self.served.append(request)
            self._now += self._seconds_each
            if request == self.pause_at:
                self.queue.pause()
            if turn.spend(REQUEST_COST):
                return number + 1
        return len(requests)

    def _end(self) -> None:
        self.ended = True

    def turn(self) -> None:
        self.turns.popleft()()


def test_requests_over_the_bound_wait_for_next_turn_in_order() -> None:
    found = Connection()
    found.queue.add(range(3 * PER_TURN))
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
        found.queue.add(range(first, first + PER_TURN // 2))
    assert found.served == list(range(PER_TURN))
    assert not found.transport.reads
    found.turn()
    assert found.served == list(range(2 * PER_TURN))


def test_what_comes_of_a_frame_that_is_not_whole_counts_too() -> None:
    found = Connection()
    for _ in range(TURN_BYTES_MAX // (1 << 18) - 1):
        found.queue.add([], 1 << 18)
    assert found.transport.reads
    found.queue.add([], 1 << 18)
    assert not found.transport.reads
    found.turn()
    assert found.transport.reads
    assert not found.turns


def test_requests_that_take_long_end_the_turn_by_time() -> None:
    found = Connection(seconds_each=TURN_SECONDS_MAX)
    found.queue.add(range(3))
    assert found.served == [0]
    found.turn()
    assert found.served == [0, 1]


def test_requests_read_while_others_wait_are_served_after_them() -> None:
    found = Connection()
    found.queue.add(range(PER_TURN + 1))
    found.queue.add([1000])
    assert len(found.turns) == 1
    found.turn()
    assert found.served == [*range(PER_TURN + 1), 1000]


def test_answers_that_pile_up_stop_serving_until_they_are_taken() -> None:
    found = Connection()
    found.pause_at = 2
    found.queue.add(range(5))
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
    found.queue.add(range(PER_TURN + 1))
    found.queue.end()
    assert not found.ended
    found.turn()
    assert found.ended
    assert len(found.served) == PER_TURN + 1


def test_requests_of_a_connection_that_is_gone_are_dropped() -> None:
    found = Connection()
    found.queue.add(range(2 * PER_TURN))
    found.queue.disconnected()
    found.turn()
    assert len(found.served) == PER_TURN
    assert not found.turns


def test_bounds_leave_most_of_a_heartbeat_interval_to_the_others() -> None:
    assert fair_turns.TURN_SECONDS_MAX * 10 <= 0.1 / 5
