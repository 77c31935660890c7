"""Which files go, and at which water mark (docs/spec/store.md 6.4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commitlog.config import StoreConfig
from commitlog.files.disk_usage import DiskUsage
from commitlog.recovery.retention import DiskLevel, LogFile, disk_level, files_to_drop

CONFIG = StoreConfig()
HOUR = 3600.0
NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("used", "level"),
    [
        (0, DiskLevel.NORMAL),
        (75, DiskLevel.NORMAL),
        (76, DiskLevel.CLEAN),
        (85, DiskLevel.CLEAN),
        (86, DiskLevel.FORCED),
        (90, DiskLevel.FORCED),
        (91, DiskLevel.FULL),
        (100, DiskLevel.FULL),
    ],
)
def test_water_marks(used: int, level: DiskLevel) -> None:
    assert disk_level(DiskUsage(100, 100 - used), CONFIG) is level


def test_a_file_system_without_size_is_not_full() -> None:
    assert disk_level(DiskUsage(0, 0), CONFIG) is DiskLevel.NORMAL


def aged(*hours: float) -> list[LogFile]:
    return [LogFile(n * 100, NOW - age * HOUR) for n, age in enumerate(hours)]


def dropped(
    files: list[LogFile], level: DiskLevel, *, hour: int = 12, config: StoreConfig = CONFIG
) -> list[int]:
    return [file.start for file in files_to_drop(files, level, config, now_s=NOW, hour=hour)]


def test_expired_files_go_at_their_hour_or_when_space_is_short() -> None:
    files = aged(100, 80, 71, 90, 1)
    assert dropped(files, DiskLevel.NORMAL) == []
    assert dropped(files, DiskLevel.NORMAL, hour=4) == [0, 100]  # stops at the first that stays
    assert dropped(files, DiskLevel.CLEAN) == [0, 100]


@pytest.mark.parametrize("level", [DiskLevel.FORCED, DiskLevel.FULL])
def test_age_does_not_count_when_the_disk_is_nearly_full(level: DiskLevel) -> None:
    files = aged(3, 2, 1, 0)
    assert dropped(files, level) == [0, 100, 200]  # never the last
    kept = replace(CONFIG, clean_forcibly=False)
    assert dropped(files, level, config=kept) == []
    assert dropped(aged(100, 2, 1), level, config=kept) == [0]


def test_at_most_ten_in_a_round() -> None:
    assert len(dropped(aged(*[100.0] * 30), DiskLevel.CLEAN)) == 10
    assert dropped(aged(100), DiskLevel.FULL) == []
    assert dropped([], DiskLevel.FULL) == []
