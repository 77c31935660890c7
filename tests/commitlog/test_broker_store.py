"""A DLedger-mode broker store written by Java, through the dispatcher and the read side."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import pytest

from commitlog.config import StoreConfig
from commitlog.dispatch import accel_columns, accel_tails
from commitlog.dispatch.derived import DerivedFiles
from commitlog.files.system import OS_FILES
from commitlog.index.index_format import key_hash
from commitlog.records import accel
from commitlog.records.dispatch_rules import SCHEDULE_TOPIC
from commitlog.records.ids import encode_offset_id
from commitlog.records.message import Message, decode_message

from .golden import BROKER, SMALL, derived_tree, index_contents, rows

END = 95_570
DATA = BROKER / "store" / "dledger-n1" / "data"


def log_bytes() -> bytes:
    return b"".join(path.read_bytes() for path in sorted(DATA.iterdir()))[:END]


def derived_from_log(root: Path, config: StoreConfig = SMALL, step: int = 16_384) -> DerivedFiles:
    derived = DerivedFiles(OS_FILES, root, config, staging=root / "staging", entries=True)
    position = derived.recover(0, END)
    data = log_bytes()
    while position < END:
        size = min(step, END - position, 16_384 - position % 16_384)
        derived.dispatcher.dispatch(position, [data[position : position + size]], partial=True)
        if derived.dispatcher.position == position:
            step += 1000
            continue
        position = derived.dispatcher.position
    return derived


def sync(derived: DerivedFiles) -> None:
    task = derived.begin_sync()
    task.run()
    derived.finish_sync(task)


@pytest.fixture(params=["plain", "numpy"])
def _hashes(request: pytest.FixtureRequest) -> None:
    """Both twins of the batch hash."""
    if request.param == "numpy":
        assert accel.load()
    else:
        accel.unload()


@pytest.mark.usefixtures("_hashes")
@pytest.mark.parametrize("step", [16_384, 1500])
def test_rebuilt_files_are_javas(tmp_path: Path, step: int) -> None:
    derived = derived_from_log(tmp_path, step=step)
    sync(derived)
    derived.close()
    assert derived_tree(tmp_path) == derived_tree(BROKER / "store")
    assert index_contents(tmp_path) == index_contents(BROKER / "store")


def test_rebuilt_through_columns_they_are_javas_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accel_columns, "STRETCH_MIN", 1)
    monkeypatch.setattr(accel_tails, "GROUP_MIN", 1)
    before = accel.is_loaded()
    assert accel.load()
    derived = DerivedFiles(OS_FILES, tmp_path, SMALL, staging=tmp_path / "staging", entries=True)
    position, data, taken = derived.recover(0, END), log_bytes(), 0
    for end in (*range(16_384, END, 16_384), END):  # file by file, blanks included
        stretches = accel_columns.read_stretches(data[position:end], position, {SCHEDULE_TOPIC})
        taken += sum(s.columns.count for s in stretches if s.columns is not None)
        derived.dispatcher.dispatch(position, [data[position:end]], stretches=stretches)
        position = end
    if not before:
        accel.unload()
    assert taken > 50
    sync(derived)
    derived.close()
    assert derived_tree(tmp_path) == derived_tree(BROKER / "store")
    assert index_contents(tmp_path) == index_contents(BROKER / "store")


def test_every_queue_row(tmp_path: Path) -> None:
    derived = derived_from_log(tmp_path)
    data = log_bytes()
    for row in rows(BROKER / "expected.tsv"):
        queue = derived.queues.find(row["topic"], int(row["queueId"]))
        assert queue is not None
        entry = queue.read(int(row["queueOffset"]), 1)[0]
        assert entry[:3] == (int(row["phyOffset"]), int(row["size"]), int(row["tagsCode"]))
        message = decode_message(data, entry.physical_offset)
        assert described(message) == {name: row[name] for name in described(message)}
    derived.close()


def described(message: Message) -> dict[str, str]:
    """The columns of expected.tsv that come from the record."""
    keys = [key for key in (message.unique_key, *message.keys) if key]
    pairs = sorted(message.properties.items())
    return {
        "storeTimestamp": str(message.store_timestamp_ms),
        "keyHashes": ",".join(str(key_hash(f"{message.topic}#{key}")) for key in keys),
        "msgId": encode_offset_id(message.store_host, message.physical_offset),
        "bornTimestamp": str(message.born_timestamp_ms),
        "sysFlag": str(message.sys_flag),
        "flag": str(message.flag),
        "reconsumeTimes": str(message.reconsume_times),
        "preparedTransactionOffset": str(message.prepared_transaction_offset),
        "msgQueueOffset": str(message.queue_offset),
        "msgPhyOffset": str(message.physical_offset),
        "bodyCRC": str(message.body_crc),
        "bodyLen": str(len(message.body)),
        "bodySha256": sha256(message.body).hexdigest(),
        "properties": "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in pairs),
    }


def test_every_queue_and_key(tmp_path: Path) -> None:
    derived = derived_from_log(tmp_path)
    for row in rows(BROKER / "queues.tsv"):
        queue = derived.queues.find(row["topic"], int(row["queueId"]))
        assert queue is not None
        assert queue.min_offset == int(row["minOffset"])
        assert queue.max_offset == int(row["maxOffset"])
        assert queue.end_position == int(row["maxPhysicOffset"])
    assert derived.index is not None
    for row in rows(BROKER / "keys.tsv"):
        hits = derived.index.query(row["topic"], row["key"], 64)
        assert hits == [int(text) for text in row["phyOffsets"].split(",")]
    derived.close()


@pytest.mark.parametrize("cut_at", [0, 305, 14_000, 50_000, 95_000])
def test_a_restart_at_the_mark_ends_the_same(tmp_path: Path, cut_at: int) -> None:
    """Dispatch, sync, dispatch on without a sync, stop, recover: byte for byte the same."""
    derived = DerivedFiles(OS_FILES, tmp_path, SMALL, staging=tmp_path / "staging", entries=True)
    assert derived.recover(0, END) == 0
    data = log_bytes()

    def run(until: int) -> None:
        position = derived.dispatcher.position
        while position < until:
            size = min(until - position, 16_384 - position % 16_384)
            derived.dispatcher.dispatch(position, [data[position : position + size]], partial=True)
            if derived.dispatcher.position == position:
                return  # the rest is a part of a record
            position = derived.dispatcher.position

    run(cut_at)
    sync(derived)
    marked = derived.dispatcher.position
    run(END)
    derived.close()  # nothing more was synced; what the page cache holds stays
    derived = DerivedFiles(OS_FILES, tmp_path, SMALL, staging=tmp_path / "staging", entries=True)
    offset_at = {
        int(r["phyOffset"]): int(r["storeTimestamp"]) for r in rows(BROKER / "expected.tsv")
    }
    assert derived.recover(0, END, store_time_of=offset_at.__getitem__) == marked
    run(END)
    sync(derived)
    derived.close()
    assert derived_tree(tmp_path) == derived_tree(BROKER / "store")
    assert index_contents(tmp_path) == index_contents(BROKER / "store")
