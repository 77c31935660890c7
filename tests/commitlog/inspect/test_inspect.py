"""The viewer on golden stores, whole and damaged; its exit codes; what it rebuilds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote
from zlib import crc32

import pytest

from commitlog.files.system import OS_FILES
from commitlog.index.index_format import IndexGeometry
from commitlog.inspect import main
from commitlog.inspect.geometry import derived_sizes
from commitlog.records.message import Message
from commitlog.records.record import HEADER, HEADER_SIZE, chain, unpack_header
from commitlog.store.store import MessageStore

from ..golden import BROKER, JAVA, PLAIN_CASES, SMALL, copy, derived_tree, index_contents, rows

Run = tuple[int, str, str]
Inspect = Callable[..., Run]
BROKER_DATA = "dledger-n1/data"


@pytest.fixture
def inspect(capsys: pytest.CaptureFixture[str]) -> Inspect:
    def run(*argv: object) -> Run:
        code = main([str(part) for part in argv])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def objects(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def flip(path: Path, position: int, data: bytes | None = None) -> None:
    content = bytearray(path.read_bytes())
    if data is None:
        content[position] ^= 0x10
    else:
        content[position : position + len(data)] = data
    path.write_bytes(content)


# ---- what real stores hold -----------------------------------------------------------------------


@pytest.mark.parametrize("case", PLAIN_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("folder", [False, True], ids=["root", "dledger-id"])
def test_raw_entries(case: Path, folder: bool, inspect: Inspect) -> None:
    path = next((case / "store").iterdir()) if folder else case / "store"
    code, out, err = inspect(path, "-o", "jsonl")
    assert (code, err) == (0, "")
    found = objects(out)
    expected = rows(case / "expected.tsv")
    assert len(found) == len(expected)
    for entry, row in zip(found, expected, strict=True):
        assert entry["topic"] is entry["message_id"] is None
        assert entry["position"] == int(row["pos"])
        for ours, theirs in ENTRY_COLUMNS.items():
            assert str(entry[ours]) == row[theirs]


ENTRY_COLUMNS = {
    "index": "index",
    "term": "term",
    "size": "size",
    "magic": "magic",
    "channel": "channel",
    "chain_crc": "chainCrc",
    "entry_body_crc": "bodyCrc",
    "entry_body_size": "bodyLen",
    "entry_body_sha256": "bodySha256",
}


@pytest.mark.parametrize("path", ["store", "store/dledger-n1"])
def test_broker_store(path: str, inspect: Inspect) -> None:
    code, out, err = inspect(BROKER / path, "-o", "jsonl")
    assert (code, err) == (0, "")
    found = objects(out)
    for entry, row in zip(found, rows(BROKER / "entries.tsv"), strict=True):
        assert {ours: str(entry[ours]) for ours in ENTRY_COLUMNS} == {
            ours: row[theirs] for ours, theirs in ENTRY_COLUMNS.items()
        }
    by_position = {entry["physical_offset"]: entry for entry in found}
    for row in rows(BROKER / "expected.tsv"):
        entry = by_position.pop(int(row["phyOffset"]))
        assert described(entry) == {name: row[name] for name in described(entry)}
    assert not by_position  # every message has its row: no half or rolled back records here


def described(entry: dict[str, object]) -> dict[str, str]:
    pairs = entry["properties"]
    assert isinstance(pairs, dict)
    encoded = [f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in sorted(pairs.items())]

    def host(text: object) -> str:
        ip, _, port = str(text).rpartition(":")
        return f"{ip.strip('[]')}/{port}"

    columns = {
        "topic": "topic",
        "queueId": "queue_id",
        "msgQueueOffset": "queue_offset",
        "msgPhyOffset": "physical_offset",
        "size": "message_size",
        "storeTimestamp": "store_timestamp_ms",
        "bornTimestamp": "born_timestamp_ms",
        "sysFlag": "sys_flag",
        "flag": "flag",
        "reconsumeTimes": "reconsume_times",
        "preparedTransactionOffset": "prepared_transaction_offset",
        "bodyCRC": "body_crc",
        "bodyLen": "body_size",
        "bodySha256": "body_sha256",
        "msgId": "message_id",
    }
    result = {theirs: str(entry[ours]) for theirs, ours in columns.items()}
    result["properties"] = "&".join(encoded)
    if "." in str(entry["born_host"]):
        result["bornHost"] = host(entry["born_host"])
    return result


@pytest.mark.parametrize("name", ["normal", "normal_running1"])
def test_plain_store(name: str, inspect: Inspect) -> None:
    code, out, err = inspect(JAVA / name, "-o", "jsonl")
    assert (code, err) == (0, "")
    found = objects(out)
    assert len(found) == 130
    for entry in found:
        assert entry["index"] is entry["term"] is None
        assert entry["position"] == entry["physical_offset"]
        assert entry["size"] == entry["message_size"]
        assert entry["magic"] == -626843481
    code, out, _ = inspect(JAVA / name, "-o", "json")
    summary = json.loads(out)
    assert (code, summary["damaged"], summary["messages"]) == (0, False, 130)
    assert summary["topics"]["T0"] == {"0": 20, "1": 24, "2": 20}
    code, out, _ = inspect(JAVA / name)
    assert code == 0
    assert out.endswith("whole\n")


# ---- rebuilding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [JAVA / "normal", BROKER / "store"], ids=["plain", "dledger"])
def test_rebuild_is_javas(store: Path, tmp_path: Path, inspect: Inspect) -> None:
    code, _, err = inspect(store, "--rebuild", tmp_path / "out")
    assert (code, err) == (0, "")
    assert derived_tree(tmp_path / "out") == derived_tree(store)
    assert index_contents(tmp_path / "out") == index_contents(store)


def test_rebuild_from_the_log_folder_with_sizes_given(tmp_path: Path, inspect: Inspect) -> None:
    sizes = ["--queue-file-size", 400, "--index-slots", 64, "--index-entries", 40]
    folder = BROKER / "store" / "dledger-n1"
    assert inspect(folder, "--rebuild", tmp_path / "out", *sizes)[0] == 0
    assert derived_tree(tmp_path / "out") == derived_tree(BROKER / "store")
    assert index_contents(tmp_path / "out") == index_contents(BROKER / "store")


def test_an_upgraded_store(tmp_path: Path, inspect: Inspect) -> None:
    """Plain files first, then dledger files that begin where they end (docs/spec/raft_log.md 2)."""
    root = copy(JAVA / "normal", tmp_path / "store")
    plain = [p.read_bytes() for p in sorted((root / "commitlog").iterdir())]
    last = bytearray(plain[-1])
    at = 40_469 - 32_768
    last[at : at + 8] = (16_384 - at).to_bytes(4, "big") + bytes.fromhex("cbd43194")
    (root / "commitlog" / f"{32_768:020d}").write_bytes(last)
    divided = 49_152
    data = root / "dledger-n0" / "data"
    data.mkdir(parents=True)
    log = bytearray(16_384)
    position = 0
    with MessageStore(tmp_path / "other", SMALL, threads=False) as other:
        other.put(Message(topic="T0", body=b"new", properties={"KEYS": "new"}))
        other_log = (tmp_path / "other" / "commitlog" / f"{0:020d}").read_bytes()
    record = bytearray(other_log[: int.from_bytes(other_log[:4], "big")])
    record[20:28] = (19).to_bytes(8, "big")
    record[28:36] = (divided + HEADER_SIZE).to_bytes(8, "big")
    head = (1, HEADER_SIZE + len(record), 0, 0, divided, 0, 0, 0, len(record))
    log[position : position + HEADER_SIZE + len(record)] = HEADER.pack(*head) + record
    (data / f"{divided:020d}").write_bytes(log)
    code, out, err = inspect(root, "-o", "jsonl", "--rebuild", tmp_path / "out")
    found = objects(out)
    assert [entry["index"] for entry in found] == [None] * 130 + [0]
    assert found[-1]["physical_offset"] == divided + HEADER_SIZE
    queue = (tmp_path / "out/consumequeue/T0/0" / f"{0:020d}").read_bytes()
    assert queue[380:388] == (divided + HEADER_SIZE).to_bytes(8, "big")
    assert code == 0, err  # nothing says that index 0 is committed: it need not be in the queues


def test_sizes_are_taken_from_the_files(tmp_path: Path) -> None:
    sizes = derived_sizes(OS_FILES, JAVA / "normal")
    assert (sizes.queue, sizes.batch, sizes.index) == (400, 460, IndexGeometry(64, 40))
    defaults = derived_sizes(OS_FILES, None)
    assert (defaults.queue, defaults.batch) == (6_000_000, 13_800_000)
    assert defaults.index.file_size == 420_000_040
    with MessageStore(tmp_path, SMALL, threads=False) as store:
        for number in range(20):
            store.put(Message(topic="t", body=b"x", properties={"KEYS": f"k{number}"}))
    assert derived_sizes(OS_FILES, tmp_path).index == IndexGeometry(64, 40)  # from one file


# ---- damage --------------------------------------------------------------------------------------


def test_a_flipped_body_bit(tmp_path: Path, inspect: Inspect) -> None:
    root = copy(BROKER / "store", tmp_path / "store")
    row = rows(BROKER / "entries.tsv")[5]
    flip(root / BROKER_DATA / f"{0:020d}", int(row["pos"]) + 48 + 90)
    code, out, err = inspect(root, "-o", "jsonl")
    assert code == 1
    assert f"at position {row['pos']}" in err
    assert "CRC" in err
    assert [entry["index"] for entry in objects(out)] == [n for n in range(211) if n != 5]
    assert "consumequeue" not in err  # its queue entry is right


def test_a_half_zeroed_last_body(tmp_path: Path, inspect: Inspect) -> None:
    root = copy(BROKER / "store", tmp_path / "store")
    row = rows(BROKER / "entries.tsv")[-1]
    at, size = int(row["pos"]) % 16_384, int(row["size"])
    flip(root / BROKER_DATA / f"{81_920:020d}", at + size // 2, bytes(size - size // 2))
    code, out, err = inspect(root, "-o", "jsonl")
    assert code == 1
    assert f"at position {row['pos']}" in err
    assert len(objects(out)) == 210


def test_a_zeroed_page_in_an_early_file(tmp_path: Path, inspect: Inspect) -> None:
    root = copy(BROKER / "store", tmp_path / "store")
    flip(root / BROKER_DATA / f"{16_384:020d}", 4096, bytes(4096))
    code, out, err = inspect(root, "-o", "jsonl")
    assert code == 1
    found = [entry["index"] for entry in objects(out)]
    lost = [
        int(row["index"])
        for row in rows(BROKER / "entries.tsv")
        if int(row["pos"]) < 16_384 + 8192 and int(row["pos"]) + int(row["size"]) > 16_384 + 4096
    ]
    assert found == [n for n in range(211) if n not in lost]
    assert f"{16_384:020d}" in err
    assert "next whole entry is at" in err


@pytest.mark.parametrize("kind", ["consumequeue", "index", "both"])
def test_missing_derived_folders(kind: str, tmp_path: Path, inspect: Inspect) -> None:
    root = copy(BROKER / "store", tmp_path / "store")
    for name in ("consumequeue", "index") if kind == "both" else (kind,):
        shutil.rmtree(root / name)
    code, out, err = inspect(root, "-o", "json")
    assert code == 1
    assert json.loads(out)["messages"] == 211
    assert ("30 of 30 entries are missing" in err) == (kind != "index")
    assert ("keys are missing" in err) == (kind != "consumequeue")
    (root / "abort").touch()  # after a crash they may lag: worth a note
    code, _, err = inspect(root)
    assert code == 0
    assert err.startswith("note: ")


def test_queue_rows_that_are_off(tmp_path: Path, inspect: Inspect) -> None:
    """Java's recovery loses rows; later messages then sit below the offset in their record."""
    root = copy(BROKER / "store", tmp_path / "store")
    folder = root / "consumequeue" / "GoldA" / "1"
    data = b"".join(p.read_bytes() for p in sorted(folder.iterdir()))
    shifted = data[: 40 * 20] + data[42 * 20 :] + bytes(40)
    for number, path in enumerate(sorted(folder.iterdir())):
        path.write_bytes(shifted[number * 400 : number * 400 + 400])
    code, _, err = inspect(root)
    assert code == 1
    assert "consumequeue/GoldA/1" in err
    assert "14 of 56 entries, the first at queue offset 40" in err
    assert "2 of 56 entries are missing from queue offset 54 on" in err


