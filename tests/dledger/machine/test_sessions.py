"""The table of sessions: once each, bounded by the log's time and count, the same everywhere."""

from __future__ import annotations

import random

from dledger.machine.sessions import IDLE_MS_MAX, WINDOW, Sessions, Verdict


def opened() -> Sessions:
    sessions = Sessions()
    sessions.open(5, 0)
    return sessions


def test_a_command_is_admitted_once() -> None:
    sessions = opened()
    assert sessions.admit(5, 1, 1, 10) is Verdict.APPLY
    sessions.keep(5, [1], [b"one"])
    assert sessions.admit(5, 1, 1, 11) is Verdict.DUPLICATE
    assert sessions.result(5, 1) == b"one"


def test_what_its_caller_has_forgotten_is_not_applied_late() -> None:
    sessions = opened()
    assert sessions.admit(5, 3, 3, 0) is Verdict.APPLY
    sessions.keep(5, [3], [b"three"])
    assert sessions.admit(5, 2, 1, 0) is Verdict.FORGOTTEN
    assert sessions.admit(5, 9, 9, 0) is Verdict.APPLY
    assert sessions.result(5, 3) is None, "nobody asks for it any more"
    assert sessions.admit(5, 9 + WINDOW, 9, 0) is Verdict.FORGOTTEN


def test_without_its_session_a_command_is_not_applied() -> None:
    assert opened().admit(6, 1, 1, 0) is Verdict.NO_SESSION


def test_an_idle_session_goes_by_the_logs_time() -> None:
    sessions = opened()
    sessions.open(7, 1000)
    sessions.admit(5, 1, 1, 2000)
    sessions.keep(5, [1], [b""])
    sessions.expire(1000 + IDLE_MS_MAX)
    assert 7 in sessions
    sessions.expire(1001 + IDLE_MS_MAX)
    assert 7 not in sessions
    assert 5 in sessions


def test_the_longest_idle_one_makes_room() -> None:
    sessions = Sessions(sessions_max=2)
    for number in (1, 2):
        sessions.open(number, 0)
    sessions.admit(1, 1, 1, 0)
    sessions.open(3, 0)
    sessions.expire(0)
    assert [number in sessions for number in (1, 2, 3)] == [True, False, True]


def test_a_dumped_table_goes_on_as_the_first() -> None:
    """Two tables, one of them dumped and loaded now and then, say the same of random commands."""
    draw = random.Random(7)
    one, two = Sessions(4, 500), Sessions(4, 500)
    time_ms, seen = 0, set()
    for index in range(3000):
        time_ms += draw.randrange(60)
        session, lowest = draw.randrange(max(0, index - 40), index + 1), draw.randrange(30)
        sequence = lowest + draw.randrange(10)
        said = []
        for table in (one, two):
            table.expire(time_ms)
            if index % 9 == 0:
                table.open(index, time_ms)
            said.append(table.admit(session - session % 9, sequence, lowest, time_ms))
            if said[-1] is Verdict.APPLY:
                table.keep(session - session % 9, [sequence], [b"%d" % index])
        assert said[0] is said[1]
        seen.add(said[0])
        if index % 50 == 0:
            data, two = two.dump(), Sessions(4, 500)
            two.load(data)
            assert two.dump() == one.dump()
    assert seen == set(Verdict)
