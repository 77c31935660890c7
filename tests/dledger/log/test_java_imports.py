"""Java's logs in the states that crashes leave: text files lost, old or garbage, damage within."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dledger.errors import LogDamaged
from dledger.log.java_store import JavaStore
from tests.dledger.log.test_java_store import Case


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Terms 1 to 3, 75 entries, all committed."""
    return Case("dledger-3/n0", tmp_path)


def adopted_term_and_commit(case: Case) -> tuple[int, int]:
    node = case.adopt()
    try:
        assert node.log.last.index == int(case.state["ledgerEndIndex"])
        return node.hard_state.state.term, node.log.commit_hint
    finally:
        node.close()


GARBAGE = [
    b"",
    b"\xff\x00\xfe",
    b"currTerm=\ncommittedIndex=\n",
    b"currTerm=x\ncommittedIndex=2x\n",
]


@pytest.mark.parametrize("content", [None, *GARBAGE])
def test_a_lost_term_is_at_least_that_of_the_log(case: Case, content: bytes | None) -> None:
    for name in ("currterm", "currterm.bak"):
        (case.folder / name).unlink()
    if content is not None:
        (case.folder / "currterm").write_bytes(content)
    last = int(case.state["ledgerEndIndex"])
    assert adopted_term_and_commit(case) == (int(case.state["ledgerEndTerm"]), last)


@pytest.mark.parametrize("survivor", ["currterm.tmp", "currterm.bak"])
def test_a_crash_between_javas_delete_and_rename(case: Case, survivor: str) -> None:
    """W8: the file itself is gone, and what is beside it knows the term and the vote."""
    (case.folder / "currterm").unlink()
    (case.folder / "currterm.bak").write_text("voteLeader=n1\ncurrTerm=7\n")
    (case.folder / survivor).write_text("#\r\ncurrTerm=9\r\nvoteLeader=n2\r\n")
    java = case.read()
    assert (java.state().term, java.state().voted_for) == (9, "n2")
    java.close()
    assert adopted_term_and_commit(case)[0] == 9


@pytest.mark.parametrize("content", [None, *GARBAGE])
def test_a_lost_commit_index_is_unknown(case: Case, content: bytes | None) -> None:
    for name in ("checkpoint", "checkpoint.bak"):
        (case.folder / name).unlink()
    if content is not None:
        (case.folder / "checkpoint").write_bytes(content)
    assert adopted_term_and_commit(case)[1] == -1


def test_a_garbage_checkpoint_has_a_backup(case: Case) -> None:
    (case.folder / "checkpoint").write_bytes(b"\xff")
    (case.folder / "checkpoint.bak").write_text("committedIndex=70\nendIndex=74\n")
    assert adopted_term_and_commit(case)[1] == 70


@pytest.mark.parametrize("what", ["none", "short", "garbage", "a hole"])
def test_slots_are_made_anew_from_any_state(case: Case, what: str) -> None:
    index = case.folder / "index"
    whole = {path.name: path.read_bytes() for path in index.iterdir()}
    first, *_, last = sorted(index.iterdir())
    if what == "none":
        shutil.rmtree(index)
    elif what == "short":
        last.write_bytes(last.read_bytes()[:100])
    elif what == "garbage":
        first.write_bytes(os.urandom(2048))
    else:
        first.unlink()
    adopted_term_and_commit(case)
    end = 32 * (int(case.state["ledgerEndIndex"]) + 1)
    made = b"".join(path.read_bytes() for path in sorted(index.iterdir()))
    assert made[:end] == b"".join(whole[name] for name in sorted(whole))[:end]


@pytest.mark.parametrize("at", ["the first file", "the last file"])
def test_damage_is_no_end_even_where_nothing_says_what_was_committed(case: Case, at: str) -> None:
    """D8: a whole later entry stands behind it, in the same file or not."""
    for name in ("checkpoint", "checkpoint.bak"):
        (case.folder / name).unlink()
    first, last = sorted((case.folder / "data").iterdir())
    path = first if at == "the first file" else last
    row = next(row for row in case.rows if int(row["pos"]) >= int(path.name) + 1000)
    data = bytearray(path.read_bytes())
    data[int(row["pos"]) - int(path.name) + 9] ^= 1  # its index
    path.write_bytes(data)
    java = JavaStore(case.folder, case.data_file_size)
    with pytest.raises(LogDamaged, match=f"behind entry {int(row['index']) - 1} .*import another"):
        java.end()
    java.close()
    before = {path: path.read_bytes() for path in case.folder.rglob("*") if path.is_file()}
    with pytest.raises(LogDamaged):
        case.adopt()
    assert {path: path.read_bytes() for path in before} == before


def test_a_torn_end_is_cut_where_nothing_says_what_was_committed(case: Case) -> None:
    for name in ("checkpoint", "checkpoint.bak"):
        (case.folder / name).unlink()
    path = max((case.folder / "data").iterdir())
    data = bytearray(path.read_bytes())
    at = int(case.rows[-1]["pos"]) - int(path.name)
    data[at + 4 : at + 48] = bytes(44)
    path.write_bytes(data)
    node = case.adopt()
    assert node.log.last.index == int(case.state["ledgerEndIndex"]) - 1
    node.close()
