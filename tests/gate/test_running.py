"""A test that is run alone has passed only when it ran."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.layers import machine, scratch
from scripts.layers.plan import INTEROP_SMOKE, SPARK, SPARK_LONG, SUITE, Layer, plan
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


@pytest.mark.parametrize("arguments", [["test"], ["test", "--long"]])
def test_layers_come_after_some_that_began_before_them(arguments: list[str]) -> None:
    layers = plan(arguments).layers
    for at, layer in enumerate(layers):
        assert set(layer.after) <= {one.name for one in layers[:at] if one.beside}


def counted(*statements: str, beside: bool = False, is_equal: bool = False) -> Layer:
    """A run of tests that executes `statements` and reports one test that passed."""
    report = '{"passed": 1, "skipped": 0, "failures": []}'
    code = "; ".join(
        (
            "import os, pathlib",
            *statements,
            f"open(os.environ['DLEDGER_COUNTS'], 'w').write({report!r})",
        )
    )
    return Layer("counted", ("python", "-c", code), ("python",), beside=beside, is_equal=is_equal)


def until_there_are(*files: Path) -> str:
    """A statement."""
    there_are = f"all(map(os.path.exists, {list(map(str, files))!r}))"
    return f"import time; [time.sleep(0.01) for _ in iter(lambda: {there_are}, True)]"


def test_tests_beside_others_have_addresses_of_their_own(tmp_path: Path) -> None:
    """Each run of tests counts its addresses from the first (tests/conftest.py: `new_address`)."""
    files = [tmp_path / name for name in ("beside", "also beside", "in order")]
    layers = [
        counted(
            f"pathlib.Path({str(file)!r}).write_text(os.environ['DLEDGER_TEST_ADDRESSES'])",
            until_there_are(*files),  # addresses that are given back may be given again
            beside=file != files[-1],
        )
        for file in files
    ]
    with machine.addresses() as number:
        runner = Runner({**os.environ, machine.ADDRESSES_VARIABLE: str(number)})
        assert runner.run_in_order(layers, lambda *_: None).passed == 3
    found = [int(file.read_text()) for file in files]
    assert found[-1] == number
    assert len(set(found)) == 3


def test_a_step_beside_others_that_cannot_begin_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left() -> AbstractContextManager[int]:
        raise machine.CannotSucceed("200 runs of tests hold the addresses")

    monkeypatch.setattr(machine, "addresses", none_left)
    total = Runner(dict(os.environ)).run_in_order([counted(beside=True)], lambda *_: None)
    assert (total.passed, total.failed) == (0, 1)
    assert "200 runs of tests hold the addresses" in str(total.failures[0])


@pytest.mark.parametrize("is_equal", [False, True])
def test_steps_make_way_for_one_beside_them_that_is_not_equal(
    tmp_path: Path, is_equal: bool
) -> None:
    niceness = tmp_path / "niceness"
    told = f"pathlib.Path({str(niceness)!r}).write_text(str(os.nice(0)))"
    layers = [counted(until_there_are(niceness), beside=True, is_equal=is_equal), counted(told)]
    assert Runner(dict(os.environ)).run_in_order(layers, lambda *_: None).passed == 2
    assert int(niceness.read_text()) == os.nice(0) + (0 if is_equal else 10)


def test_foreign_clients_and_spark_run_beside_the_suite_one_after_the_other() -> None:
    """Beside each other, too, their virtual machines of Java would take what the suite needs."""
    layers = plan(["test"]).layers
    beside = [layer for layer in layers if layer.beside and layer.tests]
    assert beside == [INTEROP_SMOKE, SPARK]
    assert INTEROP_SMOKE.name in SPARK.after
    assert layers.index(SPARK) < layers.index(SUITE)


def test_of_the_long_layers_only_what_computes_runs_beside_spark_and_soak() -> None:
    """Benchmarks and foreign clients measure time: they share the machine with no other layer."""
    layers = plan(["test", "--long"]).layers
    (first, *_) = (at for at, layer in enumerate(layers) if layer.beside)
    assert layers[first].name == SPARK_LONG.name
    assert [layer.name for layer in layers[first:] if layer.beside and not layer.goes_first] == []
    behind = [layer for layer in layers[first:] if not layer.beside]
    assert {layer.command[0] for layer in behind} == {"dledger"}
    assert {layer.command[1] for layer in behind} == {"sim", "mutants"}
