"""Audits name the first entry that differs, whatever was done to it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from commitlog.errors import StoreUsageError
from commitlog.records.record import HEADER_SIZE
from commitlog.store.reader import StoreReader
from pipeline.jobs import audit as module
from pipeline.jobs.audit import audit
from pipeline.jobs.committed import committed_index
from pipeline.jobs.workers import Processes
from pipeline.options import LogOptions

from .stores import DLEDGER, THREE


@pytest.fixture
def replicas(tmp_path: Path) -> dict[str, Path]:
    """Three copies of a broker's store."""
    found = {f"n{number}": tmp_path / f"n{number}" for number in range(3)}
    for path in found.values():
        shutil.copytree(DLEDGER, path)
    return found


def places(store: Path) -> dict[int, int]:
    """Index → place of its body in its file."""
    with StoreReader(store) as reader:
        return {
            item.header.sequence: item.position + HEADER_SIZE
            for item in reader.items()
            if item.header is not None
        }


def flip(store: Path, place: int) -> None:
    logs = {int(path.name): path for path in store.glob("dledger-*/data/0*")}
    start = max(at for at in logs if at <= place)
    place -= start
    with logs[start].open("r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]))


def test_equal_replicas() -> None:
    replicas = {f"n{number}": store for number, store in enumerate(THREE)}
    found = audit(replicas, workers=Processes(2))
    assert found.is_clean
    assert found.first == 0
    assert found.last == min(committed_index(LogOptions(path)) or 0 for path in replicas.values())
    assert found.chunks >= 1


@pytest.mark.parametrize("chunk", [1, 4, 10_000])
def test_a_changed_byte_is_named(
    replicas: dict[str, Path], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_ENTRIES", chunk)
    where = places(replicas["n1"])
    wrong = sorted(where)[len(where) // 2]
    flip(replicas["n1"], where[wrong])  # the first byte of its body
    found = audit(replicas)
    assert [difference.index for difference in found.differences] == [wrong]
    told = found.differences[0].entries
    assert told["n0"] == told["n2"]
    assert told["n0"].checksum != told["n1"].checksum
    assert told["n0"].size == told["n1"].size
    assert told["n0"].position == where[wrong] - 48
    assert f"entry {wrong} differs" in str(found.differences[0])


def test_a_changed_term_is_named(replicas: dict[str, Path]) -> None:
    where = places(replicas["n2"])
    wrong = sorted(where)[3]
    flip(replicas["n2"], where[wrong] - 48 + 23)  # the last byte of the entry's term
    found = audit(replicas)
    assert found.differences[0].index == wrong


def test_a_broken_header_is_named(replicas: dict[str, Path]) -> None:
    where = places(replicas["n0"])
    wrong = sorted(where)[5]
    flip(replicas["n0"], where[wrong] - 48)  # the entry's magic
    found = audit(replicas)
    assert "n0" in found.damaged
    assert str(where[wrong] - 48) in found.damaged["n0"]
    assert found.differences[0].index == wrong
    told = found.differences[0].entries
    assert told["n0"].checksum != told["n1"].checksum


def test_what_cannot_be_compared(replicas: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(StoreUsageError, match="two or more"):
        audit({"n0": replicas["n0"]})
    plain = Path(__file__).parents[2] / "data" / "golden" / "java-store" / "normal"
    with pytest.raises(StoreUsageError, match="no replicated log"):
        audit({"n0": replicas["n0"], "plain": plain})
