"""The table of mutants stays true: patches fit, killers exist, every rule is in it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from click.testing import CliRunner

from chaos.mutants import child, command, run
from chaos.mutants.child import Failures
from chaos.mutants.command import mutants
from chaos.mutants.control import Control, Wanted, run_control, wanted_by
from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch, PatchDoesNotFit, patched_source, source_of
from chaos.mutants.run import Fate, run_mutant
from chaos.mutants.table import MUTANTS, find
from chaos.sim.profile import EVERYTHING

ROOT = Path(__file__).parents[3]
CONFORMANCE = "dledger/testing/conformance.py"
#: The bar of docs/spec/chaos.md 6: a kill within so many seeds.
SEEDS_MAX = 2000

#: Rules of the product; L6 is the simulator itself, which no mutant can take out.
RULES = set(
    re.findall(r"^### ([DSLR]\d+)", (ROOT / "docs/rules.md").read_text("utf-8"), re.MULTILINE)
) - {"L6"}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_source_and_is_python(mutant: Mutant) -> None:
    sources: dict[str, str] = {}
    for patch in mutant.patches:
        source = sources.get(patch.module) or source_of(patch.module)
        sources[patch.module] = patched_source(patch, source)
        assert sources[patch.module] != source
    for module, source in sources.items():
        compile(source, module, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_has_a_killer_or_an_argument(mutant: Mutant) -> None:
    assert bool(mutant.argued) != bool(mutant.seeds or mutant.tests)
    assert mutant.first + mutant.seeds <= SEEDS_MAX
    for test in mutant.tests:
        path, *_, name = test.split("::")
        text = (ROOT / path).read_text() + (ROOT / CONFORMANCE).read_text()
        assert f"def {name.partition('[')[0]}(" in text


def test_every_rule_is_taken_out_by_some_mutant() -> None:
    taken = {rule for mutant in MUTANTS for rule in mutant.rules if not mutant.argued}
    assert taken >= RULES


def test_a_patch_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(PatchDoesNotFit, match="0 times"):
        patched_source(Patch("m", "gone", ""), "a = 1\n")
    with pytest.raises(PatchDoesNotFit, match="2 times"):
        patched_source(Patch("m", "a", ""), "a = a\n")
    with pytest.raises(PatchDoesNotFit, match="no module"):
        source_of("dledger.core.nowhere")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(KeyError):
        find("nothing")
    assert CliRunner().invoke(mutants, ["--only", "nothing"]).exit_code == 254


def test_the_list_names_all_of_them() -> None:
    done = CliRunner().invoke(mutants, ["--list"])
    assert done.exit_code == 0
    assert len(done.output.splitlines()) == len(MUTANTS)


def test_a_mutant_is_killed_in_a_process_of_its_own_and_the_control_is_clean() -> None:
    done = CliRunner().invoke(mutants, ["--only", "majority-off-by-one", "-o", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["killed"], found["total"], found["argued"]) == (1, 1, 0)
    assert found["mutants"][0]["by"] == "seed 0, the 1st"
    assert found["mutants"][0]["again"].startswith("dledger sim --seed 0 ")
    assert found["control"]["seeds"] == 1
    assert found["control"]["red"] == []


def test_the_mutants_of_a_row_can_be_chosen() -> None:
    listed = CliRunner().invoke(mutants, ["--row", "24", "--list"]).output
    assert "leases-without-a-margin-for-drift" in listed
    assert all("row 24" in line for line in listed.splitlines())


def _ended(by: dict[str, object], code: int = 0) -> subprocess.CompletedProcess[str]:
    whole = {"tests": [], "missed": "", "seed": -1, "again": "", "detail": "", "seconds": 1.0}
    return subprocess.CompletedProcess([], code, json.dumps(whole | by), "what it said")


@pytest.mark.parametrize(
    ("when", "said", "counts"),
    [
        ("call", "E   AssertionError: a vote was lost", True),
        ("call", "E   KeyError: 'no rule'", True),
        ("setup", "E   OSError: no room", False),
        ("call", "E   NameError: name 'no_such_name' is not defined", False),
        ("call", "E   ImportError: cannot import name", False),
        ("call", "E   Failed: Timeout (>60.0s) from pytest-timeout.", False),
    ],
)
def test_a_failure_that_says_nothing_of_the_rule_is_no_kill(
    when: str, said: str, counts: bool
) -> None:
    failures = Failures()
    report = SimpleNamespace(
        when=when, failed=True, skipped=False, nodeid="t", longreprtext=f"code\n{said}\nt.py:1"
    )
    failures.pytest_runtest_logreport(cast(pytest.TestReport, report))
    assert (failures.names, bool(failures.broken)) == ((["t"], False) if counts else ([], True))


def test_a_child_that_breaks_is_told_and_is_no_kill() -> None:
    fate = run_mutant(Mutant("nothing", (), ()))
    assert not fate.killed
    assert "KeyError" in fate.broke
    assert fate.tries == 3


def test_a_rule_that_no_killer_imports_is_not_judged() -> None:
    """A test that fails for another reason is no kill, one that passes no survivor."""
    one, other = Patch("json", "a", "b"), Patch("chaos.nowhere", "a", "b")
    child.check_patched(Mutant("one", (), (one, other)))
    with pytest.raises(SystemExit, match=r"no killer of two imports chaos\.nowhere"):
        child.check_patched(Mutant("two", (), (other,)))


@pytest.mark.parametrize("hangs", [True, False])
def test_a_hang_is_a_kill_only_where_the_table_says_so(
    monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired([], 120.0)

    monkeypatch.setattr("chaos.mutants.run.subprocess.run", hang)
    fate = run_mutant(Mutant("one", (), (), tests=("t",), hangs=hangs))
    assert fate.hung
    assert (fate.killed, fate.by) == ((True, "hung") if hangs else (False, ""))
    assert ("hung" in fate.broke) != hangs


def test_every_arena_must_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds do not vary, so only tests are asked again."""
    answers = [_ended({"missed": "D", "tests": ["a::b"]})]
    monkeypatch.setattr("chaos.mutants.run.subprocess.run", lambda *_, **__: answers.pop(0))
    fate = run_mutant(Mutant("one", (), (), seeds=3, tests=("a::b",)))
    assert (fate.killed, fate.missed, fate.tries) == (False, "D", 1)
    answers += [_ended({"missed": "U", "seed": 4}), _ended({"tests": ["a::b"], "seed": 4})]
    fate = run_mutant(Mutant("one", (), (), seeds=3, tests=("a::b",)))
    assert (fate.killed, fate.tries, fate.by) == (True, 2, "seed 4, the 5th · a::b")


