"""A node's wall clock is bounded by its group's (R24), as it was measured over round trips."""

from __future__ import annotations

import logging

import pytest

from dledger.core.types import NodeId
from dledger.errors import MalformedFrame
from dledger.runtime.clock import BootClock, SystemClock
from dledger.runtime.group_clock import ALLOWANCE_MS, GroupClock
from dledger.wire.frames import Frame, FrameDecoder

from .ends import Make, meet
from .group import until

HOUR = 3_600_000
N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")


class Machine:
    """One true time in seconds; each clock shows it `wrong_ms` off."""

    def __init__(self, wrong_ms: int = 0, boot: float = 100.0) -> None:
        self.seconds, self.wrong_ms, self.boot = 1_000_000.0, wrong_ms, boot

    def now(self) -> float:
        return self.seconds - 1_000_000.0 + self.boot

    def time_ms(self) -> int:
        return round(self.seconds * 1000) + self.wrong_ms


class Room:
    """Nodes whose messages take `delay` seconds each way."""

    def __init__(self, **wrong_ms: int) -> None:
        self.machines = {
            NodeId(name): Machine(wrong, 10.0 * place + 1)
            for place, (name, wrong) in enumerate(wrong_ms.items())
        }
        self.clocks = {name: GroupClock(name, machine) for name, machine in self.machines.items()}

    def pass_time(self, seconds: float) -> None:
        for machine in self.machines.values():
            machine.seconds += seconds

    def tell(self, one: NodeId, other: NodeId, delay: float = 0.01) -> None:
        told = self.clocks[one].frame_for(other)
        self.pass_time(delay)
        self.clocks[other].heard(one, frame(told).head)

    def talk(self, delay: float = 0.01, rounds: int = 2) -> None:
        """Everybody to everybody, until each has measured."""
        for _ in range(rounds):
            for one in self.clocks:
                for other in self.clocks:
                    if one != other:
                        self.tell(one, other, delay)

    def error(self, node: NodeId) -> int:
        """How wrong the time is that a node goes by, in ms."""
        return self.clocks[node].time_ms() - round(self.machines[node].seconds * 1000)


def frame(data: bytes) -> Frame:
    decoder = FrameDecoder()
    decoder.get_buffer()[: len(data)] = data
    (found,) = decoder.frames(len(data))
    return Frame(found.type, memoryview(bytes(found.head)), found.raw)


@pytest.mark.parametrize("wrong", [HOUR, -HOUR])
def test_a_wrong_clock_is_bounded_by_the_group(wrong: int) -> None:
    room = Room(n0=wrong, n1=0, n2=20)
    assert room.error(N0) == wrong
    room.talk()
    limit = ALLOWANCE_MS if wrong > 0 else -ALLOWANCE_MS
    assert abs(room.error(N0) - limit) <= 30
    assert abs(room.clocks[N0].ahead_ms - wrong) <= 30
    room.pass_time(0.5)
    assert abs(room.error(N0) - limit) <= 30, "it goes on with the time"


def test_one_odd_peer_does_not_move_a_sound_clock() -> None:
    room = Room(n0=0, n1=-HOUR, n2=3)
    room.talk()
    assert room.error(N0) == 0
    assert abs(room.clocks[N0].ahead_ms) <= 5


def test_small_differences_are_left_alone() -> None:
    room = Room(n0=300, n1=0, n2=0)
    room.talk()
    assert room.error(N0) == 300


def test_a_jump_is_bounded_at_once() -> None:
    """Nothing is measured between the jump and the stamp."""
    room = Room(n0=0, n1=0, n2=0)
    room.talk()
    room.machines[N0].wrong_ms = HOUR
    assert abs(room.error(N0) - ALLOWANCE_MS) <= 30


def test_a_jump_of_the_monotonic_clock_puts_nothing_forward() -> None:
    room = Room(n0=0, n1=0, n2=0)
    room.talk()
    room.machines[N0].boot += 60.0
    assert room.error(N0) == 0
    room.talk()
    assert room.error(N0) == 0
    assert abs(room.clocks[N0].ahead_ms) <= 30


