"""A test that is run alone has passed only when it ran."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.layers import scratch
from scripts.layers.plan import Layer, plan
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


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_test_that_is_run_alone_writes_where_its_layer_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(scratch, "MEMORY", memory)
    monkeypatch.setattr(scratch, "_memory_has_room", lambda: True)
    monkeypatch.delenv(scratch.ASKED, raising=False)
    said = tmp_path / "output.txt"
    layer = Layer("x", ("python", "-c", "import os; print(os.environ['TMPDIR'])"))
    Runner(dict(os.environ)).run_alone(replace(layer, in_memory=in_memory), said)
    folder = Path(said.read_text().strip())
    assert (folder.parent == memory) is in_memory
    assert not folder.exists()


def test_layer_begins_when_those_it_comes_after_have_ended(tmp_path: Path) -> None:
    """One that is made beside the others, slowly, and one that uses it."""
    made = tmp_path / "made"
    slowly = f"import time; time.sleep(0.3); open({str(made)!r}, 'w').close()"
    layers = [
        Layer("made", ("python", "-c", slowly), beside=True),
        Layer("uses it", ("python", "-c", f"open({str(made)!r})"), after=("made",)),
    ]
    ended: list[str] = []
    total = Runner(dict(os.environ)).run_in_order(layers, lambda one, *_: ended.append(one.name))
    assert (total.passed, total.failures) == (2, [])
    assert ended == ["made", "uses it"]


@pytest.mark.parametrize(("ends", "shown"), [(0, False), (1, True)])
def test_a_quiet_step_shows_what_it_prints_when_it_fails_only(
    capsys: pytest.CaptureFixture[str], ends: int, shown: bool
) -> None:
    code = f"print('a line for each file'); raise SystemExit({ends})"
    Runner(dict(os.environ)).run(Layer("collects", ("python", "-c", code), is_quiet=True))
    assert ("a line for each file" in capsys.readouterr().out) is shown


def test_layers_come_after_some_that_began_before_them() -> None:
    layers = plan(["test"]).layers
    for at, layer in enumerate(layers):
        assert set(layer.after) <= {one.name for one in layers[:at] if one.beside}


def test_no_two_runs_of_tests_are_at_the_same_time() -> None:
    """Without workers they have the same addresses (tests/conftest.py: `new_address`)."""
    assert not [layer.name for layer in plan(["test"]).layers if layer.beside and layer.tests]
