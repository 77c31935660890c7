"""L2: heartbeats and votes never wait for bulk data or for a disk."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from dledger.log.log_tasks import LogSync
from dledger.membership.handshake import LinkKind
from tests.waiting import limit

from .group import Group, until


async def test_l2_a_disk_that_stalls_for_long_elects_nobody(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every log sync of every node takes three election timeouts; the leader stays."""
    await group.start()
    log = await group.leader()
    term = log.status().node.term
    run = LogSync.run

    goes_on = threading.Event()

    def stalled(self: LogSync) -> None:
        goes_on.wait(limit(60))
        run(self)

    monkeypatch.setattr(LogSync, "run", stalled)
    slow = log.append(b"slow")
    await group.election_timeouts(3)
    assert not slow.done()
    goes_on.set()
    await slow
    assert log.is_leader
    assert log.status().node.term == term


async def test_l2_a_bulk_lane_that_is_stuck_holds_no_heartbeat_back(group: Group) -> None:
    """Megabytes wait for one follower; it hears its leader all the same, and catches up later."""
    for name in group.configs:
        # The kernel ends a connection that takes no bytes for so long, and the next one is read.
        group.change(name, connection_timeout_ms=int(limit(60_000)))
    await group.start()
    log = await group.leader()
    term = log.status().node.term
    slow = group.followers()[0]
    inbound = slow.driver.transport.inbound[log.driver.replica.node.node_id, LinkKind.BULK]
    assert inbound.transport is not None
    inbound.transport.pause_reading()
    body = os.urandom(64 << 10)
    last = (await asyncio.gather(*[log.append(body) for _ in range(200)]))[-1]
    await group.election_timeouts(2)
    assert slow.applied < last, "it was cut off"
    assert slow.leader == log.config.node_id
    inbound.transport.resume_reading()
    await slow.wait(last)
    await until(lambda: log.status().node.peers[0].matched >= last)
    assert log.status().node.term == term
