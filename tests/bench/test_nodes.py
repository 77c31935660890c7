"""Start, recovery, soak, joining and topics: the code that `dledger bench` runs large.

One is short enough to run in smoke size with every suite, which says what it reports, not how quick
it was. The others, and all that is judged by a floor, run alone in the long layer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.bench import join, recovery, soak, topics
from cluster.local.launcher import LocalCluster


@pytest.mark.long
@pytest.mark.alone
def test_up_is_ready_in_seconds(make_cluster: Callable[..., LocalCluster]) -> None:
    """The bar of 3 s is for `time dledger up` on a machine of its own; this finds a hang."""
    cluster = make_cluster()
    best = 99.0
    for _ in range(3):
        cluster.down()
        began = time.monotonic()
        cluster.up()
        best = min(best, time.monotonic() - began)
        if best <= 3.0:
            break
    assert best <= 10


def test_soak_in_smoke_size(tmp_path: Path) -> None:
    options = {"seconds": 1, "idle_seconds": 1, "rate": 100, "folder": str(tmp_path)}
    result = soak.run(options)
    assert result["acked"] > 0
    assert 0 < result["idle_mb"] <= soak.IDLE_MB_BAR, result
    assert 0 < result["load_mb"] <= soak.LOAD_MB_BAR, result
    assert len(result["samples_mb"]) == soak.SAMPLES
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(120)
def test_killed_nodes_serve_again_soon(tmp_path: Path) -> None:
    result = recovery.run({"size_mib": 32, "folder": str(tmp_path)})
    # The bar of 5 s is for the large size, on a machine of its own.
    assert max(result["follower_ready_s"], result["cluster_first_ack_s"]) <= 10, result
    assert result["messages"] > 20_000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(60)
def test_nodes_are_small_and_idle_ones_idle(tmp_path: Path) -> None:
    options = {"seconds": 6, "idle_seconds": 4, "rate": 1000, "folder": str(tmp_path)}
    result = soak.run(options)
    assert result["acked"] >= 3000
    assert result["idle_mb"] <= soak.IDLE_MB_BAR, result
    assert result["load_mb"] <= soak.LOAD_MB_BAR, result
    # Four seconds of a shared machine are noisy; the bar itself is for the large size.
    assert result["idle_cores"] <= 3 * soak.IDLE_CORES_BAR, result


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(120)
def test_fresh_nodes_join_idle_and_under_load(tmp_path: Path) -> None:
    """In small; the bars are for 10 GiB on a machine of its own."""
    found = join.run(
        {"gib": 0.03, "load": 0.2, "seconds": 1, "rate_seconds": 0.5, "folder": str(tmp_path)}
    )
    for what in ("idle", "loaded"):
        assert found[what]["mb"] >= 20, found
        assert found[what]["mb_per_second"] > 0, found
    assert found["loaded"]["mb"] >= found["idle"]["mb"]
    loaded = found["loaded"]
    assert loaded["rate"] == pytest.approx(loaded["single_sends_reach"] * 0.2, abs=1)
    assert loaded["before"]["answered_per_second"] > 0
    assert loaded["meanwhile"]["p99_ms"] >= loaded["meanwhile"]["p50_ms"] > 0
    assert found["bars"]["idle_met"] is (found["idle"]["mb_per_second"] >= 100)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_two_gibibytes_do_not_slow_the_start(tmp_path: Path) -> None:
    result = recovery.run({"folder": str(tmp_path)})
    assert result["passed"], result


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_steady_load_does_not_grow_the_nodes(tmp_path: Path) -> None:
    """The bar is for ten minutes; in two, what a checkpoint's heap keeps may look like growth.

    A leak of one object of Python a message, 48 bytes, would be 14 MB between the two fifths.
    """
    result = soak.run({"seconds": 120, "rate": 3000, "folder": str(tmp_path)})
    samples = result["samples_mb"]
    assert result["acked"] >= 300_000
    assert result["idle_mb"] <= soak.IDLE_MB_BAR
    assert result["idle_cores"] <= soak.IDLE_CORES_BAR
    assert max(samples) <= soak.LOAD_MB_BAR, samples
    assert result["growth_mb"] <= 12, samples


@pytest.mark.long
@pytest.mark.alone
def test_many_topics_in_small() -> None:
    found = topics.run({"topics": 60, "queues": 2, "in_flight": 16})
    assert found["bars"]["rss_met"]
    assert found["bars"]["maps_met"]
    assert found["created_per_second"] > 0
    assert found["node_after_restart"]["files"] > 0
