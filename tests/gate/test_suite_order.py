"""Files that start processes come early, between them what is quick, and none is left out."""

from __future__ import annotations

from pathlib import Path

from tests.suite_order import BETWEEN, LAST, LONGEST, PROCESSES, in_order

ROOT = Path(__file__).parents[2]


def test_each_file_is_there_once_and_the_longest_is_first() -> None:
    quick = [f"tests/a/test_{number}.py" for number in range(40)]
    slow = [f"{PROCESSES[0]}test_{number}.py" for number in range(3)]
    found = in_order([*quick, *slow, LONGEST[1], LONGEST[0]])
    assert sorted(found) == sorted([*quick, *slow, LONGEST[1], LONGEST[0]])
    assert found[0] == LONGEST[0]
    assert found[BETWEEN + 1] == LONGEST[1]
    assert [name for name in found if name in slow] == slow
    assert found[-1] == quick[-1], "a file that takes long does not begin last"


def test_more_slow_files_than_quick_ones_leave_none_out() -> None:
    slow = [f"{PROCESSES[0]}test_{number}.py" for number in range(9)]
    assert in_order([*slow, "tests/a/test_a.py"]) == [slow[0], "tests/a/test_a.py", *slow[1:]]


def test_files_that_use_what_is_made_beside_the_suite_come_last() -> None:
    assert in_order([LAST[0], "tests/a/test_a.py"]) == ["tests/a/test_a.py", LAST[0]]


def test_named_files_and_folders_exist() -> None:
    assert not [name for name in (*LONGEST, *PROCESSES, *LAST) if not (ROOT / name).exists()]
