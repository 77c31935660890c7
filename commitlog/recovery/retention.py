"""Which commit log files may go, and when producers are refused (docs/spec/store.md 6.4); pure.

    disk use   > 75 %   expired files go at any hour, not only at `delete_hours`
               > 85 %   the oldest go whatever their age (unless clean_forcibly is off)
               > 90 %   the same, and producers are refused

Oldest first, stop at the first that must stay, never the last file, at most 10 in a round. A file
is expired when its content was last changed more than `reserved_hours` ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from commitlog.config import StoreConfig
from commitlog.files.disk_usage import DiskUsage

_HOUR_S = 3600.0


class DiskLevel(IntEnum):
    """How full the disk is, in RocketMQ's water marks."""

    NORMAL = 0
    CLEAN = 1
    FORCED = 2
    FULL = 3


class LogFile(NamedTuple):
    """One file of the commit log: address of its first byte, when it was last changed (s)."""

    start: int
    modified_s: float


def disk_level(usage: DiskUsage, config: StoreConfig) -> DiskLevel:
    """The water mark that the used share of the disk has passed."""
    used_percent = 100 * usage.used_ratio
    if used_percent > config.disk_full_percent:
        return DiskLevel.FULL
    if used_percent > config.disk_forced_percent:
        return DiskLevel.FORCED
    if used_percent > config.disk_used_max_percent:
        return DiskLevel.CLEAN
    return DiskLevel.NORMAL


def files_to_drop(
    log_files: Sequence[LogFile],
    level: DiskLevel,
    config: StoreConfig,
    *,
    now_s: float,
    hour: int,
) -> list[LogFile]:
    """The files that go in this round, oldest first.

    `hour` is the local hour of the day. The last file never goes.
    """
    forced = level >= DiskLevel.FORCED and config.clean_forcibly
    if level == DiskLevel.NORMAL and hour not in config.delete_hours:
        return []
    keep_s = config.reserved_hours * _HOUR_S
    dropped: list[LogFile] = []
    for file in log_files[:-1]:
        if len(dropped) == config.delete_files_max:
            break
        if not forced and now_s - file.modified_s < keep_s:
            break
        dropped.append(file)
    return dropped
