"""The viewer on a folder of one of our own nodes: log by `dledger.log`, queues by dispatch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from commitlog.dispatch.derived import DerivedFiles
from commitlog.files.held_locks import is_locked
from commitlog.files.system import OS_FILES
from commitlog.inspect import main
from commitlog.records.hosts import Host
from commitlog.records.message import Message, encode_message
from commitlog.records.message_layout import PHYSICAL_OFFSET_AT
from dledger.core.types import Index, NodeId, Term
from dledger.durable.identity import Identity
from dledger.log.node_storage import format_node, open_node

from ..golden import SMALL

COUNT = 60


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A stopped node with sixty messages in terms 1 and 2, all committed and dispatched."""
    folder = tmp_path / "dledger-n0"
    identity = Identity("c", "g", NodeId("n0"), data_file_size=16_384, index_file_size=2048)
    format_node(folder, identity, incarnation=1)
    node = open_node(folder, cluster_id="c", group="g", node_id="n0", clock=lambda: 0.0)
    for number in range(COUNT):
        body = encode_message(
            Message(
                topic="T",
                body=b"%03d" % number * 100,
                queue_offset=number,
                properties={"KEYS": f"k{number}", "TAGS": "t"},
                store_timestamp_ms=1_700_000_000_000 + number,
                store_host=Host("127.0.0.1", 10911),
            )
        )
        node.log.append([body], Term(1 + number // 30), stamp_at=PHYSICAL_OFFSET_AT)
    task = node.log.begin_sync()
    assert task is not None
    task.run()
    node.log.finish_sync(task)
    node.log.save_commit(Index(COUNT - 1))
    derived = DerivedFiles(OS_FILES, tmp_path, SMALL, staging=tmp_path / "staging", entries=True)
    assert derived.recover(0, node.log.end_position) == 0
    part = node.log.read_range(Index(0), Index(COUNT - 1), 1 << 20)
    derived.dispatcher.dispatch(part.position, part.parts)
    sync = derived.begin_sync()
    sync.run()
    derived.finish_sync(sync)
    derived.close()
    node.close()
    return tmp_path


def test_a_whole_node(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(root), "-o", "jsonl"]) == 0
    out, err = capsys.readouterr()
    entries = [json.loads(line) for line in out.splitlines()]
    assert err == ""
    assert [entry["index"] for entry in entries] == list(range(COUNT))
    assert [entry["term"] for entry in entries] == [1] * 30 + [2] * 30
    assert all(entry["chain_crc"] and entry["entry_body_crc"] for entry in entries)
    assert main([str(root / "dledger-n0")]) == 0


def test_each_flipped_byte_of_the_log_is_seen(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D7, read by a tool: headers, bodies and padding, the first entry included."""
    path = root / "dledger-n0" / "data" / f"{0:020d}"
    whole = path.read_bytes()
    places = [*range(60), 200, 395, 396, 397, 8000, 16_000, 16_383]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 0x04
        path.write_bytes(damaged)
        assert main([str(root / "dledger-n0"), "-o", "jsonl"]) == 1, place
        out, err = capsys.readouterr()
        assert "damaged: " in err
        assert len(out.splitlines()) >= COUNT - 2
    path.write_bytes(whole)
    assert main([str(root)]) == 0


def test_zeroed_checksums_are_no_java_store(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = root / "dledger-n0" / "data" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[36:44] = bytes(8)
    path.write_bytes(data)
    assert main([str(root)]) == 1
    assert "entry 0" in capsys.readouterr().err


def test_a_node_that_runs_is_named_and_looked_at_all_the_same(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(root)]) == 0
    stopped = capsys.readouterr()
    assert not stopped.err
    lock = OS_FILES.lock(root / "dledger-n0" / "lock")
    try:
        for folder in (root, root / "dledger-n0"):
            assert main([str(folder)]) == 0
            said = capsys.readouterr().err
            assert said.count("\n") == 1
            assert "a process has" in said
            assert "figures may be old" in said
    finally:
        lock.release()
    assert main([str(root)]) == 0
    assert capsys.readouterr() == stopped


def test_the_lock_of_another_process_is_seen_and_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path)
    holds = (
        "import sys; from pathlib import Path; from commitlog.files.system import OS_FILES\n"
        "lock = OS_FILES.lock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holds, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_locked(path)
        holder.stdin.close()
    assert not is_locked(path)
    OS_FILES.lock(path).release()