def test_a_fast_monotonic_clock_puts_nothing_forward() -> None:
    """It runs at double speed, which shows at no look, while nobody is heard."""
    room = Room(n0=0, n1=0, n2=0)
    room.talk()
    for _ in range(100):
        room.pass_time(0.2)
        room.machines[N0].boot += 0.2
        assert room.error(N0) == 0


def test_both_clocks_may_jump_at_once() -> None:
    """The way from the last measurement to a stamp is by a clock that lies."""
    room = Room(n0=0, n1=0, n2=0)
    room.talk()
    room.machines[N0].wrong_ms = HOUR
    for _ in range(3):  # in strobes
        room.machines[N0].boot += 60.0
        room.pass_time(0.3)
        assert abs(room.error(N0) - ALLOWANCE_MS) <= 1_000
    for _ in range(2):
        room.tell(N0, N1)
        room.tell(N1, N0)  # one of two is measured anew
        assert abs(room.error(N0) - ALLOWANCE_MS) <= 1_000
    room.talk()
    assert abs(room.error(N0) - ALLOWANCE_MS) <= 30


def test_time_in_which_nobody_looks_is_no_jump() -> None:
    room = Room(n0=HOUR, n1=0, n2=0)
    room.talk()
    room.pass_time(600)
    assert abs(room.error(N0) - ALLOWANCE_MS) <= 30


def test_of_two_clocks_the_earlier_one_counts() -> None:
    room = Room(n0=HOUR, n1=0)
    room.talk()
    assert abs(room.error(N0) - ALLOWANCE_MS) <= 30
    assert room.error(N1) == 0


def test_a_peer_that_is_gone_counts_until_it_is_no_member() -> None:
    room = Room(n0=0, n1=HOUR, n2=0)
    room.talk()
    room.pass_time(600)
    room.clocks[N1].follow([N0, N2])
    assert abs(room.error(N1) - ALLOWANCE_MS) <= 30
    room.clocks[N1].follow([])
    assert room.error(N1) == HOUR


def test_a_slow_answer_tells_nothing() -> None:
    room = Room(n0=HOUR, n1=0, n2=0)
    room.talk(delay=3.0)
    assert room.error(N0) == HOUR
    room.talk(delay=0.2)
    assert abs(room.error(N0) - ALLOWANCE_MS) <= 200


def test_an_echo_of_the_process_before_tells_nothing() -> None:
    room = Room(n0=0, n1=0, n2=0)
    room.talk()
    room.machines[N0].boot -= 50.0  # the machine was started anew
    room.clocks[N0] = GroupClock("n0", room.machines[N0])
    room.tell(N1, N0)
    assert room.clocks[N0].ahead_ms == 0
    assert room.error(N0) == 0


def test_who_has_heard_nothing_is_told_at_once() -> None:
    room = Room(n0=0, n1=0)
    behind: list[str] = []
    room.clocks[N1].behind = behind.append
    room.tell(N0, N1)
    assert behind == ["n0"]
    room.tell(N0, N1)
    assert behind == ["n0", "n0"], "it still knows nothing"
    room.tell(N1, N0)
    room.tell(N0, N1)
    assert behind == ["n0", "n0"]


def test_it_says_once_that_a_clock_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    room = Room(n0=HOUR, n1=0, n2=0)
    with caplog.at_level(logging.INFO):
        room.talk(rounds=4)
        room.machines[N0].wrong_ms = 0
        room.talk()
    said = [record.message for record in caplog.records]
    assert len(said) == 2
    assert said[0].startswith("n0: the wall clock is 3600.0 s ahead of that of its group")
    assert said[1] == "n0: the wall clock agrees with its group again"


def test_a_clock_frame_of_another_size_is_malformed() -> None:
    clock = GroupClock("n0", Machine())
    with pytest.raises(MalformedFrame, match="clocks"):
        clock.heard(N1, b"short")


async def test_connected_nodes_measure_each_other(make: Make) -> None:
    one, two = (
        make("n0", clocks=GroupClock("n0", SystemClock())),
        make("n1", clocks=GroupClock("n1", SystemClock())),
    )
    await meet(one, two)
    for end, peer in ((one, N1), (two, N0)):
        clocks = end.clocks
        assert clocks is not None
        await until(lambda: peer in clocks.measured)  # noqa: B023
        assert abs(clocks.ahead_ms) < ALLOWANCE_MS


