"""Every program that a page prints runs as it is printed, and prints what the page shows."""

from __future__ import annotations

import pytest

from .desk import Desk
from .half_hour import steps
from .pages import LANGUAGES, Block, blocks, matches, pages

ALL = [block for page in pages() for block in blocks(page) if block.language == "python"]
# Those with Spark are steps of the first half hour, in Spark's environment.
PROGRAMS = [block for block in ALL if "pyspark" not in block.text]
#: Pages whose programs start many processes.
LONG = {"docs/replicated-bank.md"}


@pytest.fixture(scope="module")
def cluster_desk(desk: Desk) -> Desk:
    """With the cluster that programs find without an address, started as the README says."""
    code, said = desk.type("dledger up")
    assert code == 0, said
    return desk


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.place, marks=[pytest.mark.long] if block.page in LONG else [])
        for block in PROGRAMS
    ],
)
def test_it_runs_as_printed(block: Block, request: pytest.FixtureRequest) -> None:
    needs_cluster = "cluster.connect()" in block.text or "blocking.connect()" in block.text
    desk: Desk = request.getfixturevalue("cluster_desk" if needs_cluster else "desk")
    folder = desk.work / block.place.replace("/", "-")
    folder.mkdir()
    program = folder / "program.py"
    program.write_text(block.text, "utf-8")
    printed = desk.run(program, block.shown, is_endless="Ctrl-C" in block.text)
    assert block.shown is None or matches(block.shown, printed), printed
    assert block.shown is not None or not printed, f"the page does not show:\n{printed}"


@pytest.mark.parametrize("page", pages())
def test_every_block_says_what_it_is(page: str) -> None:
    """One in an unknown language would be run by nobody."""
    unknown = [block.place for block in blocks(page) if block.language not in LANGUAGES]
    assert not unknown, f"say python, text or console behind the fence: {unknown}"


def test_every_program_with_spark_is_a_step_of_the_first_half_hour() -> None:
    steps_have = [program for step in steps() for program in step.programs.values()]
    with_spark = [block for block in ALL if block not in PROGRAMS]
    assert with_spark
    assert [block.place for block in with_spark if block not in steps_have] == []


def test_there_are_programs_and_a_new_one_is_found() -> None:
    assert {"README.md", "dledger/README.md", "commitlog/README.md"} <= {
        block.page for block in PROGRAMS
    }