def test_queue_and_index_entries_that_point_at_nothing(tmp_path: Path, inspect: Inspect) -> None:
    """The log was cut below what had been dispatched."""
    root = copy(BROKER / "store", tmp_path / "store")
    last = rows(BROKER / "entries.tsv")[-1]
    at = int(last["pos"]) % 16_384
    flip(root / BROKER_DATA / f"{81_920:020d}", at, bytes(int(last["size"])))
    code, _, err = inspect(root)
    assert code == 1
    assert "point at nothing" in err


def test_filled_checksums_are_verified(tmp_path: Path, inspect: Inspect) -> None:
    """Our own logs: every byte counts, raw bodies too."""
    root = copy(PLAIN_CASES[0] / "store", tmp_path / "store")
    fill_checksums(root / "dledger-n0" / "data")
    assert inspect(root)[0] == 0
    first = root / "dledger-n0" / "data" / f"{0:020d}"
    original = first.read_bytes()
    for position in range(0, 1024, 7):
        flip(first, position)
        assert inspect(root)[0] == 1, position
        first.write_bytes(original)


def fill_checksums(folder: Path) -> None:
    previous = 0
    for path in sorted(folder.iterdir()):
        data, at = bytearray(path.read_bytes()), 0
        while int.from_bytes(data[at : at + 4], "big") == 1:
            header = unpack_header(data, at)
            crc = crc32(data[at + HEADER_SIZE : at + header.size])
            previous = chain(previous, bytes(data[at : at + 36]), crc)
            data[at + 36 : at + 44] = previous.to_bytes(4, "big") + crc.to_bytes(4, "big")
            at += header.size
        path.write_bytes(data)


