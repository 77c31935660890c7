"""Every versioned file of the project, raised by a version: each reader says so, and lets it be.

A row of `FILES` makes one file of a node's folder that of a later release. What reads the folder, a
start and all tools, must call it that, name the file, tell which release to use, and write nothing.
`KNOWN` holds all modules with a format's version or magic, so that a new format gets a row.
"""

from __future__ import annotations

import json
import logging
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.backup import manifest as manifests
from cluster.broker.kernel.apply import checkpoint
from cluster.cli import dledger
from cluster.commands.inspect import groups_in, node_findings
from cluster.core.apply import AppliedState
from cluster.core.captured_state import CHECKPOINT_VERSION
from cluster.local import profile
from commitlog.files.system import OS_FILES
from commitlog.inspect import main
from commitlog.records.checksum import crc32
from dledger import LaterVersion, RaftConfig, ReplicatedNode, StateMachineFailed
from dledger.core.types import Index, Term
from dledger.log import log_start
from dledger.log.log_start import LogStart
from dledger.log.node_storage import open_node
from dledger.machine import state_head
from dledger.machine.keeping import behind, kept_place
from dledger.machine.sessions import Sessions
from dledger.machine.state_head import StateHead
from dledger.runtime import unsafe_recovery
from dledger.snapshots.snapshot_files import SnapshotFolder
from tests.cluster.commands.test_folders import node_with
from tests.dledger.machine.test_saving import Lines

SLOT = 4096
ROOT = Path(__file__).parents[3]
PEERS = {"n0": ("127.0.0.1", 1)}


def signed(line: bytes) -> bytes:
    return line + b"\ncrc32 %08x\n" % crc32(line)


def slots_of(payload: bytes) -> bytes:
    head = struct.pack(">4siq", b"DLS1", len(payload), 9)
    slot = head + crc32(payload, crc32(head)).to_bytes(4, "big") + payload
    return 2 * slot.ljust(SLOT, b"\0")


def payload_of(path: Path) -> bytes:
    data = path.read_bytes()
    (length,) = struct.unpack_from(">i", data, 4)
    return data[20 : 20 + length]


def field_more(path: Path) -> None:
    line = path.read_bytes().partition(b"\n")[0]
    path.write_bytes(2 * signed(json.dumps(json.loads(line) | {"shape": "x"}).encode()))


def identity(folder: Path) -> Path:
    path = folder / "identity"
    values = json.loads(path.read_bytes().partition(b"\n")[0]) | {"version": 2, "shape": "x"}
    path.write_bytes(signed(json.dumps(values).encode()))
    return path


def start_of_log(folder: Path) -> Path:
    """Of a log that has all its entries, so that this is all that is new."""
    log_start.write(OS_FILES, folder, LogStart(Term(0), Index(-1), 0, 0, 0), staging=folder)
    field_more(folder / "logstart")
    return folder / "logstart"


def group_changes(folder: Path) -> Path:
    field_more(folder / "configurations")
    return folder / "configurations"


def folder_generations(folder: Path) -> Path:
    path = folder / "generations"
    line = json.dumps({"number": 3, "starts": [[1, 5]], "met": {}, "shape": "x"}).encode()
    path.write_bytes((line + b" crc32 %08x\n" % crc32(line)) * 2)
    return path


def known_peers(folder: Path) -> Path:
    path = folder / "peers.json"
    path.write_text(json.dumps({"n1": {"incarnation": 5, "shape": "x"}}))
    return path


