"""R12: bytes reach the disk by pwrite and fdatasync on a long-held descriptor, and in no other way.

A write through a mapping turns ENOSPC and EIO into a signal that kills the process; a flush of a
mapping holds the interpreter lock for the whole sync.
"""

from __future__ import annotations

import ast
import inspect
import mmap
import os
from pathlib import Path

import pytest

from commitlog.files.system import OS_FILES

from .source_tree import PACKAGES, inside

_SYNCS = {"fsync", "fdatasync", "sync", "msync", "posix_fallocate", "pwrite", "pwritev"}


def test_only_one_module_maps_files_or_syncs_them() -> None:
    """Of a node. The pipeline reads files of stopped ones, and syncs its own archive."""
    wrong = []
    for package in set(PACKAGES) - {"pipeline"}:
        for source in inside(package):
            if source.path == "commitlog/files/system.py":
                continue
            if "mmap" in source.imports():
                wrong.append(f"{source.path} maps files")
            for node in source.nodes:
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "os"
                    and node.attr in _SYNCS
                    and not source.path.startswith(("cluster/bench/", "chaos/"))
                ):
                    wrong.append(f"{source.path}:{node.lineno} calls os.{node.attr}")
    assert not wrong, "\n".join(wrong)


def test_a_sync_is_fdatasync_and_a_mapping_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(fd), real(fd))[1])
    file = OS_FILES.create(tmp_path / "f", 8192, staging=tmp_path / "staging")
    file.pwrite(b"abc", 10)
    view = file.view(8, 8)
    assert bytes(view) == b"\0\0abc\0\0\0"
    assert view.readonly
    assert not synced
    file.datasync()
    assert len(synced) == 1
    view.release()
    file.close()


def test_the_mapping_is_never_flushed_or_made_writable() -> None:
    source = inspect.getsource(inspect.getmodule(type(OS_FILES)))  # type: ignore[arg-type]
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)]
    attributes = [n.func.attr for n in calls if isinstance(n.func, ast.Attribute)]
    assert "flush" not in attributes
    maps = [
        n
        for n in calls
        if isinstance(n.func, ast.Attribute)
        and n.func.attr == "mmap"
        and ast.unparse(n.args[0]) != "-1"  # memory without a file
    ]
    assert maps
    for call in maps:
        access = [k.value for k in call.keywords if k.arg == "access"]
        assert [getattr(value, "attr", "") for value in access] == ["ACCESS_READ"]
    assert mmap.ACCESS_READ != mmap.ACCESS_WRITE