def test_old_bytes_behind_the_end_are_no_damage(tmp_path: Path, inspect: Inspect) -> None:
    """Java leaves them after a truncation (docs/spec/raft_log.md Annex A, fact 1)."""
    root = copy(PLAIN_CASES[3] / "store", tmp_path / "store")
    data = next(root.iterdir()) / "data" / f"{16_384:020d}"
    old = bytearray(HEADER.pack(1, 148, 80, 1, 16_384 + 11_000, 0, 0, 0, 100) + b"?" * 100)
    flip(data, 10_700, b"rubbish")
    flip(data, 11_000, bytes(old))
    code, out, err = inspect(root, "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["last_index"] == 74
    old[16:24] = (3).to_bytes(8, "big")  # the same of the last term, and later: an entry is lost
    flip(data, 11_000, bytes(old))
    assert inspect(root)[0] == 1


def test_stray_wrong_and_missing_files(tmp_path: Path, inspect: Inspect) -> None:
    root = copy(BROKER / "store", tmp_path / "store")
    data = root / BROKER_DATA
    (data / "notes.txt").write_text("?")
    (data / f"{98_304:020d}").write_bytes(b"?" * 10)
    (data / f"{32_768:020d}").unlink()
    code, out, err = inspect(root, "-o", "json")
    assert code == 1
    for words in ("does not belong", "it has 10 bytes", "at position 32768"):
        assert words in err
    inside = [r for r in rows(BROKER / "entries.tsv") if 32_768 <= int(r["pos"]) < 49_152]
    assert json.loads(out)["messages"] == 211 - len(inside)


def test_a_plain_store_with_damage(tmp_path: Path, inspect: Inspect) -> None:
    root = copy(JAVA / "normal", tmp_path / "store")
    flip(root / "commitlog" / f"{16_384:020d}", 3000, bytes(600))
    code, out, err = inspect(root, "-o", "json", "--rebuild", tmp_path / "out")
    assert code == 1
    assert "next whole record is at" in err
    messages = json.loads(out)["messages"]
    assert 120 < messages < 130


def test_a_file_that_is_cut_short(tmp_path: Path, inspect: Inspect) -> None:
    root = copy(JAVA / "normal", tmp_path / "store")
    path = root / "index" / sorted(p.name for p in (root / "index").iterdir())[3]
    path.write_bytes(path.read_bytes()[:-1])
    code, _, err = inspect(root)
    assert code == 1
    assert path.name in err


# ---- usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["no such folder"],
        [str(JAVA)],
        [str(JAVA / "normal"), "-o", "xml"],
        [str(JAVA / "normal"), "--queue-file-size", "30"],
        [str(JAVA / "normal"), "--index-slots", "0"],
        [str(JAVA / "normal"), "--rebuild", str(JAVA / "normal")],
        [str(PLAIN_CASES[0] / "store"), "--nonsense"],
    ],
)
def test_usage_errors(argv: list[str], inspect: Inspect) -> None:
    before = {path: path.stat().st_mtime_ns for path in JAVA.rglob("*")}
    code, _, err = inspect(*argv)
    assert code == 2
    assert err
    assert {path: path.stat().st_mtime_ns for path in JAVA.rglob("*")} == before


def test_several_nodes_are_a_question(tmp_path: Path, inspect: Inspect) -> None:
    for name in ("dledger-n0", "dledger-n1"):
        (tmp_path / name / "data").mkdir(parents=True)
    code, _, err = inspect(tmp_path)
    assert code == 2
    assert "dledger-n0, dledger-n1" in err


def test_help_is_no_error(inspect: Inspect) -> None:
    code, out, _ = inspect("--help")
    assert code == 0
    assert "--rebuild" in out


def test_body_hash_is_of_the_stored_body(inspect: Inspect) -> None:
    _, out, _ = inspect(JAVA / "normal", "-o", "jsonl")
    entry = objects(out)[0]
    log = (JAVA / "normal" / "commitlog" / f"{0:020d}").read_bytes()
    size = int.from_bytes(log[84:88], "big")
    assert entry["body_sha256"] == sha256(log[88 : 88 + size]).hexdigest()
