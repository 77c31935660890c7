"""Backups of `dledger backup` are read as the node's own log is, here and behind a URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from cluster.backup import node_log
from cluster.backup.backing_up import back_up
from cluster.backup.errors import BackupDamaged
from cluster.backup.node_log import NodeLog
from cluster.backup.places import FolderPlace
from commitlog.errors import StoreDamaged, StoreUsageError
from pipeline.jobs.archive import archive, read_archive
from pipeline.jobs.audit import audit
from pipeline.jobs.backlog import count_log, positions_of_store
from pipeline.jobs.commands import pipeline as command
from pipeline.jobs.committed import committed_index
from pipeline.jobs.rebuild import compare, rebuild
from pipeline.options import LogOptions, OptionError, log_at
from pipeline.rawlog.plan import plan
from pipeline.rawlog.read import batches
from tests.cluster.backup.logs import Source
from tests.dledger.log.stores import DATA_FILE_SIZE

from .jobs.stores import put
from .s3 import bucket, upload

COLUMNS = ("value", "topic", "offset", "term", "log_index", "physical_offset", "timestamp")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few entries, over the borders of the log's files."""
    monkeypatch.setattr(node_log, "PIECE_BYTES", 2500)


def _source(folder: Path) -> Source:
    """A running node's log of some files."""
    found = Source(folder / "dledger-n0")
    found.add(24)
    assert len(list((found.folder / "data").iterdir())) > 4
    return found


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The folder of a stopped node."""
    source = _source(tmp_path / "n0")
    for committed in (11, 23):  # two runs: the second adds what came meanwhile
        back_up(NodeLog(source.folder), committed, FolderPlace(tmp_path / "backup"), lambda: 1)
    source.storage.close()
    return tmp_path / "n0"


@pytest.fixture
def backup(node: Path) -> Path:
    """That node's."""
    return node.parent / "backup"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, new_address: Callable[[], str]) -> Iterator[str]:
    with bucket(monkeypatch, new_address()) as suffix:
        yield suffix


def _rows(options: LogOptions) -> list[dict[str, Any]]:
    found = [batch for piece in plan(options) for batch in batches(options, piece)]
    return [row for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("piece_bytes", [1 << 10, 1 << 27])
def test_the_same_rows_as_the_log(node: Path, backup: Path, piece_bytes: int) -> None:
    here = _rows(log_at(node, columns=COLUMNS))
    assert [row["log_index"] for row in here] == list(range(24))
    for place in (backup, backup / "group"):
        assert _rows(log_at(place, columns=COLUMNS, partition_bytes=piece_bytes)) == here
    some = log_at(backup, columns=COLUMNS, start_index=7, end_index=15)
    assert _rows(some) == here[7:15]
    assert len(plan(some)) < len(plan(log_at(backup)))
    assert committed_index(some) == 23


@pytest.mark.parametrize("piece_bytes", [1 << 10, 1 << 27])
def test_no_part_of_a_damaged_file_is_left_out(backup: Path, piece_bytes: int) -> None:
    """Cut off, or zeros up to the end: a node may leave its log so, but no backup."""
    options = log_at(backup, columns=COLUMNS, partition_bytes=piece_bytes)
    for file in (backup / "group" / "log").iterdir():
        raw = file.read_bytes()
        for kept in (0, len(raw) // 2, len(raw) - 300):
            for rest in (b"", bytes(len(raw) - kept)):
                file.write_bytes(raw[:kept] + rest)
                with pytest.raises(StoreDamaged):
                    _rows(options)
        file.write_bytes(raw)
    assert len(_rows(options)) == 24


def test_a_short_answer_of_a_store_of_objects_is_damage(s3: str, backup: Path) -> None:
    file = max((backup / "group" / "log").iterdir())
    file.write_bytes(file.read_bytes()[:-300])
    with pytest.raises(StoreDamaged, match="it was cut off"):
        _rows(log_at(upload(backup, "backup", s3), columns=COLUMNS))


def test_a_log_without_its_beginning(tmp_path: Path) -> None:
    source = _source(tmp_path / "n0")
    source.trim(2 * DATA_FILE_SIZE, b"state")
    back_up(NodeLog(source.folder), source.log.last.index, FolderPlace(tmp_path / "b"), lambda: 1)
    last = source.log.last.index
    source.storage.close()
    numbers = [row["log_index"] for row in _rows(log_at(tmp_path / "b"))]
    assert numbers[0] > 1, "its first files are deleted"
    assert numbers == list(range(numbers[0], last + 1))


def test_jobs_take_a_backup(node: Path, backup: Path, tmp_path: Path) -> None:
    assert audit({"node": node, "backup": backup}).is_clean
    assert archive(backup, tmp_path / "archive").rows == 24
    assert archive(node, tmp_path / "archive").rows == 0, "it has them all"
    assert count_log(backup).equals(count_log(node))
    for place, name in ((node, "one"), (backup, "other")):
        rebuild(place, tmp_path / name)
    assert compare(tmp_path / "one", tmp_path / "other") == []


def test_places_that_are_no_backup_of_one_group(backup: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="use bytesPerPartition"):
        plan(log_at(backup, partition_records=5))
    other = backup / "second"
    other.mkdir()
    (other / "log").mkdir()
    (other / "MANIFEST.json").write_bytes((backup / "group" / "MANIFEST.json").read_bytes())
    with pytest.raises(StoreUsageError, match=r"several groups \(group, second\); name the folder"):
        plan(log_at(backup))
    (other / "MANIFEST.json").write_text("{}")
    with pytest.raises(BackupDamaged, match="its checksum is wrong"):
        plan(log_at(other))
    with pytest.raises(StoreUsageError, match="is no store"):
        plan(log_at(tmp_path / "nothing"))


def test_jobs_take_urls(s3: str, node: Path, backup: Path, tmp_path: Path) -> None:
    """By the commands; a backup by the URL that made it, too."""
    copy = upload(backup, "backup", s3)
    made = copy.replace("endpoint_override=", "endpoint=http://").replace("&scheme=http", "")
    run = CliRunner().invoke
    for number, place in enumerate((copy, made)):
        root = tmp_path / f"archive{number}"
        done = run(command, ["archive", place, str(root)], catch_exceptions=False)
        assert done.output.startswith("24 rows in")
    assert read_archive(tmp_path / "archive0").equals(read_archive(tmp_path / "archive1"))
    done = run(command, ["audit", copy, str(node)], catch_exceptions=False)
    assert done.output.startswith("entries 0 to 23")
    assert "all equal" in done.output
    for place, target in ((copy, "far"), (str(node), "near")):
        run(command, ["rebuild", place, str(tmp_path / target)], catch_exceptions=False)
    assert compare(tmp_path / "far", tmp_path / "near") == []
    refused = run(command, ["rebuild", copy, str(tmp_path / "no"), "--compare"])
    assert refused.exit_code == 2
    assert "give STORE as a folder" in refused.output


def test_jobs_take_the_url_of_a_node(s3: str, tmp_path: Path) -> None:
    put(tmp_path / "n0", range(90))
    url = upload(tmp_path / "n0", "n0", s3)
    assert log_at(url.replace("//", "//key:secret@")).where == "s3://logs/n0"
    assert count_log(url).equals(count_log(tmp_path / "n0"))
    with pytest.raises(StoreUsageError, match=r"consumerOffset.json does not tell"):
        positions_of_store(url)
