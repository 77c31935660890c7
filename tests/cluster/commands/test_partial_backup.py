"""`dledger backup run` where one group of several cannot be read: the others are copied."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.backup.errors import PlaceFailed
from cluster.commands.backup_failures import Failed, SomeFailed, raise_failed
from dledger.errors import LogDamaged

from .test_damaged_folders import ALONE, empty, flipped, made, told


def damaged_entry(folder: Path) -> None:
    path = min((folder / "data").iterdir())
    path.write_bytes(path.read_bytes().replace(b"xxxx", b"xxyx", 1))


#: Noticed when the folder is opened, when its log is read, and when how far it is committed is.
HARMS: dict[str, Callable[[Path], None]] = {
    "identity": lambda folder: flipped(0)(folder / "identity"),
    "no identity": lambda folder: (folder / "identity").unlink(),
    "logstart": lambda folder: [empty(folder / name) for name in ("logstart", "logstart.bak")],
    "state": lambda folder: shutil.rmtree(folder / "snapshots"),
    "entry": damaged_entry,
    "flushmark": lambda folder: ((folder / "flushmark").unlink(), (folder / "flushmark").mkdir())[
        1
    ],
}


@pytest.mark.parametrize("harm", HARMS)
def test_the_other_groups_of_a_host_are_copied(harm: str, tmp_path: Path) -> None:
    host, place = tmp_path / "host", tmp_path / "place"
    for name in "first", "second", "third":
        made(host / name, ALONE, group=name)
    HARMS[harm](host / "first")
    HARMS[harm](host / "third")
    code, out, said = told("backup", "run", place, "--folder", host, "-o", "json")
    rows = json.loads(out)
    assert (code, [row["group"] for row in rows]) == (1, ["second"])
    assert "2 of 3 groups were not copied" in said
    assert said.index(str(host / "first")) < said.index(str(host / "third"))
    (row,) = json.loads(told("backup", "verify", place, "-o", "json")[1])
    assert (row["group"], row["whole"]) == ("second", "yes")
    again = json.loads(told("backup", "run", place, "--folder", host, "-o", "json")[1])
    assert [row["added_entries"] for row in again] == [0]


def test_folders_that_may_not_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a group is told, and the others are copied; that of a mounted disk is no group's."""
    host, exists = tmp_path / "host", Path.exists
    made(host / "second", ALONE, group="second")
    closed = host / "first", host / "lost+found"
    for folder in closed:
        folder.mkdir()

    def refuse(path: Path) -> bool:
        if path.parent in closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refuse)
    code, out, said = told("backup", "run", tmp_path / "place", "--folder", host, "-o", "json")
    assert (code, [row["group"] for row in json.loads(out)]) == (1, ["second"])
    assert ("1 of 2 groups were not copied" in said, str(host / "first") in said) == (True, True)
    closed[0].rmdir()
    for tool in "inspect", "verify", "status":
        assert told(tool, host)[0] == 0
    assert told("backup", "run", tmp_path / "place", "--folder", host)[0] == 0


@pytest.mark.parametrize("harm", ["entry", "state"])
def test_another_replica_is_copied_if_the_furthest_one_cannot_be(harm: str, tmp_path: Path) -> None:
    furthest, other = made(tmp_path / "n0", ALONE), made(tmp_path / "n1", ALONE)
    HARMS[harm](furthest)
    folders = "--folder", furthest, "--folder", other
    code, out, said = told("backup", "run", tmp_path / "place", *folders, "-o", "json")
    assert (code, "the next replica of its group is taken" in said) == (0, True), said
    (row,) = json.loads(out)
    assert row["to_index"] == 23
    HARMS[harm](other)
    code, out, said = told("backup", "run", tmp_path / "another", *folders)
    assert (code, out, str(other) in said) == (1, "", True)


def test_a_group_that_cannot_be_read_ends_no_backup_that_goes_on() -> None:
    """With `--every` what may be retried is told, and the next round follows."""
    damaged = Failed(("a",), LogDamaged("it is damaged; look"))
    away = Failed(("b",), PlaceFailed("it is away"))
    raise_failed([], 3)
    with pytest.raises(LogDamaged):
        raise_failed([damaged], 0)
    with pytest.raises(SomeFailed, match="1 of 3 groups were not copied: a: it is damaged") as one:
        raise_failed([damaged], 2)
    assert one.value.retriable
    assert SomeFailed([away, away], 0).retriable
    assert not SomeFailed([away, damaged], 0).retriable
