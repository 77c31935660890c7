from __future__ import annotations

from pathlib import Path

import pytest

from cluster.bench import disk


def test_limits_are_measured_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "WINDOW_SECONDS", 0.05)
    monkeypatch.setattr(disk, "FILE_SIZE", 2 << 20)
    limits = disk.measure(tmp_path)
    assert 0 < limits.append_p50_ms <= limits.append_p99_ms
    assert limits.rewrite_block_size in disk.BLOCK_SIZES
    assert limits.messages_per_second(1024) == limits.rewrite_bytes_per_second / 1024 > 0
    assert list(tmp_path.iterdir()) == []


def test_percentile_is_nearest_rank() -> None:
    values = [1.0, 2.0, 3.0, 4.0]
    assert disk.percentile(values, 0.0) == 1.0
    assert disk.percentile(values, 0.5) == 3.0
    assert disk.percentile(values, 1.0) == 4.0
