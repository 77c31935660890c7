"""The space-time diagram: roles to the moment, votes and first words, and never too many marks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.report import spacetime
from chaos.report.recorded import Recorded, read_run
from tests.chaos.report.folders import traces, write_folder, write_traces


@pytest.fixture
def run(tmp_path: Path) -> Recorded:
    return read_run(write_folder(tmp_path / "run"))


def message(**changes: Any) -> dict[str, Any]:
    return {"kind": "Heartbeat", "from": "n0", "to": "n1", "term": 1} | {
        "sent": 1.0,
        "received": 1.01,
        **changes,
    }


def test_roles_end_with_the_process_and_leave_a_hole(run: Recorded) -> None:
    found = spacetime.roles(run)
    assert [(one.role, one.begin, one.end) for one in found["n0"]] == [
        ("candidate", 0.0, 0.1),
        ("leader", 0.1, 4.8),
        ("follower", 6.0, 9.5),  # nobody heard of it between
    ]
    assert [one.role for one in found["n1"]] == ["follower", "candidate", "leader"]


def test_a_leader_shorter_than_a_look_is_drawn(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "run")
    told = traces()
    line = told["n2"][-1] | {"vote": "n2", "leader": "n2", "term": 3}
    told["n2"] += [line | {"at": 7.1, "role": "leader"}, line | {"at": 7.102}]
    write_traces(root, told)
    spans = spacetime.roles(read_run(root))["n2"]
    assert [(one.begin, one.end) for one in spans if one.role == "leader"] == [(7.1, 7.102)]


def test_votes_and_first_words_go_between_the_right_nodes(run: Recorded) -> None:
    found = spacetime.of_traces(run.told)
    votes = [
        (one.source, one.target, one.sent, one.received) for one in found if one.kind == "vote"
    ]
    assert votes == [("n0", "n1", 0.0, 0.05), ("n0", "n2", 0.0, 0.06), ("n1", "n2", 5.6, 5.65)]
    led = [(one.source, one.target, one.received) for one in found if one.kind == "led"]
    assert led[-2:] == [("n1", "n2", 5.71), ("n1", "n0", 6.0)]


def test_a_message_that_never_came_is_a_stub(run: Recorded) -> None:
    lost = replace(run, messages=[message(received=None)])
    drawn = spacetime.diagram(lost, 0.0, 2.0)
    assert "link-lost" in drawn
    assert "never arrived as sent" in drawn
    assert "end-message" not in drawn


def test_marks_are_bounded_and_elections_come_first(run: Recorded) -> None:
    many = [message(sent=n / 1e4, received=n / 1e4 + 0.01) for n in range(9000)]
    drawn = spacetime.diagram(replace(run, messages=many), 0.0, 10.0)
    assert 500 < drawn.count("<line") < spacetime.LINKS_MAX + 20
    assert drawn.count("link-vote") == 3
    assert drawn.count("<circle") < spacetime.LINKS_MAX + spacetime.POINTS_MAX + 20


def test_only_what_is_within_the_window_is_drawn(run: Recorded) -> None:
    drawn = spacetime.around(run, 5.7)
    assert drawn.count("link-vote") == 1
    assert "n1 votes" not in drawn
    assert "n0 died" in drawn  # the kill from 4.9 s to 5.4 s
    assert "not stopped" not in drawn  # the pause at 8 s


def test_a_run_of_an_earlier_release_has_none(run: Recorded) -> None:
    assert spacetime.diagram(replace(run, told=()), 0.0, 10.0) == ""
