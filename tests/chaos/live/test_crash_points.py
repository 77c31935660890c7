"""A node dies at every persist and send point, as leader and as follower: nothing acknowledged is
lost, and it always comes back (docs/spec/chaos.md 6, crash-point enumeration).

Here a sample that has every file and every message; all of them: DLEDGER_CRASH_POINTS=all, before a
release.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from chaos.checkers.lost import find_lost_unplaced
from chaos.checkers.queues import judge_queues
from chaos.checkers.verdict import Verdict, Word
from chaos.live import failpoint_names
from chaos.live.arena import Arena
from chaos.live.client_processes import ClientProcesses
from chaos.live.crash_points import (
    FOLLOWER,
    LEADER,
    NEVER,
    UNPROVOKED,
    Point,
    enumerate_points,
    points,
    sample,
)
from chaos.live.run import TOPIC, equipped, read_replicas
from chaos.live.settings import NODE_SETTINGS
from chaos.workloads import Workload
from cluster.local import plan

#: Large bodies, so that log files fill within seconds; small index files for the same reason.
SETTINGS = NODE_SETTINGS | {
    "broker.index_slot_count": "500",
    "broker.index_entry_count": "2000",
    "broker.queue_file_size": str(20 * 500),
}
LOAD = Workload(queues=3, producers=8, keyed=0, readers=2, rate=250.0, body_bytes_max=6000)


#: As many as two minutes allow.
SAMPLE = 40
SEED = 1


def wanted() -> set[tuple[str, str]]:
    everything = os.environ.get("DLEDGER_CRASH_POINTS") == "all"
    return set(points()) if everything else sample(SAMPLE, SEED)


def test_a_sample_has_every_file_and_every_message() -> None:
    some, everything = sample(SAMPLE, SEED), set(points())
    assert some < everything
    assert len(everything) > 150
    assert SAMPLE <= len(some) <= SAMPLE + 5
    assert {name.split(".")[0] for name, _ in some} == {n.split(".")[0] for n, _ in everything}
    sent = {name.split(".")[1] for name, _ in some if name.startswith("send.")}
    assert sent == set(failpoint_names.MESSAGES)
    assert sample(SAMPLE, SEED) == some


def test_what_is_not_enumerated_exists() -> None:
    """A reason against a point that is gone, or a role that never passes one, would be stale."""
    for prefix in (*UNPROVOKED, *NEVER[LEADER], *NEVER[FOLLOWER]):
        assert any(name.startswith(prefix) for name in failpoint_names.NAMES), prefix


async def enumerate_all(root: Path) -> tuple[list[Point], Verdict]:
    hosts, chosen = plan.scratch_hosts(3), wanted()
    arena = Arena(root / "cluster", hosts=hosts, settings=SETTINGS)
    with equipped(arena, root, []):
        async with arena:
            clients = ClientProcesses(arena.cluster.nameserver, TOPIC, LOAD, 1)
            await clients.start()
            try:
                found = await enumerate_points(arena, lambda *point: point in chosen)
            finally:
                await clients.stop()
            await arena.settled()
        begins, replicas = await asyncio.to_thread(read_replicas, arena)
    assert not clients.written.complaints
    assert not find_lost_unplaced(clients.written.unplaced, replicas, begins)
    return found, judge_queues(clients.written.history, replicas, acked_min=500, begins=begins)


@pytest.fixture(scope="module")
def enumerated(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Point], Verdict]:
    return asyncio.run(enumerate_all(tmp_path_factory.mktemp("points")))


def alive(found: Sequence[Point]) -> list[str]:
    return [f"{point.name} as {point.role}" for point in found if not point.died]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_point_is_reached_and_kills(enumerated: tuple[list[Point], Verdict]) -> None:
    assert alive(enumerated[0]) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_no_death_at_any_point_loses_anything(enumerated: tuple[list[Point], Verdict]) -> None:
    verdict = enumerated[1]
    assert verdict.anomalies == ()
    assert verdict.word is Word.VALID
