"""Every program that a page prints runs as it is printed, and prints what the page shows."""

from __future__ import annotations

import importlib.util

import pytest

from .desk import Desk
from .pages import LANGUAGES, Block, blocks, matches, pages

PROGRAMS = [block for page in pages() for block in blocks(page) if block.language == "python"]


@pytest.fixture(scope="module")
def cluster_desk(desk: Desk) -> Desk:
    """With the cluster that programs find without an address, started as the README says."""
    code, said = desk.type("dledger up")
    assert code == 0, said
    return desk


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.place)
def test_it_runs_as_printed(block: Block, request: pytest.FixtureRequest) -> None:
    if "import pyspark" in block.text and importlib.util.find_spec("pyspark") is None:
        pytest.skip("needs Spark: scripts/spark has it")
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


def test_there_are_programs_and_a_new_one_is_found() -> None:
    assert {"README.md", "dledger/README.md", "commitlog/README.md"} <= {
        block.page for block in PROGRAMS
    }
