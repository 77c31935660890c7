"""`dledger backup run --folder` and `dledger restore --into`, for programs that embed dledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from dledger import RaftConfig, ReplicatedNode, WrongIdentity
from dledger.objects.counter import ReplicatedCounter
from tests.dledger.machine.hostile_names import HOSTILE
from tests.dledger.machine.test_saving import FILE, PAYLOAD, Lines, fill_until, lines
from tests.waiting import eventually, within

from .embedded_program import started


def run(*arguments: object) -> tuple[int, str, str]:
    found = CliRunner().invoke(dledger, [*map(str, arguments)])
    return found.exit_code, found.stdout, found.stderr


def rows(*arguments: object) -> list[dict[str, Any]]:
    code, out, err = run(*arguments, "-o", "json")
    assert code == 0, err
    return list(json.loads(out))


async def test_a_process_that_runs_is_copied_and_restored_as_a_new_group(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    """Killed after that; the copy has all that it had committed, and another cluster's name."""
    address, place = new_address(), tmp_path / "place"
    process = started(tmp_path / "old", address)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"20\n"

        def copied() -> bool:
            (row,) = rows("backup", "run", place, "--folder", tmp_path / "old")
            return bool(row["to_index"] >= 21)

        await eventually(copied, "a backup with all that is committed", 60)
    finally:
        process.kill()
        process.communicate()
    (row,) = rows("backup", "verify", place)
    assert row["whole"] == "yes"
    new = tmp_path / "new"
    (row,) = rows("restore", place, "--into", new, "--yes")
    assert row["cluster_id"] != "old"
    config = RaftConfig("n0", {"n0": (address, 20911)}, new, cluster_id=row["cluster_id"])
    with pytest.raises(WrongIdentity):
        await ReplicatedCounter(replace(config, cluster_id="old")).node.start()
    async with ReplicatedCounter(config) as counter:
        assert await within(counter.add(1), "a total") == 21
    code, _, err = run("restore", place, "--into", new, "--yes")
    assert (code, "is in use" in err) == (2, True)


async def test_a_log_that_was_cut_is_restored_with_its_state_for_three_members(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    peers = {name: (new_address(), 20911) for name in ("n0", "n1", "n2")}
    small = RaftConfig(
        "n0",
        {"n0": peers["n0"]},
        tmp_path / "old",
        cluster_id="old",
        data_file_size=FILE,
        entry_size_max=FILE // 4,
    )
    async with ReplicatedNode(small, Lines(), create=True) as node:
        total = await fill_until(node, lambda: node.log.store.first_index > 60, "a shorter log")
    place = tmp_path / "place"
    (row,) = rows("backup", "run", place, "--folder", tmp_path / "old")
    assert row["entries"] < row["to_index"]
    names = [word for name in peers for word in ("--member", name)]
    made = rows("restore", place, "--into", tmp_path / "new", *names, "--yes")
    assert [one["node"] for one in made] == list(peers)
    assert len({one["checksum"] for one in made}) == 1
    nodes = [
        ReplicatedNode(
            replace(
                small,
                node_id=one["node"],
                peers=peers,
                data_dir=Path(one["into"]),
                cluster_id=one["cluster_id"],
            ),
            Lines(),
        )
        for one in made
    ]
    for one in nodes:
        await one.start()
    assert await within(nodes[1].propose("last"), "a result") == total + 1
    assert lines(nodes[1]).size == total * len(PAYLOAD) + 4
    assert lines(nodes[1]).restored == 1
    for one in nodes:
        await one.close()


def test_sources_and_targets_that_exclude_each_other_are_told(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("")
    code, _, err = run("backup", "run", tmp_path / "p", "--folder", tmp_path, "--node", file)
    assert (code, "two sources" in err) == (2, True)
    code, _, err = run("backup", "run", tmp_path / "p", "--folder", tmp_path)
    assert (code, "is no folder of a node" in err) == (3, True)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", HOSTILE)
async def test_no_folder_is_made_beside_the_new_one(
    tmp_path: Path, new_address: Callable[[], str], name: str
) -> None:
    config = RaftConfig("n0", {"n0": (new_address(), 20911)}, tmp_path / "old", cluster_id="old")
    async with ReplicatedCounter(config, create=True) as counter:
        await counter.add(1)
    rows("backup", "run", tmp_path / "place", "--folder", tmp_path / "old")
    before = names_in(tmp_path)
    code, _, err = run(
        *("restore", tmp_path / "place", "--into", tmp_path / "new"),
        *("--member", "n0", f"--member={name}", "--yes"),
    )
    told = "can be no folder's" in err or "must have 1 to 255 bytes and no '-'" in err
    assert (code, told) == (2, True), err
    assert names_in(tmp_path) == before


def refused(*arguments: object) -> tuple[int, str, str]:
    """As `run`, with the error that the command's `main` prints."""
    found = CliRunner().invoke(dledger, [*map(str, arguments)])
    return found.exit_code, found.stdout, str(found.exception)


async def test_a_restore_that_cannot_be_done_says_so_also_without_yes_and_makes_nothing(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    config = RaftConfig("n0", {"n0": (new_address(), 20911)}, tmp_path / "old", cluster_id="old")
    async with ReplicatedCounter(config, create=True) as counter:
        await counter.add(1)
    place = tmp_path / "place"
    (row,) = rows("backup", "run", place, "--folder", tmp_path / "old")
    before = names_in(tmp_path)
    for where in ("--into", "--root"):
        for more in (), ("--yes",):
            wanted = "--to-index", row["to_index"] + 1
            code, out, err = refused("restore", place, where, tmp_path / "new", *wanted, *more)
            assert (code, out, "name one of them" in err) == (1, "", True), err
            assert names_in(tmp_path) == before
    (piece,) = (place / "default" / "log").iterdir()
    data = piece.read_bytes()
    piece.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    for where in (("--into",), ("--member", "a", "--member", "b", "--into"), ("--root",)):
        code, _, err = refused("restore", place, *where, tmp_path / "new", "--yes")
        assert (code, "does not have the bytes" in err) == (1, True), err
        assert names_in(tmp_path) == before
    piece.write_bytes(data)
    rows("restore", place, "--into", tmp_path / "new", "--yes")
