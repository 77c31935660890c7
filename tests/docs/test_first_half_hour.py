"""What somebody new does in the first half hour, typed as the page prints it, in a fresh folder."""

from __future__ import annotations

import pytest

from .desk import Desk
from .half_hour import Step, Typed, steps
from .pages import ROOT, matches

STEPS = steps()
COUNT = 30
# Take half a minute each: with the long layers.
LONG = frozenset({"Break real processes for twenty seconds", "Read a stopped node with Spark"})
SPARK_PYTHON = ROOT / ".tools/spark/venv/bin/python"


class HalfHour:
    """The steps in their order at one desk; one that is wanted alone has those before it done."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._done = 0

    def come_to(self, step: Step) -> None:
        """Do what is left of the steps before; whether they do well is their own tests' matter."""
        for before in STEPS[self._done : step.number - 1]:
            if before.title not in LONG:
                for typed in before.commands:
                    self._type(before, typed)
        self._done = max(self._done, step.number)

    def do(self, step: Step) -> None:
        """Raises AssertionError for a command that fails or prints what the page does not show."""
        for typed in step.commands:
            code, said = self._type(step, typed)
            program = step.program_of(typed)
            shown = program.shown if program and typed.shown is None else typed.shown
            assert code == 0, f"$ {typed.words}\n{said}"
            assert shown is None or matches(shown, said), (
                f"$ {typed.words}\n{said}\nand the page shows\n{shown}"
            )

    def _type(self, step: Step, typed: Typed) -> tuple[int, str]:
        program = step.program_of(typed)
        if program is None:
            return self._desk.type(typed.words, 90.0)
        file = self._desk.work / typed.words.removeprefix("python ")
        file.write_text(program.text, "utf-8")
        if "Ctrl-C" in program.text:
            return 0, self._desk.run(file, program.shown, is_endless=True)
        if needs_spark(step):
            return self._desk.type(f"{SPARK_PYTHON} {file.name}", 120.0)
        return self._desk.type(typed.words)


def needs_spark(step: Step) -> bool:
    return any("pyspark" in program.text for program in step.programs.values())


@pytest.fixture(scope="module")
def half_hour(desk: Desk) -> HalfHour:
    return HalfHour(desk)


def test_there_are_thirty_things_to_do() -> None:
    assert [step.number for step in STEPS] == list(range(1, COUNT + 1))
    assert all(step.commands for step in STEPS)
    assert {step.title for step in STEPS} >= LONG


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(
            step, id=f"{step.number:02}", marks=pytest.mark.long if step.title in LONG else ()
        )
        for step in STEPS
    ],
)
def test_it_works_as_the_page_says(step: Step, half_hour: HalfHour) -> None:
    if needs_spark(step) and not SPARK_PYTHON.exists():
        pytest.skip("not here: Spark; scripts/spark makes .tools/spark, an environment with it")
    half_hour.come_to(step)
    half_hour.do(step)
