"""An import or export that fails or is killed: no folder, or none that a program starts on."""

from __future__ import annotations

import errno
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.commands.inspect import nodes_below
from cluster.local import profile
from cluster.move import into_log, to_dledger
from cluster.move.into_log import import_into
from cluster.move.new_folders import STAGING, is_new
from cluster.move.source import Source
from cluster.move.to_dledger import export_dledger
from commitlog.files.system import OS_FILES
from commitlog.store.layout import StoreLayout
from dledger.config import RaftConfig
from dledger.errors import NotFormatted
from dledger.log.node_storage import open_node
from tests.cluster.backup.test_new_folders import Dying, Quick, paths_in
from tests.cluster.commands.test_move import STORE, _run

NAMES = "m0", "m1"


def nodes(root: Path, source: Source) -> list[RaftConfig]:
    peers = {name: ("127.0.0.1", 1 + number) for number, name in enumerate(NAMES)}
    sizes = {"data_file_size": source.data_file_size, "index_file_size": 32 * 1024}
    first = RaftConfig("m0", peers, root / "m0", cluster_id="c", **sizes)  # type: ignore[arg-type]
    return [first, replace(first, node_id="m1", data_dir=root / "m1")]


def imported(root: Path, files: Quick) -> int:
    source = Source(STORE)
    made = nodes(root, source)
    return import_into(source, source.survey(), (), made, now_ms=0, files=files)


def is_whole(raft: RaftConfig, entries: int) -> bool:
    """Can a node start on the folder, with all entries?"""
    try:
        node = open_node(
            Path(raft.data_dir), cluster_id="c", group=raft.group, node_id=raft.node_id, clock=float
        )
    except NotFormatted:
        return False
    count = node.log.last.index + 1
    node.close()
    assert count == entries
    return True


#: Parts of two nodes that move up: ten of each, `identity` last.
CHANGES = [("create", 1), ("create", 9), ("write", 4), ("rename", 1), ("rename", 15)]


@pytest.mark.parametrize(("kind", "number"), CHANGES)
def test_an_import_that_fails_leaves_no_folder(kind: str, number: int, tmp_path: Path) -> None:
    root = tmp_path / "new"
    (root / "kept").mkdir(parents=True)
    for error in KeyboardInterrupt(), OSError(errno.EIO, "no space"):
        with pytest.raises(type(error)):
            imported(root, Dying(kind, number, error))
        assert paths_in(root) == ["kept"]


@pytest.mark.parametrize(("kind", "number"), CHANGES)
def test_one_that_is_killed_leaves_no_node_and_the_next_begins_anew(
    kind: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "new"
    with monkeypatch.context() as patch:
        patch.setattr(into_log, "all_or_nothing", lambda _: nullcontext())
        with pytest.raises(KeyboardInterrupt):
            imported(root, Dying(kind, number, KeyboardInterrupt()))
    made = nodes(root, Source(STORE))
    assert nodes_below(OS_FILES, root) == [], "tools take none for a node either"
    assert not any(is_whole(raft, 0) for raft in made)
    assert is_new(root)
    entries = imported(root, Quick())
    assert entries == 211
    assert all(is_whole(raft, entries) for raft in made)
    assert not list(root.rglob(STAGING))


@pytest.mark.parametrize(("kind", "number"), [("create", 3), ("write", 4), ("rename", 1)])
def test_an_export_that_is_killed_is_no_store_and_no_node(
    kind: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = Source(STORE), tmp_path / "out"
    survey = source.survey()
    for error in KeyboardInterrupt(), OSError(errno.EIO, "no space"):
        with pytest.raises(type(error)):
            export_dledger(source, survey, out, "n0", files=Dying(kind, number, error))
        assert not out.exists()
    monkeypatch.setattr(to_dledger, "all_or_nothing", lambda _: nullcontext())
    with pytest.raises(KeyboardInterrupt):
        export_dledger(source, survey, out, "n0", files=Dying(kind, number, KeyboardInterrupt()))
    assert StoreLayout(out).abort.exists()
    assert not (out / "dledger-n0").exists()
    assert nodes_below(OS_FILES, out) == []


def test_a_cluster_of_an_import_that_fails_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its profile is written last, so `dledger up` starts no half of it."""
    root = tmp_path / "c"

    def fail(*_: Any, **__: Any) -> int:
        assert not profile.exists(root)
        raise OSError(errno.EIO, "no space")

    with monkeypatch.context() as patch:
        patch.setattr("cluster.commands.move.import_into", fail)
        code, _, said = _run(
            "import", str(STORE), "--root", str(root), "-n", "1", "--any-port", "--yes"
        )
    assert (code, "no space" in said, root.exists()) == (1, True, False)


def test_the_profile_of_an_import_is_written_when_its_nodes_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even for a moment before: one that is killed then would be started, empty."""
    root, save = tmp_path / "c", profile.save
    written: list[Path] = []

    def save_behind(where: Path, made: profile.Profile) -> None:
        written.extend(root.rglob("identity"))
        assert len(written) == 1
        save(where, made)

    monkeypatch.setattr(profile, "save", save_behind)
    code, _, said = _run(
        "import", str(STORE), "--root", str(root), "-n", "1", "--any-port", "--yes"
    )
    assert (code, len(written), profile.exists(root)) == (0, 1, True), said