def magic_of(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        data = path.read_bytes()
        path.write_bytes(b"DLS2" + data[4:SLOT] + b"DLS2" + data[SLOT + 4 :])
        return path

    return make


def payload_more(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(slots_of(payload_of(path).ljust(44, b"\0") + b"more"))
        return path

    return make


def vote_with_more(folder: Path) -> Path:
    path = folder / "hardstate"
    path.write_bytes(slots_of(payload_of(path) + b"\1more"))
    return path


def version_of(data: bytes, version: int) -> bytes:
    """A whole state of another version with the layout of today."""
    head = data[:4] + version.to_bytes(4, "big") + data[8:48]
    return head + crc32(data[52:], crc32(head)).to_bytes(4, "big") + data[52:]


def unlike(data: bytes) -> bytes:
    """A state with a head that only a later release can read."""
    return b"DLSS" + (7).to_bytes(4, "big") + b"another layout" + data[20:]


def place_of(folder: Path) -> LogStart:
    """The place behind the log's last entry but one."""
    node = open_node(folder, cluster_id="c", group="g", node_id="n0", clock=lambda: 0.0)
    found = behind(node.log, 1)
    node.close()
    return found


def machine_state(folder: Path, version: int | None = None) -> Path:
    """The state by time of a machine; `version`: that of the machine's own head."""
    start = place_of(folder)
    head = StateHead(start.index, 5, start.index, Sessions().dump()).pack()
    head = head if version is None else head[:4] + version.to_bytes(4, "big") + head[8:]
    SnapshotFolder(OS_FILES, folder).save_recent(start, [head, b"[2, 11]"])
    return folder / "snapshots" / "recent"


def raised(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        recent = machine_state(folder)
        path = recent.with_name(name)
        path.write_bytes(change(recent.read_bytes()))
        if path != recent:
            recent.unlink()
        return path

    return make


def second(data: bytes) -> bytes:
    return version_of(data, 2)


PLACE = f"{4096:020}"
FILES: dict[str, Callable[[Path], Path]] = {
    "identity": identity,
    "hardstate, magic": magic_of("hardstate"),
    "hardstate, payload": vote_with_more,
    "flushmark, magic": magic_of("flushmark"),
    "flushmark, payload": payload_more("flushmark"),
    "truncate, magic": magic_of("truncate"),
    "truncate, payload": payload_more("truncate"),
    "logstart": start_of_log,
    "configurations": group_changes,
    "generations": folder_generations,
    "peers.json": known_peers,
    "state": raised(PLACE, second),
    "state of another layout": raised(PLACE, unlike),
    "state by time": raised("recent", second),
    "part of a state": raised(f"{PLACE}.{0:020}", second),
    "state of a machine": lambda folder: machine_state(folder, 3),
}
every_file = pytest.mark.parametrize("later", FILES.values(), ids=FILES)

#: Modules with the version or magic of a format, and where it is raised: in `FILES`, or why not.
KNOWN = {
    "dledger/durable/identity.py": "identity",
    "dledger/durable/double_slot.py": "hardstate, magic",
    "dledger/snapshots/file_head.py": "state",
    "dledger/machine/state_head.py": "state of a machine",
    "dledger/machine/keeping.py": "a test below: files of the user's machine",
    "dledger/machine/entries.py": "an entry, no file: tests/dledger/machine/test_runs.py",
    "dledger/membership/handshake.py": "frames between nodes, no file",
    "dledger/replica/envelope.py": "an entry, no file: RocketMQ's message",
    "cluster/protocol/recall_headers.py": "a text for clients, no file",
    "cluster/backup/manifest.py": "a test below: a backup",
    "cluster/broker/kernel/apply/checkpoint.py": "a test below: derived, made again",
    "cluster/core/captured_state.py": "a test below: a broker's state",
    "cluster/local/profile.py": "a test below: a local cluster",
    "cluster/commands/named_reaches.py": "a test below: profiles of commands",
    "cluster/console/api/openapi.py": "an interface, no file",
    "pipeline/jobs/manifest.py": "refused: tests/pipeline",
    "pipeline/source/offsets.py": "refused: tests/pipeline",
    "pipeline/sink/staged.py": "staged rows of one query, no version",
}
_FORMAT = re.compile(r'^_?(?:[A-Z]+_)?(?:MAGIC|VERSION)\b.* = .*(?:b"|\d)|^_?VERSION = \d', re.M)


def test_each_format_with_a_version_is_known_here() -> None:
    found = set()
    for package in ("commitlog", "dledger", "cluster", "pipeline"):
        for path in (ROOT / package).rglob("*.py"):
            if _FORMAT.search(path.read_text()):
                found.add(str(path.relative_to(ROOT)))
    java = {name for name in found if name.startswith("commitlog/")}  # RocketMQ's formats
    java |= {"cluster/protocol/codes.py", "dledger/log/java_store.py"}
    assert found - java - {"dledger/log/damage.py", "pipeline/rawlog/read.py"} == set(KNOWN)


def inspected(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(folder)], node_check=node_findings, groups=groups_in)
    return code, *capsys.readouterr()


def told(*arguments: object) -> tuple[int, str]:
    """Exit code, and all that is said, an error as the command's `main` prints it."""
    found = CliRunner().invoke(dledger, [*map(str, arguments)])
    return found.exit_code, f"{found.output} {found.exception}"


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@every_file
def test_tools_tell_it_as_that_and_write_nothing(
    later: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = node_with(tmp_path, "n0", b"second")
    path = later(folder)
    before = bytes_in(folder)
    code, out, errors = inspected(folder, capsys)
    assert (code, out.splitlines()[-1]) == (1, "NOT JUDGED, see stderr"), errors
    assert [line.partition(": ")[0] for line in errors.splitlines()] == ["not judged"]
    assert errors.startswith(f"not judged: {path}: ")
    assert "run the release that wrote it" in errors
    code, output = told("verify", folder, "-o", "json")
    (row,) = json.loads(output[: output.rindex("]") + 1])
    assert (code, row["damaged_at"]) == (1, None), output
    assert f"not judged: {path}: " in row["reason"]
    assert "run the release that wrote it" in row["reason"]
    assert "verify it with the dledger of that release" in told("verify", folder)[1]
    is_of_machine = path.name == "recent" and b"DLRS" in path.read_bytes()[52:60]
    if not is_of_machine or b"DLSS\0\0\0\2" in path.read_bytes():  # small files, and heads
        code, output = told("status", folder)
        assert (code, "of a later release" in output, str(path) in output) == (1, True, True)
        assert "lost" not in output
        code, output = told("backup", "run", tmp_path / "place", "--folder", folder)
        assert (code, str(path) in output, "run the release that wrote it" in output) == (
            1,
            True,
            True,
        ), output
        assert not (tmp_path / "place").exists()
    assert bytes_in(folder) == before


@every_file
async def test_a_node_does_not_start_on_it_and_writes_nothing(
    later: Callable[[Path], Path], tmp_path: Path
) -> None:
    """It would have called the file lost, damaged or a missing state, or have passed over it."""
    folder = node_with(tmp_path, "n0", b"second")
    path = later(folder)
    before = bytes_in(folder)
    config = RaftConfig("n0", PEERS, folder, cluster_id="c", group="g")
    alone = ReplicatedNode(config, Lines())
    peers = {**PEERS, "n1": ("127.0.0.1", 2)}
    among = ReplicatedNode(replace(config, peers=peers), Lines())
    for node in alone, among:
        with pytest.raises(LaterVersion, match="run the release that wrote it"):
            await node.start()
        after = bytes_in(folder)
        if later is FILES["state of a machine"]:  # found when the machine reads it
            assert after[f"snapshots/{path.name}"] == before[f"snapshots/{path.name}"]
        else:
            assert after == before
    if later is not FILES["state of a machine"]:
        for recover in unsafe_recovery.look, unsafe_recovery.recover:
            with pytest.raises(LaterVersion, match=str(path)):
                recover(folder)
        assert bytes_in(folder) == before


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
    assert "lost: hardstate" in told("status", folder)[1]


def test_a_state_whose_version_rots_does_not_look_like_a_later_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = node_with(tmp_path, "n0", b"second")
    path = machine_state(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + (3).to_bytes(4, "big") + whole[8:])
    code, out, errors = inspected(folder, capsys)
    assert (code, out.splitlines()[-1]) == (1, "DAMAGED, see stderr")
    assert f"damaged: {path}" in errors


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


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values | {"version": manifests.VERSION + 1},
        lambda values: values | {"shape": "x"},
        lambda values: values | {"log": values["log"] | {"shape": "x"}},
        lambda values: values | {"pieces": [values["pieces"][0] | {"shape": "x"}]},
    ],
)
def test_a_backup_of_a_later_release_is_not_restored_checked_or_gone_on_with(
    change: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path
) -> None:
    folder, place = node_with(tmp_path, "n0", b"second"), tmp_path / "place"
    assert told("backup", "run", place, "--folder", folder)[0] == 0
    path = place / "g" / "MANIFEST.json"
    values = change(json.loads(path.read_bytes().partition(b"\n")[0]))
    path.write_bytes(signed(json.dumps(values).encode()))
    before = bytes_in(tmp_path)
    for words in (
        ("backup", "run", place, "--folder", folder),
        ("backup", "show", place),
        ("backup", "verify", place),
        ("restore", place, "--into", tmp_path / "new", "--yes"),
        ("restore", place, "--root", tmp_path / "new", "--yes"),
    ):
        code, output = told(*words)
        assert (code, str(path) in output, "run the release that wrote it" in output) == (
            1,
            True,
            True,
        ), output
        assert bytes_in(tmp_path) == before


def later_broker_state() -> bytes:
    values = json.loads(AppliedState(()).to_checkpoint())
    return json.dumps(values | {"version": CHECKPOINT_VERSION + 1}).encode()


def test_a_brokers_state_of_a_later_release_is_refused_and_told_by_inspect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LaterVersion, match="run the release that wrote it"):
        AppliedState(()).restore(later_broker_state(), lambda *_: True)
    folder = node_with(tmp_path, "n0", b"second")
    SnapshotFolder(OS_FILES, folder).save_recent(place_of(folder), later_broker_state())
    code, out, errors = inspected(folder, capsys)
    assert (code, out.splitlines()[-1]) == (1, "NOT JUDGED, see stderr")
    assert errors.startswith(f"not judged: {folder / 'snapshots' / 'recent'}: the broker's state")


