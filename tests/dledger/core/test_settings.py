"""CoreConfig: each relation that cannot work is refused with a sentence that names it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dledger.core.config import CoreConfig
from dledger.core.types import NodeId

N0, N1, N9 = NodeId("n0"), NodeId("n1"), NodeId("n9")
GOOD = CoreConfig(N0, (N0, N1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"node_id": N9}, "node_id n9 is not among the voters"),
        ({"voters": (N0, N0)}, "a voter is named twice"),
        ({"heartbeat_interval": 0.0}, "heartbeat_interval 0.0 must be above 0"),
        ({"heartbeat_interval": 0.2}, "at most half of election_timeout_min 0.3"),
        ({"election_timeout_min": 0.6}, "below election_timeout_max 0.6"),
        ({"clock_drift_max": 1.0}, "clock_drift_max 1.0 must be 0 to below 1"),
        ({"clock_drift_max": -0.1}, "clock_drift_max -0.1 must be 0 to below 1"),
        ({"clock_drift_max": 0.5, "lease_reads": True}, "clock_drift_max 0.5 leaves a lease"),
        ({"frame_bytes_max": 32 << 20}, "frame_bytes_max 33554432 must fit into"),
        ({"preferred": N9}, "preferred n9 is not among the voters"),
    ],
)
def test_what_cannot_work_is_refused(change: dict[str, Any], words: str) -> None:
    GOOD.validate()
    with pytest.raises(ValueError, match=words):
        replace(GOOD, **change).validate()


@pytest.mark.parametrize(
    "change",
    [
        {"heartbeat_interval": 0.15},
        {"clock_drift_max": 0.0},
        {"frame_bytes_max": 16 << 20},
        {"preferred": N1},
        {"voters": (), "preferred": N9},  # who votes is in the log
    ],
)
def test_what_just_works_is_taken(change: dict[str, Any]) -> None:
    replace(GOOD, **change).validate()
