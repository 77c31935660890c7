"""`currterm` and `checkpoint`, as others read them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from dledger.core.types import HardState, NodeId, Term
from dledger.durable.mirrors import Mirrors
from tests.dledger.log.crash_files import CrashDisk

FOLDER = Path("/n0")


def test_on_a_full_disk_they_stay_as_they_are_until_there_is_room() -> None:
    disk = CrashDisk()
    mirrors = Mirrors(disk, FOLDER, staging=FOLDER / "staging")
    mirrors.set_term(HardState(Term(3), NodeId("n1"), 7))
    disk.changes.set(0, errno.ENOSPC, once=True)
    mirrors.write(mirrors.capture())
    assert mirrors.stale
    mirrors.write(mirrors.capture())
    assert not mirrors.stale
    assert disk.read(FOLDER / "currterm") == b"voteLeader=n1\ncurrTerm=3\n"


def test_another_error_is_told() -> None:
    disk = CrashDisk()
    mirrors = Mirrors(disk, FOLDER, staging=FOLDER / "staging")
    mirrors.set_term(HardState(Term(3), None, 7))
    disk.changes.set(0, errno.EIO, once=True)
    with pytest.raises(OSError, match="Input/output error"):
        mirrors.write(mirrors.capture())