@pytest.mark.parametrize("version", [checkpoint.VERSION, checkpoint.VERSION + 1])
def test_tables_of_a_later_release_are_derived_again_and_that_is_told(
    version: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are derived of the log: a broker that goes back to a former release makes its own."""
    path, state = tmp_path / checkpoint.FILE_NAME, later_broker_state()
    path.write_bytes(
        checkpoint.encode(state)[:4] + version.to_bytes(4, "big") + checkpoint.encode(state)[8:]
    )
    with caplog.at_level(logging.WARNING):
        taken = checkpoint.load(
            OS_FILES, path, lambda data: AppliedState(()).restore(data, lambda *_: True)
        )
    assert taken is False
    assert "and this release knows" in caplog.text
    assert "all is derived from the log again" in caplog.text


@pytest.mark.parametrize("more", [{"version": profile.VERSION + 1}, {"shape": "x"}])
def test_a_local_cluster_of_a_later_release_is_not_to_be_purged(
    more: dict[str, Any], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    profile.save(root, profile.Profile("c", (), {}))
    path = root / "profile.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | more))
    with pytest.raises(profile.ProfileError) as refused:
        profile.load(root)
    assert "--purge" not in str(refused.value)


def test_profiles_of_a_later_release_are_not_to_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLEDGER_HOME", str(tmp_path))
    assert told("profile", "create", "prod", "--address", "127.0.0.1:9876")[0] == 0
    (path,) = (path for path in tmp_path.rglob("*.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    code, output = told("profile", "list")
    assert (code, "use the release that wrote it" in output, "delete" in output) == (1, True, False)


def test_a_state_head_of_today_is_none_of_a_later_release() -> None:
    for number in 5, 9:
        state_head.look(StateHead(5, 0, number, Sessions().dump()).pack())


@pytest.mark.parametrize("strange", ["snapshots", f"snapshots/{PLACE}.tmp"])
def test_what_others_put_among_the_states_is_no_state(
    strange: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = node_with(tmp_path, "n0", b"second")
    if strange == "snapshots":
        (folder / strange).write_text("a file")
    else:
        (folder / strange).mkdir(parents=True)
    assert inspected(folder, capsys)[:1] == (0,)
    assert told("status", folder)[0] == 0
    assert told("backup", "run", tmp_path / "place", "--folder", folder)[0] == 0
