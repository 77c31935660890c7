"""Logs written by Java: read, verified, adopted, continued.

Source: docs/spec/raft_log.md 1.7, 1.8, 8, Annex A.
"""

from __future__ import annotations

import csv
import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from commitlog.errors import StoreLayoutError
from commitlog.files.system import OS_FILES
from dledger.core.types import NO_INDEX, Index, NodeId, Term
from dledger.durable.identity import Identity
from dledger.errors import LogDamaged, RangeRejected
from dledger.log.file_log import FileLog
from dledger.log.java_store import JavaStore, adopt_java_store
from dledger.log.node_storage import NodeStorage, format_node, open_node
from dledger.log.options import LogOptions
from dledger.log.port import Entry
from dledger.testing.conformance import ship
from dledger.testing.memory import MemoryLog
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import FOLDER, Clock, copy_all, dump, make, sync

GOLDEN = Path(__file__).parents[2] / "data/golden/dledger"
CASES = {
    "dledger-plain/tiny": "expected.tsv",
    "dledger-plain/single": "expected.tsv",
    "dledger-plain/killed": "expected.tsv",
    "dledger-3/n0": "expected.tsv",
    "dledger-3/n1": "expected.tsv",
    "dledger-3/n2": "expected.tsv",
    "dledger-broker": "entries.tsv",
}


def table(path: Path) -> dict[str, str]:
    return dict(line.split("\t") for line in path.read_text().splitlines())


class Case:
    def __init__(self, name: str, folder: Path) -> None:
        source = GOLDEN / name
        self.settings, self.state = table(source / "settings.tsv"), table(source / "state.tsv")
        self.data_file_size = int(self.settings["dataFileSize"])
        self.index_file_size = int(self.settings["indexFileSize"])
        self.node_id = self.settings["selfId"]
        self.folder = folder / f"dledger-{self.node_id}"
        shutil.copytree(source / "store" / self.folder.name, self.folder)
        with (source / CASES[name]).open() as rows:
            self.rows = list(csv.DictReader(rows, delimiter="\t"))

    def read(self) -> JavaStore:
        return JavaStore(self.folder, self.data_file_size)

    def adopt(self) -> NodeStorage:
        adopt_java_store(
            self.folder,
            cluster_id="cluster",
            group="group",
            node_id=self.node_id,
            data_file_size=self.data_file_size,
            index_file_size=self.index_file_size,
            incarnation=11,
        )
        return self.open()

    def open(self) -> NodeStorage:
        return open_node(
            self.folder,
            cluster_id="cluster",
            group="group",
            node_id=self.node_id,
            clock=Clock(),
        )

    def check(self, entries: Iterator[Entry]) -> None:
        count = 0
        for entry, row in zip(entries, self.rows, strict=True):
            names = ("index", "term", "pos", "size", "magic", "channel")
            header = entry.header
            found = (
                header.sequence,
                header.epoch,
                header.position,
                header.size,
                header.magic,
                header.channel,
            )
            assert found == tuple(int(row[name]) for name in names)
            assert (header.chain_crc, header.body_crc) == (
                int(row["chainCrc"]),
                int(row["bodyCrc"]),
            )
            assert hashlib.sha256(entry.body).hexdigest() == row["bodySha256"]
            count += 1
        assert count == int(self.state["ledgerEndIndex"]) + 1 > 3


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return Case(request.param, tmp_path)


def test_every_entry_is_read_as_java_reads_it(case: Case) -> None:
    java = case.read()
    case.check(java.entries())
    end, state = java.end(), java.state()
    assert end.end == int(case.state["dataWritePos"])
    assert end.last == (int(case.state["ledgerEndTerm"]), int(case.state["ledgerEndIndex"]))
    assert end.first == int(case.state["ledgerBeginIndex"])
    assert state.term == int(case.state["currTerm"])
    assert (state.voted_for or "") == case.state["voteLeader"]
    assert state.committed == int(case.state["committedIndex"])
    java.close()