async def test_a_peer_that_knows_no_clocks_is_not_told(make: Make) -> None:
    """It would close the connection, again and again."""
    one, old = make("n0", clocks=GroupClock("n0", SystemClock())), make("n1")
    await meet(one, old)
    control = one.transport._control[old.name]
    assert control._outbound is not None
    control._outbound._dialler.knows_clocks = False
    sent = one.transport.status()["n1/control"].sent_frames
    one.transport.tell_clocks()
    assert one.transport.status()["n1/control"].sent_frames == sent


class Hosted:
    """A group's clock on a host whose own one has measured n1 and n2."""

    def __init__(self, **wrong_ms: int) -> None:
        self.room = Room(**wrong_ms)
        self.room.talk()
        self.hosts = self.room.clocks[N0]
        self.clock = GroupClock.of("n0", self.room.machines[N0], self.hosts)


def test_a_group_is_bounded_by_the_clocks_that_its_host_has_measured() -> None:
    hosted = Hosted(n0=3_600_000, n1=0, n2=0)
    hosted.clock.follow([N0, N1, N2])
    assert hosted.clock.ahead_ms == pytest.approx(3_600_000, abs=50)
    assert hosted.clock.time_ms() == pytest.approx(
        hosted.room.machines[N0].seconds * 1000 + ALLOWANCE_MS, abs=50
    )


def test_a_clock_behind_is_put_forward_by_what_its_host_measured_just_now_only() -> None:
    hosted = Hosted(n0=-3_600_000, n1=0, n2=0)
    hosted.clock.follow([N0, N1, N2])
    machine = hosted.room.machines[N0]
    assert hosted.clock.time_ms() > machine.time_ms()
    hosted.room.pass_time(60.0)
    assert hosted.clock.time_ms() == machine.time_ms()


def test_hosts_that_are_no_members_do_not_count() -> None:
    hosted = Hosted(n0=3_600_000, n1=0, n2=0)
    hosted.clock.follow([N0])
    assert hosted.clock.time_ms() == hosted.room.machines[N0].time_ms()


def test_what_a_host_measures_later_counts_at_once() -> None:
    room = Room(n0=3_600_000, n1=0, n2=0)
    clock = GroupClock.of("n0", room.machines[N0], room.clocks[N0])
    clock.follow([N0, N1, N2])
    assert clock.ahead_ms == 0
    room.talk()
    assert clock.ahead_ms == pytest.approx(3_600_000, abs=50)


def test_a_jump_while_a_group_is_quiet_is_seen_by_its_host() -> None:
    """Who looks after hours for the first time would take them for a jump of both clocks."""
    hosted = Hosted(n0=0, n1=0, n2=0)
    hosted.clock.follow([N0, N1, N2])
    machine = hosted.room.machines[N0]
    for _ in range(100):  # 100 s a round, 10 ms of drift in each
        hosted.room.pass_time(100.0)
        machine.wrong_ms += 10
        hosted.hosts.time_ms()
    assert hosted.clock.time_ms() == machine.time_ms()


def test_a_clock_of_another_kind_does_not_count_with_its_host_s() -> None:
    """Their seconds may begin at different moments."""
    assert GroupClock.of("n0", BootClock(), GroupClock("n0", SystemClock())).hosts is None
    assert GroupClock.of("n0", Machine(), GroupClock("n0", Machine())).hosts is None
    assert GroupClock.of("n0", SystemClock(), GroupClock("n0", SystemClock())).hosts is not None


def test_a_peer_that_heard_nothing_for_long_is_answered() -> None:
    """Its clock does not count with its host's, so that ours has told it nothing."""
    room = Room(n0=0, n1=0)
    room.talk()
    behind: list[NodeId] = []
    room.clocks[N0].behind = behind.append
    room.tell(N1, N0)
    assert behind == []
    room.pass_time(3.0)
    room.tell(N1, N0)
    assert behind == [N1]
