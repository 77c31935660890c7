"""A leader's view of one follower: who catches up makes way for producers, and catches up."""

from __future__ import annotations

import pytest

from dledger.core.config import CoreConfig
from dledger.core.configuration import ChangeKind
from dledger.core.progress import GAIN, PACE_MIN, Progress
from dledger.core.types import Index, NodeId

from .net import Net

N3 = NodeId("n3")
CONFIG = CoreConfig(NodeId("n0"), (NodeId("n0"),))
BEHIND = 1_000_000
FRAME_SIZE = 100_000
STEPS = 100  # of a heartbeat's time


class Joiner:
    """One that is far behind and takes whatever it is sent at once."""

    def __init__(self) -> None:
        self.now, self.proposed = 0.0, 0
        self.progress = Progress.of_new(Index(BEHIND), self.now, self.proposed)
        self.progress.become_replicate()

    def beat(self, written: int) -> int:
        """A heartbeat's time in which so many bytes are written; how many bytes it is sent."""
        sent = 0
        for _ in range(STEPS):
            self.now += CONFIG.heartbeat_interval / STEPS
            sent += self.takes()
        self.proposed += written
        self.progress.make_way(self.proposed, self.now)
        return sent

    def takes(self) -> int:
        """Bytes that it is sent now, up to one window."""
        progress, sent = self.progress, 0
        while sent < CONFIG.window_bytes_max and progress.is_window_open(self.now, CONFIG):
            progress.sent(progress.next, FRAME_SIZE)
            sent += FRAME_SIZE
            progress.acknowledged(Index(progress.next - 1), Index(progress.next - 1), self.now)
        return sent


@pytest.mark.parametrize("written", [8_000_000, 20_000_000])
def test_who_catches_up_is_sent_so_many_times_what_is_written(written: int) -> None:
    joiner = Joiner()
    joiner.beat(written)
    sent = sum(joiner.beat(written) for _ in range(20)) / 20
    assert sent == pytest.approx(GAIN * written, abs=FRAME_SIZE)


def test_a_few_messages_a_second_do_not_make_it_wait() -> None:
    joiner = Joiner()
    joiner.beat(1000)
    sent = sum(joiner.beat(1000) for _ in range(20)) / 20
    assert sent == pytest.approx(PACE_MIN * CONFIG.heartbeat_interval, abs=FRAME_SIZE)


def test_who_is_new_makes_way_until_it_is_known_who_writes() -> None:
    sent = Joiner().beat(20_000_000)
    assert sent == pytest.approx(PACE_MIN * CONFIG.heartbeat_interval, abs=FRAME_SIZE)


def test_what_it_is_sent_is_spread() -> None:
    """No burst, also not after a pause: at most what one heartbeat allows."""
    joiner = Joiner()
    joiner.beat(4_000_000)
    assert joiner.takes() <= FRAME_SIZE
    joiner.now += 60.0
    assert joiner.takes() <= GAIN * 4_000_000 + FRAME_SIZE
    assert joiner.takes() == 0


def test_while_nobody_writes_it_takes_a_whole_window() -> None:
    joiner = Joiner()
    joiner.beat(20_000_000)
    joiner.beat(0)
    assert joiner.takes() >= CONFIG.window_bytes_max
    joiner.beat(20_000_000)
    assert joiner.takes() <= FRAME_SIZE, "and again makes way, without a debt"
    joiner.now += CONFIG.heartbeat_interval
    assert joiner.takes() > 0


def test_a_second_beat_at_one_moment_measures_nothing() -> None:
    """A clock may stand still between two; what was written counts at the next one."""
    joiner = Joiner()
    joiner.beat(4_000_000)
    pace = joiner.progress.pace
    joiner.progress.make_way(joiner.proposed + 4_000_000, joiner.now)
    assert joiner.progress.pace == pace
    joiner.now += 0.1
    joiner.progress.make_way(joiner.proposed + 4_000_000, joiner.now)
    assert joiner.progress.pace == pytest.approx(GAIN * 4_000_000 / 0.1)


def test_voters_have_no_pace_and_a_joiner_has_none_once_it_votes() -> None:
    net = Net(window_frames_max=4)
    net.elect("n0")
    net.propose("n0", 400)
    net.run(0.5)
    leader = net.nodes[NodeId("n0")]
    leader.frame_entries_max = 2
    net.join("n3")
    net.nodes[N3].auto_flush = False
    net.change("n0", ChangeKind.ADD, "n3")
    for _ in range(3):
        net.run(0.1)
        net.flush("n3")
        net.deliver()
    assert leader.raft.progress[N3].pace is None, "nobody writes"
    paces: dict[str, list[float | None]] = {"n1": [], "n2": [], "n3": []}
    while standing(net) != "voter":
        net.propose("n0")
        net.run(0.1)
        net.flush("n3")
        net.deliver()
        for name, progress in leader.raft.progress.items():
            paces[name].append(progress.pace)
        assert len(paces["n3"]) < 200, "it catches up"
    assert paces["n3"].count(PACE_MIN) > 2
    assert paces["n3"][-1] is None
    assert {*paces["n1"], *paces["n2"]} == {None}


def standing(net: Net) -> str:
    member = net.configuration("n0").member(N3)
    return "" if member is None else member.standing.value