def test_an_adopted_log_is_the_same_and_goes_on_in_javas_layout(case: Case) -> None:
    """The bytes that were there stay as they are; Java's rules hold for what is added."""
    end = int(case.state["dataWritePos"])
    before = data_bytes(case)[:end]
    node = case.adopt()
    log = node.log
    case.check(log.entries(log.first_index, log.last.index))
    assert log.end_position == end
    assert log.commit_hint == min(int(case.state["committedIndex"]), log.last.index)
    assert node.hard_state.state.term >= int(case.state["ledgerEndTerm"])
    last = log.last.index
    term = Term(node.hard_state.state.term + 1)
    log.append([b"added %d" % number * 40 for number in range(30)], term)
    node.close()
    after = data_bytes(case)
    assert after[:end] == before
    java = case.read()
    assert java.end().last == (term, last + 30)
    added = [entry for entry in java.entries() if entry.header.sequence > last]
    assert all(entry.header.body_crc and entry.header.chain_crc for entry in added)
    java.close()
    again = case.open()
    assert again.log.last == (term, last + 30)
    assert again.log.index_at(added[0].header.position) == last + 1
    again.close()


def data_bytes(case: Case) -> bytes:
    folder = case.folder / "data"
    return b"".join((folder / name).read_bytes() for name in sorted(OS_FILES.list(folder)))


def test_index_slots_are_rebuilt_as_java_wrote_them(case: Case) -> None:
    size = 32 * len(case.rows)
    folder = case.folder / "index"

    def slots() -> bytes:
        return b"".join((folder / name).read_bytes() for name in sorted(OS_FILES.list(folder)))

    before = slots()[:size]
    case.adopt().close()
    assert slots()[:size] == before
    assert not any(slots()[size:])


def test_stale_bytes_behind_the_end_are_gone(case: Case) -> None:
    """Annex 1: a member that was truncated keeps old bytes; an adopted log keeps none (D6)."""
    case.adopt().close()
    end = int(case.state["dataWritePos"])
    assert not any(data_bytes(case)[end:])


def test_the_three_members_are_equal_up_to_the_end(tmp_path: Path) -> None:
    """S10."""
    cases = [Case(f"dledger-3/n{number}", tmp_path / str(number)) for number in range(3)]
    end = int(cases[0].state["dataWritePos"])
    assert len({data_bytes(case)[:end] for case in cases}) == 1


def test_an_adopted_log_can_be_shipped_to_a_node_with_the_same_upgrade_index(
    tmp_path: Path,
) -> None:
    """R21: zero checksums are accepted below the upgrade index and nowhere else."""
    case = Case("dledger-plain/single", tmp_path)
    source = case.adopt()
    source.log.append([b"new"], Term(1))
    identity = replace(source.identity, node_id=NodeId("n0"))
    target = make(CrashDisk(), identity=identity)
    copy_all(source.log, target.log, 5000)
    assert dump(target.log) == dump(source.log)
    with pytest.raises(RangeRejected, match="record 0 does not follow"):
        copy_all(source.log, MemoryLog(file_size=case.data_file_size))
    strict = make(CrashDisk(), identity=replace(identity, upgrade_index=Index(50)))
    with pytest.raises(RangeRejected, match="record 50"):
        copy_all(source.log, strict.log, 5000)
    source.close()


def test_golden_vector_with_and_without_checksums(tmp_path: Path) -> None:
    """Java's bytes, to the last one, and the checksums of the same records.

    Source: docs/spec/raft_log.md 1.8.
    """
    bodies = [b"A" * 300, b"B" * 300, b"C" * 300, b"D" * 5]
    folder = tmp_path / "dledger-n0"
    format_node(folder, Identity("c", "g", NodeId("n0"), 1024, 256), incarnation=1)
    options = LogOptions(data_file_size=1024, index_file_size=256, fill_crc=False)
    log = FileLog.open(OS_FILES, folder, options, clock=Clock())
    for body in bodies:
        log.append([body], Term(0))
    assert [bytes(entry.body) for entry in log.entries(Index(0), Index(3))] == bodies
    log.close()
    hashes = {
        "data/00000000000000000000": (
            "43dceb21f11717560288df231827fafd524f4606ae50e388c9cd5185ac82e7ac"
        ),
        "data/00000000000000001024": (
            "d8a762978165b23f3999c524e9e426e3281dde19451d61a0e02b1a439cbbdfc2"
        ),
        "index/00000000000000000000": (
            "f5cd5dbdd05f40d7bffa647772dafc8f6bd73909d21458b66de8f0e8a06252bb"
        ),
    }
    for name, wanted in hashes.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == wanted
    tiny = GOLDEN / "dledger-plain/tiny/store/dledger-n0"
    for name in hashes:
        assert (folder / name).read_bytes() == (tiny / name).read_bytes()

    checked = make(CrashDisk()).log
    checked.append(bodies, Term(0))
    found = [
        f"{entry.header.body_crc:08x} {entry.header.chain_crc:08x}"
        for entry in checked.entries(Index(0), Index(3))
    ]
    assert found == [
        "bba03323 dd7b6361",
        "04af0acc 334ba02b",
        "6e55e269 81a31cfb",
        "ed10ec6a 555a0183",
    ]


