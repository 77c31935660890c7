"""Files of an embedded node that a later release wrote: not damaged, and not known here."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from cluster.commands.inspect import groups_in, node_findings
from cluster.commands.repair import verify
from cluster.commands.status import status
from commitlog.files.system import OS_FILES
from commitlog.inspect import main
from commitlog.records.checksum import crc32
from dledger import LaterVersion, StateMachineFailed
from dledger.core.types import Index, Term
from dledger.log import log_start
from dledger.log.log_start import LogStart
from dledger.log.node_storage import open_node
from dledger.machine.keeping import kept_place
from dledger.snapshots.snapshot_files import SnapshotFolder
from tests.cluster.commands.test_folders import node_with

SLOT = 4096


def inspected(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(folder)], node_check=node_findings, groups=groups_in)
    return code, *capsys.readouterr()


def told(command: Any, *arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(command, [*map(str, arguments)])
    return found.exit_code, f"{found.output} {found.exception}"


def signed(line: bytes) -> bytes:
    return line + b"\ncrc32 %08x\n" % crc32(line)


def slots_of(payload: bytes) -> bytes:
    head = struct.pack(">4siq", b"DLS1", len(payload), 9)
    slot = head + crc32(payload, crc32(head)).to_bytes(4, "big") + payload
    return 2 * slot.ljust(SLOT, b"\0")


def later_identity(folder: Path) -> Path:
    path = folder / "identity"
    values = json.loads(path.read_bytes().partition(b"\n")[0]) | {"version": 2, "shape": "x"}
    path.write_bytes(signed(json.dumps(values).encode()))
    return path


def later_start(folder: Path) -> Path:
    """Of a log that has all its entries, so that this is all that is new."""
    path = folder / "logstart"
    log_start.write(OS_FILES, folder, LogStart(Term(0), Index(-1), 0, 0, 0), staging=folder)
    line = path.read_bytes().partition(b"\n")[0]
    path.write_bytes(2 * signed(json.dumps(json.loads(line) | {"shape": "x"}).encode()))
    return path


def later_mark(folder: Path) -> Path:
    path = folder / "flushmark"
    data = path.read_bytes()
    (length,) = struct.unpack_from(">i", data, 4)
    path.write_bytes(slots_of(data[20 : 20 + length] + b"more"))
    return path


def later_vote(folder: Path) -> Path:
    path = folder / "hardstate"
    data = path.read_bytes()
    path.write_bytes(b"DLS2" + data[4:SLOT] + b"DLS2" + data[SLOT + 4 :])
    return path


SMALL_FILES = (later_identity, later_start, later_mark, later_vote)


@pytest.mark.parametrize("later", SMALL_FILES)
def test_a_small_file_of_a_later_release_is_told_as_that(
    later: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = node_with(tmp_path, "n0", b"second")
    path = later(folder)
    code, out, errors = inspected(folder, capsys)
    assert (code, out.splitlines()[-1]) == (1, "NOT JUDGED, see stderr")
    assert errors.startswith(f"not judged: {path}: ")
    assert "run the release that wrote it" in errors
    code, output = told(verify, folder)
    assert (code != 0, "later" in output or "release" in output) == (True, True), output
    assert "repair themselves" not in output
    assert "lost" not in told(status, folder)[1]


@pytest.mark.parametrize("later", SMALL_FILES)
def test_a_node_does_not_start_on_it_and_says_why(
    later: Callable[[Path], Path], tmp_path: Path
) -> None:
    """It would have said that the file is lost, and that the node is to be replaced."""
    folder = node_with(tmp_path, "n0", b"second")
    path = later(folder)
    before = path.read_bytes()
    with pytest.raises(LaterVersion, match="run the release that wrote it"):
        open_node(folder, cluster_id="c", group="g", node_id="n0", clock=lambda: 0.0)
    assert path.read_bytes() == before


def test_one_slot_that_rots_does_not_look_like_a_later_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = node_with(tmp_path, "n0", b"second")
    path = folder / "hardstate"
    whole = path.read_bytes()
    path.write_bytes(b"DLS3" + whole[4:])
    code, _, errors = inspected(folder, capsys)
    assert (code, "not judged" in errors) == (0, False)
    path.write_bytes(b"DLS3" + whole[4:SLOT] + b"\0" * SLOT)
    code, out, errors = inspected(folder, capsys)
    assert (code, "DAMAGED" in out, "neither of its slots" in errors) == (1, True, True)
    assert "lost: hardstate" in told(status, folder)[1]


def version_of(data: bytes, version: int) -> bytes:
    """A whole state of another version with the layout of today."""
    head = data[:4] + version.to_bytes(4, "big") + data[8:48]
    return head + crc32(data[52:], crc32(head)).to_bytes(4, "big") + data[52:]


def unlike(data: bytes) -> bytes:
    """A state with a head that only a later release can read."""
    return b"DLSS" + (7).to_bytes(4, "big") + b"another layout" + data[20:]


@pytest.mark.parametrize("name", ["begin", "later", "recent"])
@pytest.mark.parametrize("change", [lambda data: version_of(data, 2), unlike])
def test_a_state_of_a_later_release_is_told_as_that(
    name: str,
    change: Callable[[bytes], bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = node_with(tmp_path, "n0", b"second")
    states, place = SnapshotFolder(OS_FILES, folder), LogStart(Term(1), Index(2), 3, 4000, 4096)
    states.save(place, [b"first", b"second"])
    states.save_recent(place, b"newest")
    if name == "begin":  # of a log without entries of its own
        log_start.write(OS_FILES, folder, place, staging=folder)
    path = folder / "snapshots" / (name if name == "recent" else f"{4096:020}")
    whole = path.read_bytes()
    path.write_bytes(change(whole))
    _, out, errors = inspected(folder, capsys)
    ours = [line for line in errors.splitlines() if str(path) in line]
    assert [line.partition(": the state is of version ")[0] for line in ours] == [
        f"not judged: {path}"
    ]
    assert "run the release that wrote it" in ours[0]
    if name == "begin":
        code, output = told(dledger, "backup", "run", tmp_path / "place", "--folder", folder)
        assert (code, f"a later release wrote {path}" in output) == (1, True), output
        return
    assert out.splitlines()[-1] == "NOT JUDGED, see stderr"
    code, output = told(verify, folder)
    assert (code, "verify it with the dledger of that release" in output) == (1, True), output
    path.write_bytes(whole[:4] + (3).to_bytes(4, "big") + whole[8:])
    _, out, errors = inspected(folder, capsys)
    assert (out.splitlines()[-1], f"damaged: {path}" in errors) == ("DAMAGED, see stderr", True)


def test_the_progress_of_a_machine_that_a_later_release_wrote_is_not_to_be_moved_away(
    tmp_path: Path,
) -> None:
    folder = node_with(tmp_path, "n0", b"second")
    node = open_node(folder, cluster_id="c", group="g", node_id="n0", clock=lambda: 0.0)
    head = struct.pack(">4sIqqI", b"DLKP", 2, 1, 1, 0)
    later = head + crc32(b"state", crc32(head)).to_bytes(4, "big") + b"state"
    with pytest.raises(LaterVersion, match="is of version 2"):
        kept_place(node.log, later)
    with pytest.raises(StateMachineFailed, match="damaged or of another"):
        kept_place(node.log, later + b"?")
    node.close()
