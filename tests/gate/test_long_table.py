"""`scripts/test --long` goes on where it stopped, on the same tree only."""

from __future__ import annotations

from pathlib import Path

from scripts.layers.long_table import LongTable, Tree
from scripts.layers.outcome import Counts, Failure
from scripts.layers.plan import LONG, Layer, plan

SOAK, SEEDS = Layer("soak", ("true",)), Layer("seeds", ("true",))
TREE = Tree("t1", "c" * 40)


def table(tmp_path: Path, tree: Tree = TREE) -> LongTable:
    return LongTable(tmp_path / "long.jsonl", tree)


def test_layer_that_passed_is_not_run_again_on_the_same_tree(tmp_path: Path) -> None:
    table(tmp_path).add(SOAK, Counts(passed=3), 60.0)
    assert table(tmp_path).passed(SOAK)
    assert not table(tmp_path).passed(SEEDS)
    assert not table(tmp_path, Tree("t2", "d" * 40)).passed(SOAK)


def test_layer_that_failed_is_run_again(tmp_path: Path) -> None:
    table(tmp_path).add(SOAK, Counts(failures=[Failure("soak", "exit code 1")]), 60.0)
    assert not table(tmp_path).passed(SOAK)


def test_tree_with_changes_keeps_nothing(tmp_path: Path) -> None:
    unnamed = Tree("", "c" * 40)
    table(tmp_path, unnamed).add(SOAK, Counts(passed=3), 60.0)
    assert table(tmp_path).rows() == []
    assert not table(tmp_path, unnamed).passed(SOAK)


def test_line_that_a_kill_cut_short_is_passed_over(tmp_path: Path) -> None:
    table(tmp_path).add(SOAK, Counts(passed=3), 60.0)
    file = tmp_path / "long.jsonl"
    file.write_text(file.read_text() + '{"layer": "se')
    assert [row.layer for row in table(tmp_path).rows()] == ["soak"]


def test_table_shows_newest_run_of_each_layer(tmp_path: Path) -> None:
    table(tmp_path).add(SOAK, Counts(passed=3), 60.0)
    table(tmp_path).add(SOAK, Counts(passed=4), 120.0)
    shown = table(tmp_path).markdown((SOAK, SEEDS)).splitlines()
    assert shown[2].startswith("| soak | 4, 0, 0 | 2 | cccccccccccc |")
    assert shown[3] == "| seeds | not run here | | | |"


def test_long_layers_have_names_of_their_own() -> None:
    assert len({layer.name for layer in LONG}) == len(LONG)
    assert plan(["test", "--long"]).resumes
    assert not plan(["test"]).resumes
