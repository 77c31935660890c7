"""Limits of this machine's disk, measured in the same run as the figures compared with them.

    append    write 4 KiB at the end of a file, fdatasync: what one message alone must wait for
    rewrite   overwrite blocks that hold data already, fdatasync, in three files at once: the best
              that three replicas on one disk could reach, since each message is written three times

    folder    where to measure (default the current folder)

Absolute figures of another machine or another hour say little, so bars are ratios to these. About
four seconds and 200 MiB, which are removed again.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

APPEND_SIZE = 4096
# Group commits of a loaded node are between these; the best of them is the limit.
BLOCK_SIZES = (64 << 10, 256 << 10, 1 << 20)
COPIES = 3
FILE_SIZE = 64 << 20
# Virtual disks have hiccups of 100 ms: a window much shorter than a second measures luck.
WINDOW_SECONDS = 0.8
# A message of 1 KiB with its properties and headers, as `dledger bench send` writes it.
MESSAGE_RECORD_SIZE = 1300


@dataclass(frozen=True, slots=True)
class DiskOptions:
    """Options of the bench; see the module's text."""

    folder: str = "."


@dataclass(frozen=True, slots=True)
class DiskLimits:
    """Limits of the disk that holds one folder.

    Attributes:
        append_p50_ms: median of one 4-KiB append + fdatasync, milliseconds.
        append_p99_ms: 99th percentile of the same.
        rewrite_block_size: block size that was best, bytes.
        rewrite_bytes_per_second: bytes per second of *one* of the three copies, all durable.
    """

    append_p50_ms: float
    append_p99_ms: float
    rewrite_block_size: int
    rewrite_bytes_per_second: float

    def messages_per_second(self, record_size: int) -> float:
        """Upper limit of durable messages per second in three copies, `record_size` bytes each."""
        return self.rewrite_bytes_per_second / record_size


def percentile(sorted_values: list[float], share: float) -> float:
    """The value at `share` (0..1) of a sorted, non-empty list, by nearest rank."""
    assert sorted_values, "a percentile of nothing"
    assert 0 <= share <= 1
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def measure(folder: Path) -> DiskLimits:
    """Measure the disk under `folder`, which must exist. Raises OSError when it is full."""
    with tempfile.TemporaryDirectory(prefix="disk-bench-", dir=folder) as name:
        latencies = sorted(_append_latencies(Path(name) / "append"))
        files = [_open_written(Path(name) / f"copy-{number}") for number in range(COPIES)]
        try:
            rates = {size: _rewrite_rate(files, size) for size in BLOCK_SIZES}
        finally:
            for fd in files:
                os.close(fd)
    best = max(rates, key=lambda size: rates[size])
    return DiskLimits(
        append_p50_ms=percentile(latencies, 0.5) * 1e3,
        append_p99_ms=percentile(latencies, 0.99) * 1e3,
        rewrite_block_size=best,
        rewrite_bytes_per_second=rates[best],
    )


def _append_latencies(path: Path) -> list[float]:
    data = os.urandom(APPEND_SIZE)
    latencies = []
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        end = time.perf_counter() + WINDOW_SECONDS
        position = 0
        while (started := time.perf_counter()) < end:
            os.pwrite(fd, data, position)
            os.fdatasync(fd)
            latencies.append(time.perf_counter() - started)
            position += APPEND_SIZE
    finally:
        os.close(fd)
    return latencies


def _open_written(path: Path) -> int:
    """Open a file with all blocks allocated and filled: overwriting it needs no metadata."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    chunk = os.urandom(1 << 20)
    for position in range(0, FILE_SIZE, len(chunk)):
        os.pwrite(fd, chunk, position)
    os.fsync(fd)
    return fd


def _rewrite_rate(files: list[int], block_size: int) -> float:
    """Bytes per second of the slowest copy while all are overwritten at once."""
    rates = [0.0] * len(files)

    def overwrite(number: int) -> None:
        data = os.urandom(block_size)
        started = time.perf_counter()
        written = 0
        while time.perf_counter() - started < WINDOW_SECONDS:
            os.pwrite(files[number], data, written % FILE_SIZE)
            os.fdatasync(files[number])
            written += block_size
        rates[number] = written / (time.perf_counter() - started)

    threads = [threading.Thread(target=overwrite, args=(n,)) for n in range(len(files))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return min(rates)


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Measure; one JSON object."""
    limits = measure(Path(DiskOptions(**options).folder))
    most = limits.messages_per_second(MESSAGE_RECORD_SIZE)
    return asdict(limits) | {"messages_1k_per_second_max": most}
