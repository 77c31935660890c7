"""A test that is run alone has passed only when it ran."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.layers.plan import Layer
from scripts.layers.running import Runner

TESTS = """
import pytest

def test_passes():
    pass

def test_fails():
    assert False

@pytest.mark.skip(reason="needs what is not here")
def test_is_skipped():
    pass
"""


@pytest.mark.parametrize(
    ("test", "passes"), [("test_passes", True), ("test_fails", False), ("test_is_skipped", False)]
)
def test_alone_only_a_test_that_ran_and_held_has_passed(
    tmp_path: Path, test: str, passes: bool
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_three.py").write_text(TESTS)
    layer = Layer(
        f"{test}, alone",
        ("pytest", "-n0", "-p", "tests.layer_report", f"{tmp_path / 'test_three.py'}::{test}"),
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    code = Runner(environment).run_alone(layer, tmp_path / "output.txt")
    assert (code == 0) is passes, (tmp_path / "output.txt").read_text()
