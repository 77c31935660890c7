"""Files that start processes come early, between them what is quick, and none is left out."""

from __future__ import annotations

import re
from pathlib import Path

from tests.suite_order import (
    BETWEEN,
    LAST,
    LONGEST,
    PROCESSES,
    TOGETHER,
    in_order,
    scope_of,
)

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


def test_a_file_is_a_scope_of_its_own_unless_it_shares_something_dear() -> None:
    assert scope_of("tests/a/test_a.py::test_b[c::d]") == "tests/a/test_a.py"
    (group, *_) = TOGETHER
    assert scope_of(f"{group[0]}test_a.py::test_b") == scope_of(f"{group[0]}test_c.py::test_d")
    other = "tests/integration/test_consume.py"
    assert scope_of(other) == scope_of("tests/pipeline/sink/test_order.py") != other


def test_tests_that_share_a_running_cluster_are_in_one_scope() -> None:
    (with_cluster,) = {
        scope_of(str(path.relative_to(ROOT)))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "spark" not in path.parts
        and re.search(r"def test_\w+\([^)]*\blocal_cluster\b", path.read_text(encoding="utf-8"))
    }
    assert with_cluster == TOGETHER[1][0]


def test_named_files_and_folders_exist() -> None:
    together = (name for group in TOGETHER for name in group)
    assert not [
        name for name in (*LONGEST, *PROCESSES, *LAST, *together) if not (ROOT / name).exists()
    ]
