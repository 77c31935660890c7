"""Jobs on Spark give what they give here; counts of a DataFrame are counts of its rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from pipeline.jobs.archive import archive, read_archive, verify
from pipeline.jobs.audit import audit
from pipeline.jobs.counts import COLUMNS, COUNTS_DDL, count_batches
from pipeline.jobs.history.check import check
from pipeline.jobs.history.circumstances import Circumstances, write_circumstances
from pipeline.jobs.history.files import history_table, log_table, write_history, write_log
from pipeline.jobs.rebuild import compare, rebuild
from pipeline.jobs.workers import OnSpark
from tests.chaos.checkers.golden_cases import Case, cases

from ..jobs.stores import CONFIG, DLEDGER, THREE, put
from ..jobs.test_archive import SMALL
from ..jobs.test_rebuild import JAVA


def test_archive_in_tasks(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "store", range(120))
    done = archive(tmp_path / "store", tmp_path / "a", options=SMALL, workers=OnSpark(spark))
    assert done.rows == verify(tmp_path / "a") == 120
    table = read_archive(tmp_path / "a")
    assert sorted(int(value.as_py()) for value in table.column("value")) == list(range(120))


def test_audit_and_rebuild_in_tasks(spark: Any, tmp_path: Path) -> None:
    assert audit(dict(zip("abc", THREE, strict=True)), workers=OnSpark(spark)).is_clean
    rebuild(DLEDGER, tmp_path / "java", config=JAVA, workers=OnSpark(spark))
    assert compare(DLEDGER, tmp_path / "java") == []
    put(tmp_path / "store", range(90))
    rebuild(tmp_path / "store", tmp_path / "ours", config=CONFIG, workers=OnSpark(spark))
    assert compare(tmp_path / "store", tmp_path / "ours") == []


def test_histories_in_tasks(spark: Any, tmp_path: Path) -> None:
    """Every golden case with one queue, as queues of one history.

    All queues of a history have one beginning, so there is a history for each; and they are one
    log, which power failures cut at one point, so of cases with those each is a history.
    """
    histories: dict[tuple[object, ...], list[Case]] = {}
    for case in cases():
        queues = {op.log for op in case.history}.union(*case.replicas.values())
        if queues != {""} or set(case.replicas) != {"n1"} or case.everything_read:
            continue
        if not case.blackouts:
            histories.setdefault((case.begins,), []).append(case)
        elif case.name in {"taken-back-and-its-place-given-away", "a-hole-below-what-was-kept"}:
            histories[case.begins, case.name] = [case]  # two of them: a history costs a second
    assert sum(map(len, histories.values())) > 60
    assert len(histories) == 4
    for number, some in enumerate(histories.values()):
        root = tmp_path / str(number)
        write_circumstances(root, Circumstances(some[0].begins, tuple(some[0].blackouts)))
        for case in some:
            write_history(root, case.name, history_table(case.history))
            write_log(root, "n1", case.name, log_table(case.replicas["n1"][""]))
        verdict = check(root, workers=OnSpark(spark))
        expected = {case.name: case.expected for case in some}
        assert {queue.log: set(queue.names) for queue in verdict.queues} == expected


def test_counts_of_a_frame(spark: Any) -> None:
    frame = spark.read.format("dledger-log").option("columns", ",".join(COLUMNS))
    rows = frame.load(str(DLEDGER))
    expected = Counter((row.topic, row.queue) for row in rows.collect())
    found = rows.mapInArrow(count_batches, COUNTS_DDL).groupBy("topic", "queue").sum("messages")
    assert {(row.topic, row.queue): row["sum(messages)"] for row in found.collect()} == expected
