"""Changes that a program draws: what it may change, and that the draw is one of lines."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from chaos.mutants import patch
from chaos.mutants.sampled import run
from chaos.mutants.sampled.draw import COUNT, FOLDERS, draw, path_of
from chaos.mutants.sampled.killers import folders, importers
from chaos.mutants.sampled.operators import changes

SOURCE = '''
"""Text, 3."""
def decide(a: int = 1) -> bool:
    """More text."""
    if a < 2 and not b:
        self.state = None
        log.info("kept %d", 3)
        tell(a + b)
    if ready():
        raise ValueError(f"{a + 4}")
    assert a == b, "five"
    return True if a is None else c in d
'''


def _made(text: str) -> list[str]:
    return [change.applied(text).strip() for change in changes(text)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a < b", "(a <= b)"),
        ("a >= b", "(a > b)"),
        ("a != b", "(a == b)"),
        ("a is None", "(a is not None)"),
        ("a not in b", "(a in b)"),
        ("a or b", "(a and b)"),
        ("not a", "(a)"),
        ("a + b", "(a - b)"),
        ("a | b", "(a & b)"),
        ("7", "(8)"),
        ("False", "True"),
        ("self.a = b", "pass"),
        ("await tell(a)", "pass"),
        ("a += b", "pass"),
        ("raise a", "pass"),
    ],
)
def test_an_operator_changes_what_it_says(before: str, after: str) -> None:
    assert after in _made(before)


def test_texts_types_and_logs_are_left_alone() -> None:
    lines = {line: 0 for line in range(1, SOURCE.count("\n") + 1)}
    for change in changes(SOURCE):
        lines[change.line] += 1
        assert ast.parse(change.applied(SOURCE))
        assert change.applied(SOURCE) != SOURCE
    assert {line for line, count in lines.items() if count} == {3, 5, 6, 8, 9, 10, 11, 12}
    assert lines[10] == 1  # the raise is dropped whole; its text is left
    assert lines[11] == 1  # the condition; its text is left


def test_letters_of_more_than_a_byte_before_a_change_do_not_shift_it() -> None:
    assert 'tell("é", (a - b))' in _made('tell("é", a + b)')


def test_a_draw_is_one_of_lines_and_repeats() -> None:
    drawn = draw()
    assert drawn == draw()
    assert len({(mutant.module, mutant.change.line) for mutant in drawn}) == COUNT
    for mutant in drawn:
        compile(mutant.source(), mutant.module, "exec")
        assert mutant.module.replace(".", "/").startswith(FOLDERS)
        assert mutant.source() != path_of(mutant.module).read_text(encoding="utf-8")
    assert draw(seed=1) != drawn
    modules = {mutant.module for mutant in drawn}
    assert len(modules) > 40, "they are spread"


def test_killers_of_a_module_are_those_that_import_it_then_its_layer() -> None:
    assert "tests/dledger/core/test_progress.py" in importers("dledger.core.progress")
    assert folders("cluster.core.groups")[0].startswith("tests/cluster")
    assert folders("dledger.core.progress")[0].startswith("tests/dledger")


def test_a_run_goes_on_behind_what_its_file_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fates.jsonl"
    first, second = draw()[:2]
    known = {"name": first.name, "change": first.shown(), "by": "seed 3", "seconds": 1.0}
    file.write_text(json.dumps(known) + "\n" + '{"name": "torn')
    seen: list[str] = []
    asked: list[int] = []

    def asked_in_turn(function: object, numbers: list[int], jobs: int) -> object:
        asked.extend(numbers)
        return ((n, run.Drawing(draw()[n].name, "", "", 0.0)) for n in numbers)

    monkeypatch.setattr(run, "map_unordered", asked_in_turn)
    fates = run.run_all(file, 1, lambda fate: seen.append(fate.name), [first, second])
    assert asked == [1]
    assert seen == [second.name]
    assert [fate.by for fate in fates] == ["seed 3", ""]
    assert [fate.name for fate in run.read(file)] == [first.name, second.name]


def test_a_change_is_what_the_child_imports() -> None:
    mutant = draw()[0]
    finder = patch._Finder({mutant.module: mutant.change.applied})
    found = finder.find_spec(mutant.module, [str(path_of(mutant.module).parent)])
    assert found is not None
    assert isinstance(found.loader, patch._Loader)
    code = found.loader.get_code(mutant.module)
    assert code == compile(mutant.source(), found.loader.path, "exec", dont_inherit=True)
    assert finder.find_spec("chaos.mutants.sampled.draw", None) is None
