"""The table of mutants stays true: patches fit, killers exist, every rule is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.mutants import command, run
from chaos.mutants.command import mutants
from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch, PatchDoesNotFit, patched_source, source_of
from chaos.mutants.run import Fate, run_mutant
from chaos.mutants.table import MUTANTS, find

ROOT = Path(__file__).parents[3]
CONFORMANCE = "dledger/storage/conformance.py"

#: raft_log.md 7, release blockers, and the ● rules of safety_rules.md, and what more is built.
RULES = {
    *(f"D{number}" for number in range(1, 9)),
    *(f"S{number}" for number in range(1, 11)),
    *("L1", "L2", "L3", "L4", "L5"),
    *("R1", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R13", "R14"),
    *("R15", "R16", "R17", "R18", "R19", "R20", "R22", "R23", "R24", "R25", "R26"),
}


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
    assert CliRunner().invoke(mutants, ["--only", "nothing"]).exit_code == 2


def test_the_list_names_all_of_them() -> None:
    done = CliRunner().invoke(mutants, ["--list"])
    assert done.exit_code == 0
    assert len(done.output.splitlines()) == len(MUTANTS)


def test_a_mutant_is_killed_in_a_process_of_its_own() -> None:
    done = CliRunner().invoke(mutants, ["--only", "majority-off-by-one", "-o", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["killed"], found["total"], found["argued"]) == (1, 1, 0)
    assert found["mutants"][0]["by"].startswith("dledger sim --seed")


def test_a_child_that_breaks_is_told_and_is_no_kill() -> None:
    fate = run_mutant(Mutant("nothing", (), ()))
    assert not fate.killed
    assert "KeyError" in fate.broke
    assert fate.tries == 3


def test_a_killer_that_misses_once_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fates = [Fate("two", (), False, "", "", 1.0), Fate("two", (), True, "a test", "", 1.0)]
    monkeypatch.setattr(run, "_run_once", lambda mutant: fates.pop(0))
    fate = run_mutant(Mutant("two", (), ()))
    assert (fate.killed, fate.tries) == (True, 2)
    monkeypatch.setattr(command, "run_all", lambda *_: [fate])
    done = CliRunner().invoke(mutants, [])
    assert done.exit_code == 0
    assert done.output.splitlines()[-1].endswith("at try 2: two")


def test_the_last_line_names_who_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def fates(*_: object) -> list[Fate]:
        return [
            Fate("one", (), True, "a test", "", 1.0),
            Fate("two", (), False, "", "", 1.0),
            Fate("three", (), False, "", "", 1.0, "what it said"),
        ]

    monkeypatch.setattr(command, "run_all", fates)
    done = CliRunner().invoke(mutants, [])
    assert done.exit_code == 1
    assert done.output.splitlines()[-1].endswith("SURVIVED two  NOT JUDGED three")
    assert "NOT JUDGED three: what it said" in done.output
    found = json.loads(CliRunner().invoke(mutants, ["-o", "json"]).output)
    assert (found["survivors"], found["not_judged"]) == (["two"], ["three"])
