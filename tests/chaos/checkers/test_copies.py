"""Bytes of replicas: one log and its files, or an anomaly under its name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.checkers.chains import chain
from chaos.checkers.copies import Copies, Copy, Region, find_different_copies, find_leaders_without
from chaos.checkers.elections import Links, Seen
from chaos.checkers.membership import Change
from chaos.live.copies_json import from_fields, to_fields

ENTRIES = [(1, b"a"), (1, b"b"), (2, b"c"), (2, b"d")]
FIRST, LAST = 10, 13


def copy(entries: list[tuple[int, bytes]] | None = None, **regions: Region) -> Copy:
    found = {"log": Region(480, 200, (b"x" * 16,)), "queue": Region(0, 20, (b"y" * 16,))}
    return Copy(chain(ENTRIES if entries is None else entries), found | regions)


def copies(**changed: Copy) -> Copies:
    return Copies(FIRST, LAST, {"n0": copy(), "n1": copy(), "n2": copy()} | changed)


def names(found: Copies) -> list[str]:
    return [anomaly.name for anomaly in find_different_copies(found)]


def test_equal_copies_are_equal_and_come_back_from_the_folder() -> None:
    assert names(copies()) == []
    assert from_fields(to_fields(copies())) == copies()
    changed = replace(copies(), changes=[Change(11, frozenset("ab"), frozenset("b"))])
    assert from_fields(to_fields(changed)) == changed
    linked = replace(copies(), links=b"aaaabbbb")
    assert from_fields(to_fields(linked)) == linked
    old = {key: value for key, value in to_fields(linked).items() if key != "links"}
    assert from_fields(old) == copies()


def test_another_entry_is_found_at_its_index() -> None:
    other = copies(n2=copy([*ENTRIES[:2], (2, b"C"), ENTRIES[3]]))
    (found,) = find_different_copies(other)
    assert found.name == "log-mismatch"
    assert "from entry 12 on" in found.detail


def test_another_term_is_another_entry() -> None:
    assert names(copies(n1=copy([*ENTRIES[:3], (3, b"d")]))) == ["log-mismatch"]


def test_one_byte_of_a_derived_file_is_found() -> None:
    other = copies(n1=copy(queue=Region(0, 20, (b"z" * 16,))))
    (found,) = find_different_copies(other)
    assert (found.name, found.detail.split(":")[0]) == ("bytes-differ", "queue")


def test_a_file_that_is_shorter_is_found() -> None:
    (found,) = find_different_copies(copies(n2=copy(queue=Region(0, 0, ()))))
    assert found.detail == "queue is not equally long: n0 20 bytes, n1 20 bytes, n2 0 bytes"


def test_a_log_that_cannot_be_read_is_told() -> None:
    assert names(replace(copies(), unreadable={"n1": "torn"})) == ["unreadable-replica"]


@pytest.mark.parametrize(
    ("leader", "complete"),
    [
        (Seen(2.0, "n1", 2, True, last=12), True),
        (Seen(2.0, "n1", 2, True, last=11), False),  # entry 12 was told committed before
        (Seen(2.0, "n1", 1, True, last=11), True),  # an old leader that knows nothing yet
        (Seen(1.0, "n1", 2, True, last=11), True),  # seen in the same look
        (Seen(2.0, "n2", 2, True, last=12), False),  # its disk holds another entry there
    ],
)
def test_a_leader_has_what_was_committed_before(leader: Seen, complete: bool) -> None:
    trace = [Seen(1.0, "n0", 2, False, commit=12, last=12), leader]
    found = copies(n2=copy([*ENTRIES[:2], (1, b"other"), ENTRIES[3]]))
    assert (find_leaders_without(trace, found) == []) is complete


KEPT = b"aaaabbbbccccdddd"  # of entries 10 to 13


@pytest.mark.parametrize(
    ("links", "complete"),
    [
        (Links(11, b"bbbbcccc"), True),
        (Links(11, b"bbbbXXXX"), False),  # another log up to the committed entry 12
        (Links(11, b"bbbb"), False),  # it ends below
        (Links(12, b"ccccXXXX"), True),  # what it never committed may have gone since
        (Links(13, b"XXXX"), True),  # it told too little
    ],
)
def test_a_new_leaders_log_is_compared_with_what_was_committed(
    links: Links, complete: bool
) -> None:
    """Its disk was mended since: what lies there at the end is no proof of what it won with."""
    trace = [
        Seen(1.0, "n0", 1, True, commit=12, last=12),
        Seen(2.0, "n1", 2, True, commit=11, last=13, links=links),
    ]
    whole = replace(copies(), links=KEPT)
    assert (find_leaders_without(trace, whole) == []) is complete
    assert find_leaders_without(trace, replace(whole, links=b"")) == []  # of an earlier version


def test_what_a_new_leader_had_committed_itself_is_compared_too() -> None:
    leader = Seen(2.0, "n1", 2, True, commit=11, last=11, links=Links(11, b"XXXX"))
    (found,) = find_leaders_without([leader], replace(copies(), links=KEPT))
    assert found.name == "leader-completeness"


def test_a_leader_is_judged_as_it_was_first_seen() -> None:
    trace = [
        Seen(1.0, "n0", 1, True, commit=10, last=10),
        Seen(2.0, "n1", 2, True, commit=11, last=11),
        Seen(3.0, "n1", 2, True, commit=13, last=13),
    ]
    assert find_leaders_without(trace, copies()) == []


def test_what_a_leader_committed_after_it_was_looked_at_is_not_asked_of_it() -> None:
    """Three lines of one look, as a run by power cuts had them: n1 was asked a moment later."""
    trace = [
        Seen(1.0, "n0", 2, False, commit=10, last=11),
        Seen(1.0, "n1", 2, False, commit=12, last=13),
        Seen(1.001, "n2", 2, True, commit=11, last=11),
    ]
    assert find_leaders_without(trace, copies()) == []
