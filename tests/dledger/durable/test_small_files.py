"""A stopped node's small files, looked at by a tool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.commands.inspect import node_findings
from commitlog.files.system import OS_FILES
from commitlog.inspect import main
from dledger.core.types import NodeId, Term
from dledger.durable.double_slot import SLOT_SIZE
from dledger.durable.identity import Identity
from dledger.log.node_storage import format_node, open_node
from dledger.runtime.folder_check import flaws

COUNT = 10


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stopped node with ten entries on disk."""
    folder = tmp_path / "dledger-n0"
    identity = Identity("c", "g", NodeId("n0"), data_file_size=16_384, index_file_size=2048)
    format_node(folder, identity, incarnation=1)
    node = open_node(folder, cluster_id="c", group="g", node_id="n0", clock=lambda: 0.0)
    node.log.append([b"x" * 50] * COUNT, Term(1))
    task = node.log.begin_sync()
    assert task is not None
    task.run()
    node.log.finish_sync(task)
    node.close()
    return folder


def found(folder: Path, last: int = COUNT - 1) -> list[tuple[str, bool]]:
    return [(flaw.path.name, flaw.damage) for flaw in flaws(OS_FILES, folder, last)]


def test_a_whole_node(folder: Path) -> None:
    assert found(folder) == []
    assert main([str(folder)], node_check=node_findings) == 0


def test_java_has_no_such_files(tmp_path: Path) -> None:
    assert found(tmp_path) == []


def break_at(*places: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        for place in places:
            data[place] ^= 1
        path.write_bytes(data)

    return change


@pytest.mark.parametrize("name", ["hardstate", "flushmark", "truncate"])
def test_slots(name: str, folder: Path) -> None:
    path = folder / name
    whole = path.read_bytes()
    for slot in (0, SLOT_SIZE):
        break_at(slot + 9)(path)
        assert found(folder) == [(name, False)], "a crash may tear one"
        path.write_bytes(whole)
    break_at(9, SLOT_SIZE + 9)(path)
    assert found(folder) == [(name, True)]
    path.write_bytes(whole[:-1])
    assert found(folder) == [(name, False)], "the first slot is there, and a start goes by it"
    path.write_bytes(whole[:99])
    assert found(folder) == [(name, True)]
    path.unlink()
    assert found(folder) == [(name, True)]


def test_the_identity(folder: Path) -> None:
    break_at(3)(folder / "identity")
    assert found(folder) == [("identity", True)]


def test_an_end_that_is_gone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The checkpoint for Java may say nothing; the flush mark does (R1)."""
    assert found(folder, COUNT - 2) == [("flushmark", True)]
    for name in ("checkpoint", "checkpoint.bak"):
        (folder / name).unlink(missing_ok=True)
    path = folder / "data" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[: 98 * 7].ljust(16_384, b"\0"))
    assert main([str(folder)], node_check=node_findings) == 1
    assert "entry 9 was on disk, and the log ends after entry 6" in capsys.readouterr().err
