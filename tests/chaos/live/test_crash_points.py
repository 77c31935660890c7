"""A node dies at every persist and send point, as leader and as follower: nothing acknowledged is
lost, and it always comes back (chaos.md 6, crash-point enumeration).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from chaos.checkers.lost import find_lost_unplaced
from chaos.checkers.queues import judge_queues
from chaos.checkers.verdict import Verdict, Word
from chaos.live import failpoints
from chaos.live.arena import Arena
from chaos.live.crash_points import Point, enumerate_points, points
from chaos.live.crowd import Crowd
from chaos.live.run import TOPIC, equipped, read_replicas
from chaos.live.settings import NODE_SETTINGS
from chaos.workloads import Workload
from cluster.local import plan

#: Large bodies, so that log files fill within seconds; small index files for the same reason.
LOAD = Workload(queues=3, producers=8, keyed=0, readers=2, rate=250.0, body_bytes_max=6000)


def test_there_are_thirty_failpoints_and_more() -> None:
    assert len(failpoints.NAMES) == len(set(failpoints.NAMES)) >= 30
    assert len(list(points())) > 60


def test_an_unknown_failpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no failpoint"):
        failpoints.Failpoint("data.write.later", 0, tmp_path)


async def enumerate_all(root: Path) -> tuple[list[Point], Verdict]:
    hosts = plan.scratch_hosts(3)
    arena = Arena(root / "cluster", hosts=hosts, settings=NODE_SETTINGS)
    with equipped(arena, root, []):
        async with arena:
            crowd = Crowd(arena.cluster.nameserver, TOPIC, LOAD, 1)
            await crowd.start()
            try:
                found = await enumerate_points(arena)
            finally:
                await crowd.stop()
            await arena.settled()
        begins, replicas = await asyncio.to_thread(read_replicas, arena)
    assert not crowd.written.complaints
    assert not find_lost_unplaced(crowd.written.unplaced, replicas, begins)
    return found, judge_queues(crowd.written.history, replicas, acked_min=500, begins=begins)


@pytest.fixture(scope="module")
def enumerated(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Point], Verdict]:
    return asyncio.run(enumerate_all(tmp_path_factory.mktemp("points")))


def alive(found: Sequence[Point]) -> list[str]:
    return [f"{point.name} as {point.role}" for point in found if not point.died]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_point_is_reached_and_kills(enumerated: tuple[list[Point], Verdict]) -> None:
    assert alive(enumerated[0]) == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_death_at_any_point_loses_anything(enumerated: tuple[list[Point], Verdict]) -> None:
    verdict = enumerated[1]
    assert verdict.anomalies == ()
    assert verdict.word is Word.VALID
