"""How full a file system is, as `df` says it."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Space of the file system that holds a path.

    Blocks that are kept for root are neither used nor free: an unprivileged user never gets them,
    so a file system that has none left but those is full.

    Attributes:
        total: bytes that are used or free.
        free: bytes that an unprivileged user may still write.
    """

    total: int
    free: int

    @property
    def used_ratio(self) -> float:
        """The used share, 0..1, as `df` prints it (Use%, rounded up there). 0 without blocks."""
        return 1 - self.free / self.total if self.total > 0 else 0.0


def usage_of(stat: os.statvfs_result, going: int = 0) -> DiskUsage:
    """Total and free bytes as `df` has them. Source: coreutils, df.c: used / (used + available).

    `going`: bytes that will be free soon and count as free here.
    """
    used = stat.f_blocks - stat.f_bfree
    total, free = (used + stat.f_bavail) * stat.f_frsize, stat.f_bavail * stat.f_frsize
    return DiskUsage(total, min(total, free + going))
