"""3 → 5 → 3 nodes under load, with kills, on real processes; the long form is a benchmark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.bench.members import LARGE, Options, Run


@pytest.mark.timeout(120)
def test_three_five_three_under_load(tmp_path: Path, new_address: Callable[[], str]) -> None:
    """About 25 s: two nodes join, the leader is killed, two go, one of them the leader."""
    hosts = [new_address() for _ in range(LARGE + 1)]
    result = asyncio.run(Run(Options(tmp_path / "cluster", 1, rate=300, hosts=hosts)).all())
    assert result["passed"], result
    assert (result["lost"], result["doubled"], result["reordered"]) == (0, 0, 0)
    assert isinstance(result["acked"], int)
    assert result["acked"] > 300
