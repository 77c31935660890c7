"""Measures variants by turns, so that other load on the machine slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, NamedTuple


class Job(NamedTuple):
    """`amount`: rows, bytes or operations that one call of `work` does."""

    amount: int
    work: Callable[[], Any]


def take_turns(
    jobs: Mapping[str, Job], repeats: int, *, warm_ups: int = 1
) -> dict[str, list[float]]:
    """Amount per second of each, `repeats` times, behind turns that are not counted."""
    rates: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(warm_ups + repeats):
        for name, job in jobs.items():
            began = time.perf_counter()
            job.work()
            if turn >= warm_ups:
                rates[name].append(job.amount / (time.perf_counter() - began))
    return rates


def compared(rates: Mapping[str, list[float]], yardstick: str) -> dict[str, dict[str, float]]:
    """Rows per second of each, and its median's ratio to that of `yardstick`."""
    one = median(rates[yardstick])
    return {
        name: {
            "rows_per_s_median": round(median(found)),
            "rows_per_s_best": round(max(found)),
            f"ratio_to_{yardstick}": round(median(found) / one, 3),
        }
        for name, found in rates.items()
    }
