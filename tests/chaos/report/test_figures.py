"""Numbers of a report against a run that is known to the last message."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.history import Kind, Operation, Outcome
from chaos.report import anomalies, clients, figures
from chaos.report.drawing import TICKS_MAX, Axis
from chaos.report.each_fault import HEAD, fault_rows
from chaos.report.overview import role_tip, sampled
from chaos.report.recorded import Recorded, read_run
from tests.chaos.report.folders import COUNT, SILENT, replicas, write_folder


@pytest.fixture
def run(tmp_path: Path) -> Recorded:
    return read_run(write_folder(tmp_path / "run"))


def test_throughput_counts_every_acknowledgement_once(run: Recorded) -> None:
    rates = figures.throughput(run.history, 10.0, 0.5)
    assert sum(rates) * 0.5 == COUNT - len(SILENT)
    assert rates[11] == 0  # 5.5–6.0 s


def test_the_silence_around_the_kill_is_the_only_gap(run: Recorded) -> None:
    assert figures.gaps(run.history, 10.0) == [(pytest.approx(4.85), pytest.approx(6.1))]


def test_quantiles_are_those_of_the_bin_and_nothing_is_no_number(run: Recorded) -> None:
    found = figures.latency_quantiles(run.history, 10.0, 0.5, (0.5, 0.99))
    assert found[0.5][0] == pytest.approx(100.0)
    assert math.isnan(found[0.99][10])  # nothing sent at 5.0–5.5 s was acknowledged
    assert figures.quantile([3.0, 1.0, 2.0], 0.5) == 2.0


def test_a_node_that_did_not_answer_leaves_a_hole_in_its_lane(run: Recorded) -> None:
    spans = figures.lanes(run.rows)
    first, second = spans["n0"]
    assert (first.role, first.end) == ("leader", 4.5)
    assert (second.role, second.begin, second.term) == ("follower", 7.0, 2)
    assert [(one.role, one.term) for one in spans["n1"]] == [("follower", 1), ("leader", 2)]


def test_coverage_tells_faults_without_effect(run: Recorded) -> None:
    assert figures.coverage(run.faults) == {
        "kill": {"leader": (1, 1)},
        "pause": {"leader": (0, 1)},
    }


def test_a_target_that_nobody_was_is_not_covered(run: Recorded) -> None:
    missed = [{**row, "aim_missed": "leader"} for row in run.faults]
    assert figures.coverage(missed)["kill"] == {"random": (1, 1)}


def test_recovery_is_the_silence_that_touches_the_fault(run: Recorded) -> None:
    kill, pause = figures.recoveries(run.faults, run.history)
    assert (kill.kind, kill.times, kill.ready) == ("kill", 1, [0.5])
    assert kill.served == [pytest.approx(1.25)]
    assert pause.served == [pytest.approx(0.25)]


def test_every_fault_tells_who_led_and_what_clients_felt(run: Recorded) -> None:
    cells, kinds = fault_rows(run.faults, run.history, run.rows)
    kill, pause = (dict(zip(HEAD, row, strict=True)) for row in cells)
    assert kinds == ["", "unknown"]
    assert kill["leader"] == "n0 (term 1) → n1 (term 2)"
    assert kill["silence (s)"] == "1.25"
    assert (kill["acknowledged/s"], kill["p99 (ms)"]) == ("0", "")
    assert pause["leader"] == "n1 (term 2)"
    assert pause["p99 (ms)"] == "100"
    assert pause["seen"] == "not stopped"


@pytest.mark.parametrize("note", ["unnoticed", "overwritten"])
def test_a_fault_without_effect_says_why(run: Recorded, note: str) -> None:
    rows = [row | {"error": "", note: "3 bits of a slot"} for row in run.faults]
    (_, pause), _ = fault_rows(rows, run.history, run.rows)
    assert pause[-1] == "no effect that was seen: 3 bits of a slot"


def test_every_value_has_one_fate(tmp_path: Path) -> None:
    logs = replicas()
    logs["n1"]["q0"].remove((3, "p0-6"))  # acknowledged, and missing on one node
    for node in logs:
        logs[node]["q0"].append((99, "p0-20"))  # of unknown outcome, and there
    run = read_run(write_folder(tmp_path / "run", logs=logs))
    found = {name: [op.value for op in ops] for name, ops in clients.fates(run).items()}
    assert found["lost"] == ["p0-6"]
    assert found["unknown"] == ["p0-20"]
    assert found["unseen"] == ["p1-21", "p0-22", "p1-23"]
    assert found["failed"] == ["p9-0"]
    assert sum(map(len, found.values())) == COUNT + 1


def test_an_anomaly_is_found_in_history_and_logs(tmp_path: Path) -> None:
    logs = replicas()
    logs["n1"]["q0"].remove((3, "p0-6"))
    run = read_run(write_folder(tmp_path / "run", logs=logs))
    said = "q0: p0-6 acknowledged to p0 at offset 3, 1.600000 s, is not in the log"
    about = anomalies.focus(run, said)
    assert (about.queue, about.place, about.moment) == ("q0", 3, pytest.approx(1.6))
    assert [op.value or op.process for op in about.operations] == ["p0-6", "tail"]
    assert anomalies.first_difference(run, "q0") == 3
    assert anomalies.first_difference(run, "q1") is None
    assert anomalies.focus(run, "n1 and n2 lead in term 4").place is None


def test_a_run_whose_replicas_nobody_read_has_lost_nothing_that_is_known(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "run")
    (root / "replicas.json").write_text("{}")
    found = clients.fates(read_run(root))
    assert (len(found["ok"]), len(found["lost"]), len(found["not-read"])) == (0, 0, COUNT - 4)


@pytest.mark.parametrize("queue", ["", "d1"])
def test_an_anomaly_is_when_its_sentence_says(tmp_path: Path, queue: str) -> None:
    detail = f"{queue}: ".lstrip(": ") + "wd got d0-9 at 1 at 4.645 s"
    run = read_run(write_folder(tmp_path / "run"))
    poll = Operation("wd", Kind.POLL, "", 4.6, 4.645, Outcome.OK, 1, "d1", ((1, "d0-9"),))
    about = anomalies.focus(replace(run, history=[*run.history, poll]), detail)
    assert (about.queue, about.moment, list(about.operations)) == (queue, 4.645, [poll])


@pytest.mark.parametrize("seconds", [0.5, 10.0, 61.0, 7200.0, 86_400.0])
def test_ticks_are_few_and_on_the_axis(seconds: float) -> None:
    ticks = Axis(seconds).ticks()
    assert 3 <= len(ticks) <= TICKS_MAX + 1
    assert ticks[0] == 0
    assert ticks[-1] <= seconds


def test_a_long_history_is_thinned_evenly_and_what_went_wrong_stays(run: Recorded) -> None:
    first = next(op for op in run.history if op.outcome is Outcome.OK)
    long = [replace(first, invoked=at / 10, completed=at / 10) for at in range(50_000)]
    wrong = [replace(op, outcome=Outcome.FAIL) for op in long[::1000]]
    shown = sampled([*long, *wrong], 400)
    assert sum(op.outcome is Outcome.FAIL for op in shown) == 50
    assert 300 < len(shown) <= 400
    assert shown[-1].invoked > 4900
    everything_wrong = sampled([replace(op, outcome=Outcome.FAIL) for op in long], 400)
    assert 200 < len(everything_wrong) <= 400
    assert everything_wrong[-1].invoked > 4900


def test_roles_that_nobody_could_tell_apart_are_one() -> None:
    """The longest is told, with how many there were; nothing is drawn that was not there."""
    spans = [
        figures.Span(0.0, 5.0, "leader", 1),
        figures.Span(5.0, 5.2, "follower", 2),
        figures.Span(5.2, 5.25, "candidate", 3),
        figures.Span(5.3, 5.9, "leader", 3),
        figures.Span(5.9, 6.1, "follower", 4),
        figures.Span(9.0, 9.4, "follower", 4),
    ]
    assert figures.merged(spans, 1.0) == [
        spans[0],
        figures.Span(5.0, 5.9, "leader", 3, 3),
        spans[4],
        spans[5],
    ]
    assert figures.merged(spans, 0.0) == spans
    assert role_tip("n1", figures.merged(spans, 1.0)[1]) == (
        "n1: 3 roles, longest leader, until term 3, 5.000 to 5.900 s"
    )
