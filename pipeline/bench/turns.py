"""Measures several variants in turn, so that other load on the machine slows all of them alike."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any, NamedTuple

import psutil


class Job(NamedTuple):
    """A variant to measure; one call of `work` handles `amount` rows, bytes or operations."""

    amount: int
    work: Callable[[], Any]


class Turns(NamedTuple):
    """The figures of all variants: name of the variant → one number per turn.

    `rates`: amount per second. `cpu`: processor seconds per unit of the amount, summed over this
    process and its children, such as Spark's JVM and workers; 0 if the work is shorter than a tick
    of the processor clock, 10 ms. `parts`: `cpu` split by the name that `part_of` gives a process.
    """

    rates: dict[str, list[float]]
    cpu: dict[str, list[float]]
    parts: dict[str, list[dict[str, float]]]

    def ratios(self, name: str, yardstick: str) -> dict[str, float]:
        """How many times faster than `yardstick` the variant `name` is, by medians.

        "time" compares wall time, "cpu" processor time, which other programs disturb less.
        """
        by_time = median(self.rates[name]) / median(self.rates[yardstick])
        spent = median(self.cpu[name])
        by_cpu = median(self.cpu[yardstick]) / spent if spent else 0.0
        return {"time": round(by_time, 3), "cpu": round(by_cpu, 3)}


PartOf = Callable[[psutil.Process], str]


def _whole(_: psutil.Process) -> str:
    return "all"


def take_turns(
    jobs: Mapping[str, Job], repeats: int, *, warm_ups: int = 1
) -> dict[str, list[float]]:
    """Amount per second of each job, in `repeats` turns after `warm_ups` that are not counted."""
    return turns_with_cpu(jobs, repeats, warm_ups=warm_ups).rates


def turns_with_cpu(
    jobs: Mapping[str, Job], repeats: int, *, warm_ups: int = 1, part_of: PartOf = _whole
) -> Turns:
    """As `take_turns`, with the processor time of each turn."""
    found = Turns({name: [] for name in jobs}, {name: [] for name in jobs}, {n: [] for n in jobs})
    for turn in range(warm_ups + repeats):
        for name, job in jobs.items():
            before, began = cpu_seconds(_below(), part_of), time.perf_counter()
            job.work()
            seconds = time.perf_counter() - began
            if turn >= warm_ups:
                after = cpu_seconds(_below(), part_of)
                each = spent(before, after, job.amount)
                found.rates[name].append(job.amount / seconds)
                found.cpu[name].append(sum(each.values()))
                found.parts[name].append(each)
    return found


def _below() -> list[psutil.Process]:
    """This process and all its descendants."""
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def cpu_seconds(
    processes: Iterable[psutil.Process], part_of: PartOf = _whole
) -> dict[int, tuple[str, float]]:
    """Process → its part and its processor time so far."""
    found = {}
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it may end meanwhile
            times = sum(process.cpu_times()[:4])  # with children that were waited for
            found[process.pid] = part_of(process), times
    return found


def spent(
    before: Mapping[int, tuple[str, float]], after: Mapping[int, tuple[str, float]], amount: int
) -> dict[str, float]:
    """Processor seconds per unit of the amount, by parts.

    A process that has ended since is left out; Spark ends only workers that were idle.
    """
    found: dict[str, float] = {}
    for process, (part, seconds) in after.items():
        _, earlier = before.get(process, (part, 0.0))
        found[part] = found.get(part, 0.0) + (seconds - earlier) / amount
    return found


def compared(rates: Mapping[str, list[float]], yardstick: str) -> dict[str, dict[str, float]]:
    """Rows per second of each job, and the ratio of its median to that of `yardstick`."""
    one = median(rates[yardstick])
    return {
        name: {
            "rows_per_s_median": round(median(found)),
            "rows_per_s_best": round(max(found)),
            f"ratio_to_{yardstick}": round(median(found) / one, 3),
        }
        for name, found in rates.items()
    }
