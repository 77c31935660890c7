"""The baseline's harness: its parts without processes, and its known faults on real ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaos.baseline import ours
from chaos.baseline.courses import COURSES
from chaos.baseline.run import Result, run_course
from chaos.baseline.table import Row, code_of, to_fields, to_markdown
from chaos.checkers.anomaly import Anomaly
from chaos.checkers.verdict import Verdict, Word, count


def _verdict(word: Word, *names: str) -> Verdict:
    return count(word, 100, [Anomaly(name, f"{name} of the test") for name in names])


def _result(word: Word, *names: str, seen: str = "a fault") -> Result:
    return Result("power-all", 7, _verdict(word, *names), seen, 1.0, (), {})


VALID = _result(Word.VALID)
BROKEN = _result(Word.INVALID, "lost-postfix", "lost-postfix", "G0-realtime")


@pytest.mark.parametrize(
    ("own", "theirs", "code"),
    [
        (VALID, BROKEN, 0),
        (BROKEN, BROKEN, 1),
        (VALID, VALID, 2),  # a suite that finds nothing in pysyncobj is broken
        (None, BROKEN, 2),  # nothing to hold it against
        (_result(Word.UNKNOWN, seen=""), BROKEN, 2),
    ],
)
def test_exit_codes(own: Result | None, theirs: Result, code: int) -> None:
    assert code_of([Row("power-all", own, "", theirs)]) == code


def test_the_table_has_both_side_by_side() -> None:
    table = to_markdown([Row("power-all", VALID, "", BROKEN)], "0.3.17")
    ours_line, theirs_line = table.splitlines()[2:]
    assert ours_line == "| power-all | dledger | VALID | 100 | 0 | 0 | 0 |  |"
    assert theirs_line == (
        "| power-all | pysyncobj 0.3.17 | **INVALID** | 100 | 2 | 0 | 1 | "
        "G0-realtime, lost-postfix |"
    )


def test_what_is_skipped_says_why() -> None:
    row = Row("power-all", None, "needs root to mount", BROKEN)
    assert "skipped: needs root to mount" in to_markdown([row], "0.3.17")
    fields = to_fields(row)
    assert fields["ours"] == {"skipped": "needs root to mount"}
    assert fields["pysyncobj"]["anomalies"] == {"G0-realtime": 1, "lost-postfix": 2}


def test_each_course_has_its_counterpart() -> None:
    assert set(ours.KINDS) == set(COURSES)


@pytest.mark.parametrize("course", [name for name in COURSES if not ours.skipped(name)])
def test_a_plan_of_ours_is_the_seeds(course: str) -> None:
    one, again = ours.plan_of(course, 7), ours.plan_of(course, 7)
    assert one.schedule == again.schedule
    assert [planned.kind for planned in one.schedule] == [ours.KINDS[course][0]]
    assert ours.plan_of(course, 8).schedule != one.schedule


def _run(course: str, folder: Path, **more: bool) -> Result:
    return asyncio.run(run_course(course, 7, folder, **more))


def _names(result: Result) -> Mapping[str, int]:
    return Counter(one.name for one in result.verdict.anomalies)


@pytest.mark.timeout(60)
def test_a_power_cut_of_all_takes_acknowledged_appends(tmp_path: Path) -> None:
    """Modelled, so that it needs no privilege: nothing is kept that was not synced."""
    result = _run("power-all", tmp_path, real_power=False)
    assert result.verdict.word is Word.INVALID
    assert result.verdict.lost >= 40, result.seen
    assert set(_names(result)) & {"lost-middle", "lost-postfix"}
    assert result.seen.startswith("modelled power cut")


@pytest.mark.long
@pytest.mark.timeout(120)
def test_the_same_seed_finds_the_same_faults(tmp_path: Path) -> None:
    """Acknowledged loss, each time; how much depends on the time that real processes take."""
    for course in ("power-all", "replay"):
        for n in range(2):
            result = _run(course, tmp_path / f"{course}{n}")
            found = (result.seen, _names(result))
            assert result.verdict.word is Word.INVALID, found
            assert "lost-middle" in _names(result), found
            assert result.verdict.lost > 0, found


@pytest.mark.long
@pytest.mark.timeout(60)
def test_a_kill_of_every_process_loses_nothing(tmp_path: Path) -> None:
    """The control of the harness: the page cache survives, and so does what was acknowledged."""
    result = _run("kill-all", tmp_path)
    assert result.verdict.anomalies == ()
    assert result.verdict.word is Word.VALID
    assert result.verdict.acked > 80
