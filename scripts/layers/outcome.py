"""What came of a layer, of a whole run, and of a test that failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed test, or one failed gate (`test` is empty then).

    `said`: the failure in one line. `text`: all that the test's report holds. `safety`: the test
    judges what may never happen (a message lost, doubled, reordered, replicas that differ), so one
    failure is a verdict and is never tried again.
    """

    layer: str
    said: str
    test: str = ""
    text: str = ""
    safety: bool = False

    def __str__(self) -> str:
        return f"{self.layer}: {self.said}" if not self.test else f"{self.test}: {self.said}"


@dataclass(slots=True)
class Counts:
    """Of one layer or of several; `failed` is the number of `failures`."""

    passed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return len(self.failures)

    def add(self, other: Counts) -> None:
        self.passed += other.passed
        self.skipped += other.skipped
        self.failures += other.failures

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def of_report(layer: str, report: dict[str, Any]) -> Counts:
    """Counts of a run of tests, from what tests/layer_report.py wrote."""
    failures = [Failure(layer, **one) for one in report["failures"]]
    return Counts(report["passed"], report["skipped"], failures)