def test_without_checksums_the_position_still_decides() -> None:
    """S10, R21: Java's replicas may differ at one (index, term), and nothing else would tell."""
    logs = []
    for size in (100, 101):
        disk = CrashDisk()
        make(disk)
        options = LogOptions(data_file_size=1024, index_file_size=256, fill_crc=False)
        log = FileLog.open(disk, FOLDER, options, clock=Clock())
        log.append([bytes(size)], Term(1))
        logs.append(log)
    logs[0].append([b"next"], Term(1))
    part = logs[0].read_range(Index(1), Index(1), 1 << 20)
    with pytest.raises(RangeRejected, match="must begin at 149"):
        ship(part, logs[1], Index(1))


def test_the_mirrors_are_written_as_java_reads_them(tmp_path: Path) -> None:
    case = Case("dledger-3/n0", tmp_path)
    node = case.adopt()
    node.log.append([b"x"], Term(9))
    sync(node.log)
    last = len(case.rows)
    node.log.save_commit(Index(last))
    node.log.append([b"not committed"], Term(9))
    node.close()
    checkpoint = (case.folder / "checkpoint").read_text()
    assert checkpoint == f"committedIndex={last}\nendIndex={last + 1}\n"
    vote = case.state["voteLeader"]
    currterm = (case.folder / "currterm").read_text()
    assert currterm == f"voteLeader={vote}\ncurrTerm={case.state['currTerm']}\n"


def test_checkpoint_bak_counts_when_checkpoint_is_missing(tmp_path: Path) -> None:
    """Annex 2; with neither, the commit index is unknown."""
    case = Case("dledger-3/n0", tmp_path)
    (case.folder / "checkpoint").unlink()
    java = case.read()
    assert java.state().committed > 0
    (case.folder / "checkpoint.bak").unlink()
    assert java.state().committed == NO_INDEX
    java.close()


def test_damage_that_java_accepts_is_refused(tmp_path: Path) -> None:
    """Annex 4: a zeroed page in an early file; entries below the commit index that are gone."""
    early = Case("dledger-plain/single", tmp_path / "early")
    number, offset = divmod(int(early.rows[40]["pos"]), early.data_file_size)
    path = early.folder / "data" / f"{number * early.data_file_size:020}"
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(bytes(min(4096, early.data_file_size - offset)))
    for name in ("checkpoint", "checkpoint.bak"):
        (early.folder / name).unlink(missing_ok=True)
    java = early.read()
    with pytest.raises(LogDamaged, match="import another replica"):
        java.end()
    java.close()

    late = Case("dledger-plain/tiny", tmp_path / "late")
    with (late.folder / "data" / f"{1024:020}").open("r+b") as file:
        file.seek(348)
        file.write(bytes(53))
    java = late.read()
    with pytest.raises(LogDamaged, match="entry 3 was committed"):
        java.end()
    java.close()


def test_entries_of_dledger_04_are_refused(tmp_path: Path) -> None:
    """docs/spec/raft_log.md 8, rule 6: unknown magics loudly."""
    case = Case("dledger-plain/killed", tmp_path)
    with (case.folder / "data" / f"{16384:020}").open("r+b") as file:
        file.seek(23296 - 16384)
        file.write((2).to_bytes(4, "big"))
    java = case.read()
    with pytest.raises(LogDamaged, match=r"DLedger 0\.4"):
        java.end()
    java.close()


def test_the_wrong_file_size_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    case = Case("dledger-plain/single", tmp_path)
    before = data_bytes(case)
    with pytest.raises(StoreLayoutError, match="16384 bytes"):
        JavaStore(case.folder, 8192)
    (case.folder / "data" / "stray.txt").write_text("?")
    with pytest.raises(StoreLayoutError, match="not a file of a log"):
        case.read()
    (case.folder / "data" / "stray.txt").unlink()
    (case.folder / "data" / f"{16384:020}").unlink()
    with pytest.raises(StoreLayoutError, match="restore the missing file"):
        case.read()
    assert before.startswith(data_bytes(case)[:16384])


def test_an_adopted_folder_is_not_adopted_again(tmp_path: Path) -> None:
    case = Case("dledger-plain/tiny", tmp_path)
    case.adopt().close()
    with pytest.raises(StoreLayoutError, match="formatted already"):
        case.adopt()
