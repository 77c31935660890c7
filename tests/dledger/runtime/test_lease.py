"""Lease reads on sockets and the machine's clocks."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from dledger import DledgerError, ReplicatedLog
from dledger.runtime.clock import BootClock, SystemClock, clock_for

from .group import Group


async def _read_for_ever(log: ReplicatedLog) -> None:
    while True:
        await log.read_barrier()
        await asyncio.sleep(0)  # the loop's time goes on from turn to turn only


async def test_reads_are_served_by_the_lease_and_not_beyond_it(group: Group) -> None:
    for name in group.configs:
        group.change(name, lease_reads=True)
    await group.start()
    leader = await group.leader()
    while not leader.status().reads_by_lease:  # bounded by the test's own timeout
        with contextlib.suppress(DledgerError):  # another may lead by now
            for log in group.logs.values():
                await log.read_barrier()
        leader = await group.leader()
    for log in list(group.logs.values()):
        if log is not leader:
            await group.stop(log.config.node_id)
    with pytest.raises(DledgerError):
        await _read_for_ever(leader)  # as long as the lease lasts; then nobody is left to ask
    assert not leader.is_leader


def test_leases_go_by_a_clock_that_counts_suspension(group: Group) -> None:
    config = group.configs["n0"]
    assert type(clock_for(config)) is SystemClock
    group.change("n0", lease_reads=True)
    clock = clock_for(group.configs["n0"])
    assert type(clock) is BootClock
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= clock.now() <= time.clock_gettime(time.CLOCK_BOOTTIME)
