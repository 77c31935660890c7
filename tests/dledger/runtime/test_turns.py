"""Groups of one event loop share the time of a turn in which they apply; none is left out."""

from __future__ import annotations

from asyncio import CancelledError
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

import pytest

from dledger.runtime import turns
from dledger.runtime.owned import Owned
from dledger.runtime.turns import TURN_SECONDS, Turns

MS = 0.001
EXACT = 1e-9


class Loop(Owned):
    """A virtual clock, and what is to be called in the next turn."""

    def __init__(self) -> None:
        self.mistakes_seen: list[BaseException] = []
        super().__init__(self.mistakes_seen.append)
        self.now = 1000.0
        self.soon: list[Callable[[], None]] = []
        self.turns = Turns(self)

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., object], *args: object) -> Any:
        self.soon.append(partial(self.run, callback, *args))

    def turn(self) -> float:
        """One turn of the loop; how long the groups have kept it, in seconds."""
        begun, (calls, self.soon) = self.now, (self.soon, [])
        for call in calls:
            call()
        return self.now - begun


class Group:
    """One group: entries of so many seconds each wait to be applied."""

    def __init__(self, loop: Loop, entries: Iterable[float] = ()) -> None:
        self.loop, self.entries = loop, deque(entries)
        self.died: list[BaseException] = []
        self.share = loop.turns.share(Owned(self.died.append), self.go_on)
        self.parts: list[float] = []
        self.came_at = self.waited_max = 0.0

    def event(self, *entries: float) -> None:
        """These entries are committed."""
        self.entries.extend(entries)
        if not self.share.waits:
            self.came_at = self.loop.now
            self.go_on()

    def go_on(self) -> None:
        """As a replica and its machine do it."""
        seconds, begun = self.share.ask(), self.loop.now
        if seconds:
            self.waited_max = max(self.waited_max, begun - self.came_at)
            while self.entries and self.loop.now - begun < seconds - EXACT:
                self.loop.now += self.entries.popleft()
            self.parts.append(self.loop.now - begun)
            self.share.took(self.loop.now - begun)
            self.came_at = self.loop.now
        if self.entries:
            self.share.wait()

    @property
    def seconds(self) -> float:
        return sum(self.parts)


@pytest.fixture
def loop() -> Loop:
    return Loop()


def busy(loop: Loop, seconds: Iterable[float], count: int = 10_000) -> list[Group]:
    """A group for each, with so many entries that take so long, which all wait for their turn."""
    groups = [Group(loop, [each] * count) for each in seconds]
    for group in groups:
        group.share.wait()
    return groups


def test_a_group_that_is_alone_has_whole_turns(loop: Loop) -> None:
    (group,) = busy(loop, [MS], count=120)
    assert [loop.turn() for _ in range(3)] == pytest.approx([0.05, 0.05, 0.02])
    assert not group.entries


@pytest.mark.parametrize("count", [2, 5, 25])
def test_groups_have_equal_parts_of_each_turn(loop: Loop, count: int) -> None:
    groups = busy(loop, [MS / 10] * count)
    for _ in range(4):
        assert loop.turn() == pytest.approx(TURN_SECONDS, abs=count * MS / 10)
    for group in groups:
        assert group.parts == pytest.approx([TURN_SECONDS / count] * 4, abs=2 * MS / 10)


def test_many_groups_take_turns(loop: Loop) -> None:
    """A part is never so small that it is lost to what comes with each."""
    groups = busy(loop, [MS / 10] * 400)
    for round_number in range(1, 4):
        for _ in range(round(400 * turns.PART_SECONDS_MIN / TURN_SECONDS)):
            assert loop.turn() < TURN_SECONDS + MS
        served = Counter(len(group.parts) for group in groups)
        assert served.keys() <= {round_number - 1, round_number, round_number + 1}
        assert served[round_number] > 390
    assert min(min(group.parts) for group in groups) > turns.PART_SECONDS_MIN / 2


def test_what_a_short_part_leaves_is_for_those_behind_it(loop: Loop) -> None:
    _, long = busy(loop, [MS, MS])
    loop.turn()
    short = Group(loop, [MS])
    short.share.wait()
    before = len(long.parts)
    assert loop.turn() == pytest.approx(TURN_SECONDS, abs=3 * MS)
    assert short.parts == pytest.approx([MS])
    assert len(long.parts) == before + 1


def test_long_entries_push_out_no_other_group(loop: Loop) -> None:
    """Nine groups whose entries fill a turn each, and one with short ones: equal times."""
    *slow, quick = busy(loop, [0.045] * 9 + [MS])
    for _ in range(200):
        assert loop.turn() <= TURN_SECONDS + 0.045 + EXACT
    assert quick.seconds >= min(group.seconds for group in slow) - TURN_SECONDS
    assert quick.seconds > 200 * TURN_SECONDS / 10 * 0.8
    assert max(group.seconds for group in slow) - min(group.seconds for group in slow) < 0.1


