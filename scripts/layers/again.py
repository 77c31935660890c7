"""A test that failed is run once more, alone, when everything else has ended.

    passed alone   flaky: both outputs are kept, the run may still pass, with FLAKY_MAX of them at
                   the most; each is a defect of the first rank and is fixed before anything else
    failed alone   a failure
    never asked    a verdict about safety, a gate, a test that could not be collected, and all of
                   them when more than ASKED_MAX failed: so many are no accident

On a machine that is busy a thousand tests fail now and then for want of time. A test that fails on
the idle machine, too, has found something.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.layers.outcome import Counts, Failure
from scripts.layers.plan import Layer

FLAKY_MAX = 3
ASKED_MAX = 10


@dataclass(frozen=True, slots=True)
class Flaky:
    """A test that failed among others and passed alone; `kept`: the folder of both outputs."""

    test: str
    kept: Path


def ask_again(
    counts: Counts, layers: dict[str, Layer], run_alone: Callable[[Layer, Path], int], kept: Path
) -> list[Flaky]:
    """Run each failed test of `counts` alone; those that pass are moved from failed to passed.

    `run_alone(layer, output)` runs a layer's command, leaves what it printed in `output`, and
    returns its exit code.
    """
    asked = [one for one in counts.failures if _may_be_asked(one)]
    if len(asked) > ASKED_MAX:
        return []
    flaky = []
    for number, failure in enumerate(asked):
        layer = layers[failure.layer]
        folder = kept / f"{number}-{re.sub(r'[^A-Za-z0-9]+', '-', failure.test)[-80:]}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "first.txt").write_text(f"{failure}\n\n{failure.text}\n")
        alone = Layer(
            f"{failure.test}, alone",
            (*layer.alone, failure.test),
            layer.alone,
            in_memory=layer.in_memory,
        )
        if run_alone(alone, folder / "again.txt") == 0:
            counts.failures.remove(failure)
            counts.passed += 1
            flaky.append(Flaky(failure.test, folder))
    return flaky


def _may_be_asked(failure: Failure) -> bool:
    return "::" in failure.test and not failure.safety
