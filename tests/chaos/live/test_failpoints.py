"""The list of failpoints is complete: compared with the code that writes and sends.

Who adds a file, a way to change files, or a message, sees a test here fail until it has its points.
"""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from chaos.live import failpoint_names as names
from chaos.live import failpoints
from commitlog.files.system import File, FileSystem
from dledger.core import messages
from tests.waiting import limit

ROOT = Path(__file__).parents[3]

#: Constants that name files which no running node writes, and whose they are.
OTHERS = {
    "leaders.json": "of leaders that were seen; one that is wrong, or absent, is passed over",
    "kvConfig.json": "the name server's",
    "used-seals": "the name server's",
    "MANIFEST.json": "of a backup, which no node writes",
    "timercheck": "of a store that is moved to RocketMQ",
    "lock": "never written again; its content means nothing",
}
READING = {
    *("open", "read", "exists", "is_dir", "file_size", "modified_at", "folders", "file_sizes"),
    *("list", "usage", "pread", "view", "next_data", "path", "size", "close"),
    "allocated",
}
#: Ways to change files that have no points of their own, and why not.
UNPOINTED = {
    "make_dirs": "an empty folder is nothing; its parent's sync is a point",
    "remove_dir": "of queues of a deleted topic, which are empty then",
    "rename": "of configuration files of plain stores only: no node has them",
    "lock": "holds nothing",
    "allocate": "blocks without content: what was written says what the log holds",
    "allocate_range": "the same, of queues and the key index",
}


def file_names() -> Iterator[tuple[str, str]]:
    """(where, name) of every module constant that names a file."""
    for package in ("commitlog", "dledger", "cluster"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                targets = node.targets if isinstance(node, ast.Assign) else []
                if isinstance(node, ast.AnnAssign):
                    targets = [node.target]
                wanted = [t.id for t in targets if isinstance(t, ast.Name)]
                value = getattr(node, "value", None)
                if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
                    continue
                if any(name in ("FILE_NAME", "LOCK_NAME", "NAME") for name in wanted):
                    yield str(path.relative_to(ROOT)), value.value


def test_every_file_that_has_a_name_has_points() -> None:
    found = dict(file_names())
    assert len(found) >= 12
    known = {*names.NAMED, *names.FORMATTED, *OTHERS}
    assert {where: name for where, name in found.items() if name not in known} == {}
    assert set(OTHERS) | set(names.FORMATTED) <= set(found.values())  # no stale reason


def test_every_way_to_change_files_has_points() -> None:
    """As methods of the two ports; what is patched is what the points say."""
    ports = {name for port in (File, FileSystem) for name in vars(port) if name[0] != "_"}
    source = inspect.getsource(failpoints)
    patched = {name for name in ports if f'"{name}", ' in source}
    assert patched == {
        *("pwrite", "pwritev", "datasync", "create", "write_atomic", "remove", "sync_dir")
    }
    assert ports == patched | READING | set(UNPOINTED)


def test_every_message_has_points() -> None:
    kinds = {
        one.__name__
        for one in vars(messages).values()
        if inspect.isclass(one) and one.__module__ == messages.__name__
    }
    assert kinds == {one.__name__ for one in get_args(messages.Message)}
    assert kinds == {*names.MESSAGES, *names.UNSENT}
    for kind in names.MESSAGES:
        assert {f"send.{kind}.before", f"send.{kind}.after"} <= set(names.NAMES)


def test_names_are_many_and_each_is_one() -> None:
    assert len(names.NAMES) == len(set(names.NAMES)) > 100


DEEDS = """
import sys
from pathlib import Path
from chaos.live.failpoints import Failpoint
from commitlog.files.system import OS_FILES, OsFile
folder = Path(sys.argv[1])
log = folder / "dledger-n0"
(log / "data").mkdir(parents=True)
(log / "staging").mkdir()
file = OS_FILES.create(log / "data" / "00", 4096, staging=log / "staging")
Failpoint(sys.argv[2], int(sys.argv[3]), folder).arm()
file.pwrite(b"x" * 100, 0)
file.pwritev([b"y" * 50, b"z" * 50], 100)
file.datasync()
OS_FILES.write_atomic(log / "gone", b"[1, 2, 3]", staging=log / "staging")
OS_FILES.create(log / "data" / "01", 4096, staging=log / "staging")
OS_FILES.remove(log / "data" / "01")
OS_FILES.sync_dir(log / "data")
"""


def after(folder: Path, name: str, passing: int = 0) -> tuple[int, Path]:
    """Exit code of a process that does each deed once and dies at `name`, and its log folder."""
    done = subprocess.run(
        [sys.executable, "-c", DEEDS, str(folder), name, str(passing)],
        cwd=ROOT,
        timeout=limit(60),
    )
    return done.returncode, folder / "dledger-n0"


def test_a_write_dies_before_inside_and_after(tmp_path: Path) -> None:
    for moment, size in (("before", 0), ("torn", 50), ("after", 100)):
        code, log = after(tmp_path / moment, f"data.write.{moment}")
        assert code == -9
        assert (tmp_path / moment / failpoints.HIT_FILE).read_text() == f"data.write.{moment}"
        assert len((log / "data" / "00").read_bytes().rstrip(b"\0")) == size


def test_of_several_parts_half_the_bytes_are_written(tmp_path: Path) -> None:
    code, log = after(tmp_path, "data.write.torn", 1)
    assert code == -9
    assert (log / "data" / "00").read_bytes().rstrip(b"\0") == b"x" * 100 + b"y" * 50


def test_a_replacement_dies_before_inside_and_after(tmp_path: Path) -> None:
    for moment in ("before", "torn", "after"):
        code, log = after(tmp_path / moment, f"gone.replace.{moment}")
        assert code == -9
        assert (log / "gone").exists() is (moment == "after")
        assert (log / "staging" / "gone.tmp").exists() is (moment == "torn")


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("data.sync.after", ["00"]),
        ("data.create.before", ["00"]),
        ("data.create.after", ["00", "01"]),
        ("data.remove.before", ["00", "01"]),
        ("data.remove.after", ["00"]),
        ("data.list.after", ["00", "01"]),  # first as the file is made
    ],
)
def test_names_come_and_go_around_the_death(tmp_path: Path, name: str, there: list[str]) -> None:
    code, log = after(tmp_path, name)
    assert code == -9
    assert sorted(path.name for path in (log / "data").iterdir()) == there


def test_without_a_name_what_is_passed_is_written_down(tmp_path: Path) -> None:
    code, _ = after(tmp_path, "")
    assert code == 0
    passed = (tmp_path / failpoints.PASSED_FILE).read_text().split()
    assert set(passed) <= set(names.NAMES)
    assert {"data.write.torn", "gone.replace.after", "data.remove.before"} <= set(passed)


def test_a_send_tells_what_was_said(tmp_path: Path) -> None:
    reply = messages.VoteReply("n0", 3, 3, granted=True, pre=False)  # type: ignore[arg-type]
    assert failpoints._plain(reply)["granted"] is True
    assert json.loads(json.dumps(failpoints._plain(reply)))["request_term"] == 3


def test_an_unknown_failpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no failpoint"):
        failpoints.Failpoint("data.write.later", 0, tmp_path)