def test_a_group_that_comes_is_the_next_one(loop: Loop) -> None:
    """However long it has applied at earlier times, when no other group had anything to do."""
    (comes,) = busy(loop, [MS], count=1000)
    while comes.entries:
        loop.turn()
    groups = busy(loop, [0.045] * 5)
    for _ in range(20):
        loop.turn()
    seconds = loop.now
    comes.event(MS)
    assert comes.entries, "others wait"
    assert loop.turn() > 0
    assert not comes.entries
    assert loop.now - seconds <= TURN_SECONDS + 0.045 + EXACT
    assert min(len(group.parts) for group in groups) >= 4


def test_groups_that_come_again_and_again_do_not_keep_others_waiting(loop: Loop) -> None:
    """Ten of them could fill each turn, and had nothing to do for as long as the first had."""
    (long,) = busy(loop, [MS])
    for _ in range(100):
        loop.turn()
    small, before = [Group(loop) for _ in range(10)], long.seconds
    for _ in range(100):
        for group in small:
            group.event(5 * MS)
        assert loop.turn() <= TURN_SECONDS + 5 * MS + EXACT
    assert long.seconds - before > 100 * TURN_SECONDS / 11 * 0.8
    assert min(group.seconds for group in small) > 100 * TURN_SECONDS / 11 * 0.8


def test_one_entry_of_seconds_is_forgiven(loop: Loop) -> None:
    long, other = busy(loop, [MS, MS])
    long.entries.appendleft(10.0)
    loop.turn()
    assert long.parts == pytest.approx([10.0])
    for _ in range(4):
        loop.turn()
    assert len(long.parts) > 2
    assert len(other.parts) > 2


def test_events_of_one_turn_have_one_turns_time(loop: Loop) -> None:
    first, second, third, fourth = (Group(loop) for _ in range(4))
    first.event(40 * MS)
    second.event(*[MS] * 20)
    third.event(MS)
    assert first.parts + second.parts == pytest.approx([40 * MS, 10 * MS])
    assert not third.parts, "no time is left"
    fourth.event(MS)
    loop.turn()
    assert third.parts == fourth.parts == pytest.approx([MS])
    assert not second.entries
    first.event(40 * MS)
    assert first.parts[1:] == pytest.approx([40 * MS]), "they have left some"
    assert loop.soon, "the next turn forgets it"
    loop.turn()
    first.event(45 * MS)
    assert first.parts[2:] == pytest.approx([45 * MS])


def test_events_wait_behind_groups_that_wait(loop: Loop) -> None:
    """Else events, which the loop calls before and behind them, would take their time."""
    first, second = Group(loop), Group(loop)
    first.event(*[MS] * 49, 2 * MS, MS)
    assert first.share.waits
    loop.now, loop.turns._used = loop.now + 1, 0.0
    second.event(MS)
    assert second.share.waits
    loop.turn()
    assert not first.share.waits
    assert not second.share.waits


def test_quick_events_ask_the_loop_for_nothing(loop: Loop) -> None:
    group = Group(loop)
    for _ in range(9):
        group.event(MS / 10)
    assert not loop.soon
    group.event(2 * MS)
    assert len(loop.soon) == 1
    loop.turn()
    assert not loop.soon


@pytest.mark.parametrize("error", [ValueError("a mistake"), CancelledError("a mistake")])
def test_a_mistake_of_one_group_is_its_own(loop: Loop, error: BaseException) -> None:
    """A cancellation, too: else the groups behind it would wait for ever."""
    first, broken, last = busy(loop, [MS] * 3)

    def mistake() -> None:
        raise error

    broken.share.go_on = mistake
    loop.turn()
    assert [str(one) for one in broken.died] == ["a mistake"]
    assert not loop.mistakes_seen
    assert len(first.parts) == len(last.parts) == 1
    loop.turn()
    assert len(first.parts) == len(last.parts) == 2
    assert len(broken.died) == 1, "it has ended"


def test_a_group_waits_once(loop: Loop) -> None:
    first, second = busy(loop, [MS, MS], count=60)
    for _ in range(5):
        first.share.wait()
    loop.turn()
    assert [len(first.parts), len(second.parts)] == [1, 1]


@pytest.mark.parametrize("seed", range(20))
def test_none_waits_for_long_whatever_comes(loop: Loop, seed: int) -> None:
    """Groups with entries of all lengths and events at all times: order, times and no loss."""
    random = Random(seed)
    groups = [Group(loop) for _ in range(random.randint(2, 40))]
    longest = random.choice([MS, 20 * MS, 80 * MS])
    given = Counter[int]()
    for _ in range(400):
        for number, group in enumerate(groups):
            if random.random() < 0.2:
                entries = [random.random() * longest for _ in range(random.randint(1, 30))]
                given[number] += round(sum(entries) * 1e6)
                group.event(*entries)
        assert loop.turn() <= 2 * (TURN_SECONDS + longest), "the turn, and events in it"
        if not random.randrange(30):
            loop.now += 5  # nothing happens
            for group in groups:
                group.came_at += 5
    while loop.soon:
        assert loop.turn() <= TURN_SECONDS + longest + EXACT
    for number, group in enumerate(groups):
        assert not group.entries
        assert group.seconds * 1e6 == pytest.approx(given[number], abs=1000)
        assert group.waited_max <= 2 * (len(groups) + 1) * (TURN_SECONDS + longest)
