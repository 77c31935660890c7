"""Checks of replicas, leaders, members and time: each sees its anomaly and nothing else."""

from __future__ import annotations

import pytest

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.availability import Window, find_unavailability, measure
from chaos.checkers.chains import chain, find_log_mismatch, first_difference
from chaos.checkers.convergence import (
    Tail,
    chunk_hashes,
    find_different_bytes,
    find_divergence_after_heal,
)
from chaos.checkers.elections import (
    Elected,
    Seen,
    find_going_back,
    find_incomplete_leaders,
    find_two_leaders,
)
from chaos.checkers.membership import (
    Configuration,
    find_early_changes,
    find_membership_splits,
)
from chaos.history import Kind, Operation, Outcome


def _names(found: list[Anomaly]) -> list[str]:
    return [anomaly.name for anomaly in found]


# ---- log matching --------------------------------------------------------------------------------

ENTRIES = [(1 + n // 40, f"entry {n}".encode()) for n in range(100)]


@pytest.mark.parametrize("at", [0, 1, 37, 98, 99])
def test_the_first_different_entry_is_found_by_bisection(at: int) -> None:
    other = list(ENTRIES)
    other[at] = (other[at][0], b"something else")
    assert first_difference(chain(ENTRIES), chain(other)) == at
    assert first_difference(chain(ENTRIES)[: at + 1], chain(other)) == at
    assert first_difference(chain(ENTRIES)[:at], chain(other)) is None


def test_the_same_payload_in_another_term_is_another_entry() -> None:
    other = [*ENTRIES[:50], (9, ENTRIES[50][1]), *ENTRIES[51:]]
    found = find_log_mismatch({"n1": chain(ENTRIES), "n2": chain(other)}, first_index=100)
    assert found == [Anomaly("log-mismatch", "n1 and n2 differ from entry 150 on")]


def test_a_replica_that_is_behind_matches_and_above_commit_anything_may_differ() -> None:
    other = [*ENTRIES[:90], (9, b"never committed")]
    chains = {"n1": chain(ENTRIES), "n2": chain(other), "n3": chain(ENTRIES[:10])}
    assert find_log_mismatch(chains, commit=89) == []
    assert _names(find_log_mismatch(chains, commit=90)) == ["log-mismatch"]


# ---- leaders -------------------------------------------------------------------------------------


def test_one_leader_a_term() -> None:
    good = [Seen(0, "a", 1, True), Seen(1, "a", 1, True), Seen(2, "b", 2, True)]
    assert find_two_leaders(good) == []
    assert _names(find_two_leaders([*good, Seen(3, "c", 2, True)])) == ["election-safety"]


def test_a_node_goes_forward_over_restarts() -> None:
    trace = [
        Seen(0, "a", 1, False, "b", commit=3, last=5),
        Seen(1, "a", 1, False, "b", commit=4, last=4),  # a follower may truncate
        Seen(2, "a", 1, False, "b", commit=0, last=4, boot=1),  # the commit index is told anew
        Seen(3, "a", 2, True, "a", commit=4, last=6, boot=1),
    ]
    assert find_going_back(trace) == []


@pytest.mark.parametrize(
    ("after", "name"),
    [
        (Seen(9, "a", 4, False, commit=7, last=9), "term-back"),
        (Seen(9, "a", 4, False, commit=7, last=9, boot=2), "term-back"),
        (Seen(9, "a", 5, True, "c", commit=7, last=9), "vote-changed"),
        (Seen(9, "a", 5, True, "", commit=7, last=9, boot=2), "vote-changed"),
        (Seen(9, "a", 5, True, "a", commit=6, last=9), "commit-back"),
        (Seen(9, "a", 5, True, "a", commit=7, last=8), "leader-truncated"),
    ],
)
def test_a_node_that_goes_back_is_named(after: Seen, name: str) -> None:
    before = Seen(8, "a", 5, True, "a", commit=7, last=9, boot=1)
    same_boot = after if after.boot else after._replace(boot=1)
    assert _names(find_going_back([before, same_boot])) == [name]


NEWEST, TOKEN = 9, 55
BEFORE = Seen(8, "a", 5, True, "a", commit=7, last=9, boot=1, life=3, generation=(NEWEST, TOKEN))
#: A process on a folder that came back from a backup: it promised nothing of what `BEFORE` did.
OLDER = BEFORE._replace(time=9, term=3, leads=False, vote="c", commit=-1, last=6, boot=2)


@pytest.mark.parametrize("generation", [(NEWEST - 1, TOKEN), (NEWEST, TOKEN + 1)])
def test_an_older_copy_of_a_folder_is_not_held_to_what_it_forgot(
    generation: tuple[int, int],
) -> None:
    later = OLDER._replace(time=10, generation=(NEWEST + 5, generation[1]))  # it was renewed
    assert find_going_back([BEFORE, OLDER._replace(generation=generation), later]) == []


@pytest.mark.parametrize("generation", [None, (NEWEST, TOKEN), (NEWEST + 1, TOKEN + 1)])
def test_any_other_start_is(generation: tuple[int, int] | None) -> None:
    assert _names(find_going_back([BEFORE, OLDER._replace(generation=generation)])) == ["term-back"]


def test_an_older_copy_excuses_nobody_after_it_nor_itself() -> None:
    older = OLDER._replace(generation=(NEWEST - 1, TOKEN))
    back = older._replace(time=10, term=2, generation=None)
    after = OLDER._replace(time=11, boot=3, generation=(NEWEST + 1, TOKEN + 2))
    assert _names(find_going_back([BEFORE, older, back])) == ["term-back"]
    assert _names(find_going_back([BEFORE, older, after])) == ["term-back"]


def test_a_folder_that_was_emptied_has_promised_nothing() -> None:
    emptied = OLDER._replace(life=4, generation=(1, TOKEN))
    untold = emptied._replace(time=10, term=2, boot=3, life=None, generation=None)
    assert find_going_back([BEFORE, emptied]) == []
    assert _names(find_going_back([BEFORE, emptied, untold])) == ["term-back"]


def test_a_leader_without_a_committed_entry() -> None:
    committed = {7: b"seven"}
    good = Elected("a", 3, 7, b"seven")
    assert find_incomplete_leaders([good], committed) == []
    assert _names(find_incomplete_leaders([good, Elected("b", 4, 7, None)], committed)) == [
        "leader-completeness"
    ]
    assert _names(find_incomplete_leaders([Elected("b", 4, 7, b"other")], committed)) == [
        "leader-completeness"
    ]


# ---- members -------------------------------------------------------------------------------------


def _configuration(at: int, voters: str, begin: float, end: float) -> Configuration:
    return Configuration(at, frozenset(voters), begin, end)


def test_one_at_a_time_shares_a_quorum() -> None:
    rows = [
        _configuration(1, "abc", 0, 1),
        _configuration(5, "abcd", 2, 3),
        _configuration(9, "abcde", 4, 5),
        _configuration(12, "bcde", 6, 7),
    ]
    assert find_membership_splits(rows) == []


@pytest.mark.parametrize(
    ("before", "after"), [("abc", "abcde"), ("abc", "cde"), ("abcde", "abc"), ("a", "b")]
)
def test_two_at_a_time_may_split(before: str, after: str) -> None:
    rows = [_configuration(1, before, 0, 1), _configuration(5, after, 2, 3)]
    assert _names(find_membership_splits(rows)) == ["membership-split"]


def test_a_change_beside_another() -> None:
    rows = [_configuration(1, "abc", 0, 5), _configuration(5, "abcd", 2, 6)]
    assert _names(find_membership_splits(rows)) == ["two-changes"]


def _changing(commit: int, *changing: int, no_op: int = 4) -> Seen:
    return Seen(1.0, "a", 3, True, commit=commit, last=20, no_op=no_op, changing=changing)


def test_a_leader_that_changes_the_group_begins_one_change_after_the_other() -> None:
    fine = [
        _changing(4, 7),
        _changing(7),
        _changing(7, 9),
        _changing(1, 2, 3),  # former leaders left both; whether they are committed it has not heard
        _changing(4, 7, 9)._replace(leads=False),
        _changing(4, 7, 9)._replace(changing=None),  # an earlier version
    ]
    assert find_early_changes(fine) == []
    assert _names(find_early_changes([_changing(4, 7, 9)])) == ["two-changes"]
    assert _names(find_early_changes([_changing(3, 7)])) == ["two-changes"]  # before its no-op


# ---- time ----------------------------------------------------------------------------------------


def _acks(*times: float) -> list[Operation]:
    return [
        Operation("p", Kind.APPEND, f"v{n}", at - 0.01, at, Outcome.OK, n)
        for n, at in enumerate(times)
    ]


def test_gaps_within_a_window() -> None:
    window = Window("kill-leader", 10, 20)
    (served,) = measure(_acks(9, 11, 12, 18, 25), [window])
    assert (served.acked, served.gap, served.recovered) == (3, 6, 1)
    assert find_unavailability(_acks(9, 11, 12, 18, 25), [window], gap_max=6) == []
    found = find_unavailability(_acks(9, 11, 12, 18, 25), [window], gap_max=5)
    assert _names(found) == ["unavailable"]


def test_silence_too_little_and_too_short() -> None:
    assert _names(find_unavailability([], [Window("x", 0, 10)], gap_max=5)) == ["unavailable"]
    assert find_unavailability([], [Window("x", 0, 4)], gap_max=5) == []
    few = find_unavailability(_acks(3, 6, 9), [Window("x", 0, 10)], gap_max=5, acked_min=100)
    assert _names(few) == ["no-progress"]


def test_all_replicas_come_to_one_end_in_time() -> None:
    tails = [
        Tail(1, "a", 9, b"9"),
        Tail(2, "b", 7, b"7"),
        Tail(12, "b", 9, b"9"),
    ]
    nodes = ["a", "b"]
    assert find_divergence_after_heal(tails, nodes, healed=5, seconds_max=10) == []
    late = find_divergence_after_heal(tails, nodes, healed=1, seconds_max=10)
    assert _names(late) == ["not-converged"]
    other = [*tails[:2], Tail(12, "b", 9, b"another nine")]
    assert _names(find_divergence_after_heal(other, nodes, healed=5, seconds_max=10)) == [
        "not-converged"
    ]
    assert _names(find_divergence_after_heal(tails, [*nodes, "c"], healed=5, seconds_max=10)) == [
        "not-converged"
    ]


def test_one_flipped_bit_is_in_its_chunk() -> None:
    data = bytes(range(256)) * 16
    wrong = bytearray(data)
    wrong[2500] ^= 1
    hashes = {"n1": chunk_hashes(data, 1024), "n2": chunk_hashes(bytes(wrong), 1024)}
    found = find_different_bytes(hashes, start=100, chunk_size=1024)
    assert found == [Anomaly("bytes-differ", "n1 and n2: bytes 2148..3171")]
    shorter = {"n1": chunk_hashes(data, 1024), "n2": chunk_hashes(data[:2048], 1024)}
    assert _names(find_different_bytes(shorter, chunk_size=1024)) == ["bytes-differ"]
    assert find_different_bytes({"n1": hashes["n1"], "n2": hashes["n1"]}) == []


def test_a_voter_without_its_disk_is_in_the_quorum_and_never_counted() -> None:
    """Of three, one comes back in another life and is not counted until it is a voter again."""
    three = frozenset({"n0", "n1", "n2"})
    rows = [
        Configuration(-1, three, 0.0, 0.0),
        Configuration(7, three, 1.0, 1.1, mute=frozenset({"n2"})),
        Configuration(9, three, 2.0, 2.1),
    ]
    assert find_membership_splits(rows) == []
    both = rows[1]._replace(at=8, appended=1.5, mute=frozenset({"n0"}))
    assert find_membership_splits([rows[0]._replace(mute=frozenset({"n1"})), both]) == []
    gone = Configuration(8, frozenset({"n1", "n2"}), 1.5, 1.6, mute=frozenset())
    assert _names(find_membership_splits([rows[0]._replace(voters=frozenset({"n0"})), gone])) == [
        "membership-split"
    ]
