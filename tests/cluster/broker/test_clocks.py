"""A broker whose wall clock is wrong: its group bounds what it stamps and what is due (R24)."""

from __future__ import annotations

import pytest

from cluster.protocol.codes import RequestCode
from commitlog.records.message import decode_message
from dledger.runtime.clock import SystemClock
from dledger.runtime.group_clock import ALLOWANCE_MS

from .conftest import MakeBrokers
from .harness import bodies, until

HOUR_MS = 3_600_000
#: The loop of a test stands while the machine is away and the wall's clock does not, so clocks that
#: are told by both are this far apart on a busy machine, at most. It is little beside an hour.
STALLS_MS = 60_000


class Wrong(SystemClock):
    """Shows an hour more, or less."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def time_ms(self) -> int:
        return super().time_ms() + self._by_ms


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
async def test_what_a_leader_stamps_is_bounded(make_brokers: MakeBrokers, by_ms: int) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        await until(lambda: len(leader._clock.measured) == 2)
        leader._clock._clock = Wrong(by_ms)
        assert (await client.send(body=b"now")).code == 0
        message = decode_message((await client.pull(suspend_ms=3000)).body)
        apart = message.store_timestamp_ms - brokers.clock.time_ms()
        assert abs(apart) < ALLOWANCE_MS + STALLS_MS
        assert leader.status()["clock_skew_ms"] == pytest.approx(by_ms, abs=STALLS_MS)
        assert (await client.send(body=b"later", properties="DELAY\x011\x02")).code == 0

        async def has_come() -> bool:
            return b"later" in bodies((await client.pull(offset=1, suspend_ms=500)).body)

        await until(has_come, "the message that waits for a second")


async def test_the_next_leader_stamps_what_time_it_is(make_brokers: MakeBrokers) -> None:
    """Without the bound its stamps would stand still for an hour."""
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        await until(lambda: len(leader._clock.measured) == 2)
        leader._clock._clock = Wrong(HOUR_MS)
        client = await brokers.client(leader)
        assert (await client.send(body=b"fast")).code == 0
        leader.parts.log.transfer(None, lambda _: None)
        await until(lambda: not leader.parts.leadership.leads)
        heir = await brokers.leader()
        client = await brokers.client(heir)
        begun = brokers.clock.time_ms()
        assert (await client.send(body=b"right")).code == 0
        bounds = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
        at = int(bounds.ext["offset"]) - 1
        message = decode_message((await client.pull(offset=at, suspend_ms=3000)).body)
        assert message.store_timestamp_ms - begun < ALLOWANCE_MS + STALLS_MS
