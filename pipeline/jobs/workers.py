"""Where the tasks of a job run: here, in processes of this machine, or on a Spark cluster.

A job is a list of tasks (values that can be pickled), a function of one task, and a merge of the
results; it does not know where its tasks run.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers(Protocol):
    """Carries out tasks; results come in the order of the tasks."""

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result]:
        """The results, in order; may run a task only when its result is asked for. Raises the
        task's error.
        """
        ...


class Here:
    """One after the other, in this process."""

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result]:
        """As `Workers.map`; a task runs when its result is asked for."""
        return map(function, tasks)


class Processes:
    """On `count` processors of this machine."""

    def __init__(self, count: int) -> None:
        self._count = count

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result]:
        """As `Workers.map`; all tasks start when the first result is asked for."""
        count = min(self._count, len(tasks))
        if count <= 1:
            return map(function, tasks)
        return self._in_processes(function, tasks, count)

    def _in_processes(
        self, function: Callable[[Task], Result], tasks: Sequence[Task], count: int
    ) -> Iterable[Result]:
        # Forked children would inherit Arrow's threads half-alive.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, mp_context=context) as pool:
            yield from pool.map(function, tasks)


class OnSpark:
    """Runs the tasks on a Spark cluster. Its workers must see the same files and have this
    package.
    """

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result]:
        """As `Workers.map`; waits for all tasks. Raises Spark's errors."""
        if not tasks:
            return []
        found: list[Result] = (
            self._context.parallelize(list(tasks), len(tasks)).map(function).collect()
        )
        return found
