"""The time of stamps follows a clock that is set, and takes no stamp again that is forgotten."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.core.access.seal_time import SLEW_RATE, SPENT_COUNT_MAX, SealTime
from cluster.core.access.single_use import WINDOW_SECONDS

START_MS = 1_700_000_000_000


class Machine:
    """`at`: seconds of the clock that is never set; `set_ms`: by how much the other one was."""

    def __init__(self, set_ms: float = 0.0) -> None:
        self.at, self.set_ms = 1000.0, set_ms
        self.time = SealTime(lambda: self.at, lambda: self.true_ms() + self.set_ms)

    def true_ms(self) -> float:
        return START_MS + (self.at - 1000.0) * 1000

    def off_ms(self) -> float:
        """By how much the time of stamps is ahead of the true one."""
        return self.time.read() - self.true_ms()


def test_a_clock_that_was_ahead_at_the_start_is_followed_back() -> None:
    """Clients with right clocks were refused meanwhile; those that went by it are known."""
    for follows in (False, True):
        machine = Machine(set_ms=3_600_000)
        for _ in range(600):
            machine.at += 1.0
            assert not machine.time.takes(machine.true_ms())
            if follows:
                machine.time.taken(machine.time.read())
        machine.set_ms = 0
        assert machine.off_ms() == 0
        assert machine.time.takes(machine.true_ms())


def test_a_time_that_seals_were_taken_of_is_not_gone_back_to() -> None:
    """It was right for an hour before it jumped: then it goes on more slowly."""
    machine = Machine()
    for _ in range(3600):
        machine.at += 1.0
        machine.time.taken(machine.time.read())
    machine.set_ms = -40_000
    before = machine.time.read()
    machine.at += 10.0
    assert abs(machine.time.read() - before - 10_000 * SLEW_RATE) < 1
    machine.at += 100.0
    assert machine.off_ms() == -40_000, "the clock has caught up"


def test_what_those_before_took_is_passed_over_at_once() -> None:
    machine = Machine()
    machine.time.spend_until(START_MS + 5_000)
    assert machine.off_ms() == 5_000
    assert not machine.time.takes(START_MS + 4_999)
    assert machine.time.takes(START_MS + 5_001)
    machine.time.spend_until(START_MS)
    assert machine.time.takes(START_MS + 5_001), "what is behind costs nothing"
    machine.at += 60.0
    assert machine.off_ms() <= 1_000, "the clock catches up"


def test_a_jump_ahead_and_back_is_followed_both_ways() -> None:
    machine = Machine()
    machine.time.taken(machine.time.read())
    machine.at += 60.0
    machine.set_ms = 86_400_000
    assert machine.off_ms() == 86_400_000
    ahead = machine.time.read()
    machine.time.taken(ahead)
    machine.at += 1.0
    machine.set_ms = 0
    assert machine.off_ms() == 0
    machine.at += 86_400.0
    assert not machine.time.takes(ahead), "what was stamped ahead was taken once"
    assert machine.time.takes(ahead + 1), "and the next one is taken"


def test_a_slower_time_lets_nothing_of_before_in() -> None:
    machine = Machine()
    machine.time.taken(machine.time.read())
    machine.at += 20.0
    machine.set_ms = -20_000
    since, then = machine.at, machine.time.read()
    for _ in range(10):
        machine.at += 1.0
        machine.time.read()
    assert machine.time.latest_at(since) >= then
    machine.at += 1.0
    machine.set_ms = 0
    machine.time.read()
    assert machine.time.latest_at(machine.at) == machine.time.read()


STEP = st.tuples(
    st.sampled_from(["wait", "set", "seal", "replay"]),
    st.sampled_from([0.0, 0.5, 1.5, 29.0, 31.0, 40.0, 61.0, 300.0, 4000.0]),
    st.booleans(),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(STEP, max_size=60))
def test_no_schedule_takes_a_seal_twice(steps: list[tuple[str, float, bool]]) -> None:
    """A seal is forgotten WINDOW_SECONDS after it was taken, and never good again from then on."""
    machine = Machine()
    taken: dict[float, float] = {}
    for kind, seconds, back in [*steps, ("replay", 0.0, False)]:
        if kind == "wait":
            machine.at += seconds
        elif kind == "set":
            machine.set_ms += seconds * (-1000 if back else 1000)
        elif kind == "seal":
            stamp = machine.time.read() + (min(seconds, 30.0) * -1000 if back else 1000)
            if stamp not in taken and machine.time.takes(stamp):
                machine.time.taken(stamp)
                taken[stamp] = machine.at
        else:
            for stamp, at in taken.items():
                if machine.at - at >= WINDOW_SECONDS:
                    assert not machine.time.takes(stamp)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 90), st.booleans()), max_size=60))
def test_spent_ranges_are_few_and_time_goes_on(steps: list[tuple[float, bool]]) -> None:
    """However often the clock is set; a stamp that is told is always taken."""
    machine = Machine()
    for seconds, back in steps:
        machine.at += seconds
        machine.set_ms += -200_000 if back else 200_000
        told = machine.time.read() + 1
        assert machine.time.takes(told)
        machine.time.taken(told)
        assert len(machine.time._spent) <= SPENT_COUNT_MAX
