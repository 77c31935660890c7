"""A node of an older release is not asked for silence (R30)."""

from __future__ import annotations

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.messages import Heartbeat

from .test_quiet import quiet, watch, watching


def test_no_member_that_is_not_watched_is_asked_for_silence() -> None:
    """It may be of an older release, which ends the connection for that byte."""
    net, leader = watching()
    one, other = net.followers()
    net.isolate(other)
    watch(net, leader, one)
    watch(net, one, leader)
    asked: set[str] = set()

    def look(_source: str, to: str, message: object) -> bool:
        if isinstance(message, Heartbeat) and message.quiet:
            asked.add(to)
        return False

    for _ in range(300):
        net.now = round(net.now + 0.01, 6)
        for name in net.names:
            if net.raft(name).deadline() <= net.now:
                for effect in net.handle(name, ev.TimerFired()):
                    if isinstance(effect, fx.Send):
                        look(name, effect.to, effect.message)
        net.deliver()
    assert leader in quiet(net)
    assert asked == {one}