def test_the_control_runs_each_seed_of_a_kind_once_up_to_the_kill() -> None:
    one = Mutant("one", (), (), seeds=9, first=2)
    two = Mutant("two", (), (), seeds=9)
    other = Mutant("other", (), (), seeds=9, profile=EVERYTHING)
    fates = [
        Fate("one", (), (), True, 1.0, ("t::a",), 3),
        Fate("two", (), (), True, 1.0, ("t::a", "t::b"), 3),
        Fate("other", (), (), True, 1.0, (), 0),
    ]
    wanted = wanted_by([one, two, other], fates)
    assert sorted(wanted.seeds) == [("one", 2), ("one", 3), ("other", 0), ("two", 0), ("two", 1)]
    assert wanted.tests == ("t::a", "t::b")


def test_a_red_control_is_found_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bad = tmp_path / "test_bad.py"
    bad.write_text("def test_right(): pass\ndef test_wrong(): assert False\n")
    wanted = Wanted((("majority-off-by-one", 0),), (f"{bad}::test_right", f"{bad}::test_wrong"))
    control = run_control(wanted, 1)
    assert (control.seeds, control.tests, len(control.red)) == (1, 2, 1)
    assert control.red[0].endswith("::test_wrong")
    monkeypatch.setattr(command, "run_all", lambda *_: [Fate("one", (), (), True, 1.0)])
    monkeypatch.setattr(command, "run_control", lambda *_: control)
    done = CliRunner().invoke(mutants, [])
    assert done.exit_code == 1
    assert done.output.splitlines()[-1].endswith("CONTROL RED")


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run_control", lambda *_: Control(0, 0, (), 0.0))


@pytest.mark.usefixtures("clean")
def test_a_killer_that_misses_once_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fates = [Fate("two", (), (), False, 1.0), Fate("two", (), (), True, 1.0, ("a test",))]
    monkeypatch.setattr(run, "_run_once", lambda mutant: fates.pop(0))
    fate = run_mutant(Mutant("two", (), ()))
    assert (fate.killed, fate.tries) == (True, 2)
    monkeypatch.setattr(command, "run_all", lambda *_: [fate])
    done = CliRunner().invoke(mutants, [])
    assert done.exit_code == 0
    assert done.output.splitlines()[-1].endswith("at try 2: two")


@pytest.mark.usefixtures("clean")
def test_the_last_line_names_who_is_alive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fates(*_: object) -> list[Fate]:
        return [
            Fate("one", (), (), True, 1.0, ("a test",), 3),
            Fate("two", (), (), False, 1.0, missed="U"),
            Fate("three", (), (), False, 1.0, broke="what it said"),
        ]

    monkeypatch.setattr(command, "run_all", fates)
    done = CliRunner().invoke(mutants, ["--write", str(tmp_path / "page.md")])
    assert done.exit_code == 1
    last = done.output.splitlines()[-1]
    assert last.startswith("killed 1/3  by seeds 1  argued 3  ")
    assert last.endswith("SURVIVED two  NOT JUDGED three")
    assert "NOT JUDGED three: what it said" in done.output
    assert "SURVIVED two: nothing noticed" in done.output
    assert "0 seeds and 0 tests with every rule in its place: clean" in done.output
    assert "**Killed 1/3" in (tmp_path / "page.md").read_text()
    found = json.loads(CliRunner().invoke(mutants, ["-o", "json"]).output)
    assert (found["survivors"], found["not_judged"]) == (["two"], ["three"])
