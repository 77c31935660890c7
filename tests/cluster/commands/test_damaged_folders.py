"""Each small file of a node's folder, damaged in each way: tools and a start say the same of it.

    file × (one copy, the other, both, cut off, empty, gone, a folder) × (alone, of three)

What a start does is tried, on the same folder. No tool may write, or end with a traceback.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from cluster.commands.errors import is_expected
from commitlog.advice import Advised
from commitlog.files.system import OS_FILES
from dledger import RaftConfig
from dledger.core.configuration import of_voters
from dledger.core.types import Index, NodeId, Term
from dledger.durable.identity import Identity
from dledger.log.node_storage import format_node, open_node
from dledger.machine.keeping import behind
from dledger.membership.generation import Generation
from dledger.membership.generations import Generations
from dledger.membership.incarnations import KnownPeers
from dledger.membership.members import encode_configuration
from dledger.runtime.folder_check import Start
from dledger.runtime.opening import open_folder
from dledger.snapshots.snapshot_files import SnapshotFolder
from tests.cluster.commands.test_later_versions import bytes_in
from tests.dledger.log.stores import Clock, mark, sync
from tests.dledger.machine.test_saving import Lines

FILE_SIZE = 4096
ALONE, OF_THREE = ("n0",), ("n0", "n1", "n2")
STARTS = "logstart", "logstart.bak"
TWICE = "hardstate", "flushmark", "truncate", *STARTS, "configurations", "generations"
SMALL = ("identity", *TWICE, "peers.json")
WRITTEN = "currterm", "checkpoint", "lock"


def config_of(folder: Path, voters: tuple[str, ...]) -> RaftConfig:
    peers = {name: ("127.0.0.1", 1 + number) for number, name in enumerate(voters)}
    sizes: dict[str, Any] = {"data_file_size": FILE_SIZE, "index_file_size": 2048}
    return RaftConfig("n0", peers, folder, cluster_id="c", group="g", entry_size_max=1024, **sizes)


def made(folder: Path, voters: tuple[str, ...], *, group: str = "g") -> Path:
    """A stopped node that has run, whose log was cut, with one of each file that there may be."""
    names = tuple(map(NodeId, voters))
    identity = Identity("c", group, NodeId("n0"), FILE_SIZE, 2048, voters=names)
    format_node(folder, identity, incarnation=1)
    clock = Clock()
    node = open_node(folder, cluster_id="c", group=group, node_id="n0", clock=clock)
    for _ in range(3):
        clock.now += 10
        node.log.append([b"x" * 500] * 8, Term(1))
        sync(node.log)
        node.log.save_commit(node.log.last.index)
        mark(node.log)
    start = node.log.start_at(FILE_SIZE, encode_configuration(of_voters(names)).decode())
    states = SnapshotFolder(OS_FILES, folder)
    states.save(start, b"[7, 70]")
    states.save_recent(behind(node.log, int(node.log.last.index)), b"[9, 90]")
    task = node.log.begin_trim(start)
    assert task is not None
    task.run()
    node.log.finish_trim(task)
    node.close()
    config = replace(config_of(folder, voters), group=group)
    open_folder(config, Lines()).close(False)  # type: ignore[arg-type]
    for peer in voters[1:] or ("n9",):  # one that was removed since
        assert KnownPeers(OS_FILES, folder).vouch(NodeId(peer), 5) is None
        generations = Generations(OS_FILES, folder, NodeId("n0"))
        generations.remember(NodeId(peer), 5, Generation(1, 2))
        generations.write(generations.capture(generations.current.number))
    return folder


@pytest.fixture(scope="module", params=[ALONE, OF_THREE], ids=["alone", "of three"])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, tuple[str, ...]]:
    return made(tmp_path_factory.mktemp("whole") / "n0", request.param), request.param


def flipped(*shares: float) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        data = bytearray(path.read_bytes())
        for place in {int(len(data) * share) + 9 if len(data) > 20 else 0 for share in shares}:
            data[place] ^= 0x10
        path.write_bytes(data)

    return harm


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def file_instead(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def a_byte_less(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


HARMS: dict[str, Callable[[Path], None]] = {
    "one copy": flipped(0),
    "other copy": flipped(0.5),
    "both copies": flipped(0, 0.5),
    "half": half,
    "a byte less": a_byte_less,
    "empty": empty,
    "gone": Path.unlink,
    "a folder": folder_instead,
}
#: Also started without, and then refused by peers, which a start alone does not show.
REFUSED_BY_PEERS = ("generations", "gone")


def told(*words: object) -> tuple[int, str, str]:
    """As at a shell. Fails on a traceback: an error that is no sentence of ours."""
    found = CliRunner().invoke(dledger, [*map(str, words)])
    error = found.exception
    if error is not None and not isinstance(error, SystemExit):
        assert is_expected(error), f"{words}: {error!r}"
        return found.exit_code, found.stdout, f"{found.stderr}{error}"
    return found.exit_code, found.stdout, found.stderr


def started(folder: Path, voters: tuple[str, ...]) -> Start:
    """What becomes of a node on a copy of the folder."""
    copy = folder.with_name("started")
    shutil.copytree(folder, copy)
    try:
        parts = open_folder(config_of(copy, voters), Lines())  # type: ignore[arg-type]
        forgot = parts.hard.state.forgot
        parts.close(False)
    except (OSError, Advised):
        return Start.REFUSED
    finally:
        shutil.rmtree(copy)
    return Start.ANEW if forgot else Start.AS_BEFORE


def judged(folder: Path) -> tuple[int, dict[str, Any], str]:
    """Exit code, row of `status`, words of `inspect`; the tools agree, and write nothing."""
    before = bytes_in(folder)
    code, _, said = told("inspect", folder)
    text = told("verify", folder)[1]
    verify_code, out, _ = told("verify", folder, "-o", "json")
    (verified,) = json.loads(out)
    status_code, out, _ = told("status", folder, "-o", "json")
    (row,) = json.loads(out)
    assert code == verify_code == status_code, (said, verified, row)
    assert verified["start"] == row["start"]
    assert (code == 1) == bool(row["damage"]) == (row["disk"] != "good") == bool(verified["reason"])
    assert verified["damaged_at"] is None or "data" in row["disk"], "its entries are whole"
    for path, reason in row["damage"].items():
        assert f"damaged: {path}: {reason}" in said
        assert reason in verified["reason"]
    assert ("it does not start" in text) == (row["start"] == Start.REFUSED.value)
    assert ("repair themselves" in text) is False
    assert told("backup", "run", folder.with_name("place"), "--folder", folder)[0] in (0, 1)
    assert bytes_in(folder) == before
    return code, row, said


def check(folder: Path, voters: tuple[str, ...], name: str, harm: str) -> None:
    code, row, said = judged(folder)
    start = Start.ANEW if (name, harm) == REFUSED_BY_PEERS else started(folder, voters)
    assert (row["start"], harm) == (start.value, harm), said
    assert code == 1 or start is Start.AS_BEFORE
    if harm in ("one copy", "other copy") and name in TWICE:
        assert (code, said.count("note: ")) == (0, 1), "the other copy counts, and that is told"
    if harm in ("both copies", "empty") and name in STARTS:
        assert (code, said.count("note: "), row["disk"]) == (0, 1, "good"), "the other file counts"
    elif harm in ("both copies", "empty") and name in SMALL:
        assert (code, row["disk"]) == (1, f"lost: {name}")


@pytest.mark.parametrize("name", [*SMALL, *WRITTEN])
def test_tools_and_a_start_agree(
    name: str, whole: tuple[Path, tuple[str, ...]], tmp_path: Path
) -> None:
    source, voters = whole
    for harm, do in HARMS.items():
        folder = tmp_path / harm.replace(" ", "-") / "n0"
        shutil.copytree(source, folder)
        do(folder / name)
        check(folder, voters, name, harm)


@pytest.mark.parametrize("second", ["gone", "both copies", "one copy"])
def test_both_files_of_the_beginning_are_damaged(
    second: str, whole: tuple[Path, tuple[str, ...]], tmp_path: Path
) -> None:
    """Without a whole copy no node starts: it knows neither its first entries nor its group."""
    source, voters = whole
    for harm, do in HARMS.items():
        folder = tmp_path / harm.replace(" ", "-") / "n0"
        shutil.copytree(source, folder)
        HARMS[second](folder / "logstart.bak")
        do(folder / "logstart")
        code, row, said = judged(folder)
        start = started(folder, voters)
        assert (row["start"], harm) == (start.value, harm), said
        no_copy = second != "one copy" and harm in ("both copies", "empty", "gone")
        refused = no_copy or harm == "a folder"
        assert (start is Start.REFUSED, code) == (refused, int(refused)), (harm, said)
        assert not refused or row["disk"] == "lost: logstart"


@pytest.mark.parametrize("name", ["index", "staging", "data"])
def test_folders_that_are_none(
    name: str, whole: tuple[Path, tuple[str, ...]], tmp_path: Path
) -> None:
    source, voters = whole
    for harm, do in ("a file", file_instead), ("gone", shutil.rmtree), ("stray", None):
        folder = tmp_path / harm.replace(" ", "-") / "n0"
        shutil.copytree(source, folder)
        if do is not None:
            do(folder / name)
        elif name == "staging":
            (folder / name / "stray").write_text("left by a process that was killed")
        else:
            (folder / name / "stray").mkdir()
        check(folder, voters, name, harm)


def test_a_whole_node_is_called_that(whole: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    source, voters = whole
    folder = Path(shutil.copytree(source, tmp_path / "n0"))
    code, row, said = judged(folder)
    assert (code, row["disk"], said) == (0, "good", "")
    assert started(folder, voters) is Start.AS_BEFORE
    shutil.copyfile(__file__, folder / "notes.txt")
    (folder / "mine").mkdir()
    assert judged(folder) == (0, row, ""), "files of others beside it are nobody's business"


def test_a_log_that_is_empty_behind_a_state_is_whole(
    whole: tuple[Path, tuple[str, ...]], tmp_path: Path
) -> None:
    """A node took a leader's state and was stopped before the next entry."""
    source, voters = whole
    folder = Path(shutil.copytree(source, tmp_path / "n0"))
    node = open_node(folder, cluster_id="c", group="g", node_id="n0", clock=Clock())
    assert node.log.start is not None
    index = Index(node.log.last.index + 50)
    start = replace(node.log.start, index=index, position=9 * FILE_SIZE, end=9 * FILE_SIZE - 40)
    SnapshotFolder(OS_FILES, folder).save(start, b"[9, 90]")
    node.log.restart_at(start)
    node.close()
    code, row, said = judged(folder)
    assert (code, row["disk"], row["committed"], said) == (0, "good", index, "")
    assert started(folder, voters) is Start.AS_BEFORE
    for name, damaged in zip(STARTS, (0, 1), strict=True):
        (folder / name).unlink()
        assert told("verify", folder)[0] == told("inspect", folder)[0] == damaged
        assert (started(folder, voters) is Start.REFUSED) == bool(damaged)


@pytest.mark.parametrize("name", ["first", "recent"])
def test_a_state_that_cannot_be_read_is_told(
    name: str, whole: tuple[Path, tuple[str, ...]], tmp_path: Path
) -> None:
    """By those that read the states; `status` reads small files alone."""
    source, _ = whole
    for harm in HARMS:
        if (name, harm) == ("recent", "gone"):
            continue  # a node may have none
        folder = tmp_path / harm.replace(" ", "-") / "n0"
        shutil.copytree(source, folder)
        path = folder / "snapshots" / (f"{FILE_SIZE:020}" if name == "first" else name)
        HARMS[harm](path)
        before = bytes_in(folder)
        code, _, said = told("inspect", folder)
        assert (code, "damaged: " in said and "state" in said) == (1, True), (harm, said)
        code, out, _ = told("verify", folder, "-o", "json")
        (row,) = json.loads(out)
        assert (code, row["damaged_at"], row["states_damaged"]) == (1, None, 1), harm
        assert told("status", folder)[0] == 0
        assert told("backup", "run", tmp_path / harm / "place", "--folder", folder)[0] in (0, 1)
        assert bytes_in(folder) == before


def test_a_lone_voter_is_not_told_to_ask_its_peers(tmp_path: Path) -> None:
    for voters, advice in (ALONE, "restore it from a backup"), (OF_THREE, "repair themselves"):
        folder = made(tmp_path / str(len(voters)) / "n0", voters)
        path = max((folder / "data").iterdir())
        path.write_bytes(path.read_bytes().replace(b"xxxx", b"xxyx", 1))
        code, out, _ = told("verify", folder)
        assert (code, advice in out) == (1, True), out
        path.unlink()
        assert told("verify", folder)[0] == told("inspect", folder)[0] == 1
        assert started(folder, voters) is (Start.REFUSED if voters == ALONE else Start.AS_BEFORE)


def test_a_group_of_a_host_that_lost_its_identity_is_not_passed_over(tmp_path: Path) -> None:
    """Formatted, and never opened: that is no node, and no tool speaks of it."""
    host = tmp_path / "host"
    for name in "orders", "prices":
        made(host / name, ALONE)
    format_node(host / "begun", Identity("c", "g", NodeId("n0")), incarnation=1)
    (host / "begun" / "identity").unlink()
    for harm in Path.unlink, lambda path: path.mkdir():
        harm(host / "orders" / "identity")
        rows = json.loads(told("status", host, "-o", "json")[1])
        assert [Path(row["folder"]).name for row in rows] == ["orders", "prices"]
        assert [row["start"] for row in rows] == [Start.REFUSED.value, Start.AS_BEFORE.value]
        code, out, said = told("inspect", host)
        assert (code, out.count("whole"), str(host / "orders" / "identity") in said) == (1, 1, True)
        assert told("verify", host)[0] == 1


def test_a_node_that_waits_to_be_readmitted_is_told(tmp_path: Path) -> None:
    folder = made(tmp_path / "n0", OF_THREE)
    (folder / "hardstate").unlink()
    open_folder(config_of(folder, OF_THREE), Lines()).close(False)  # type: ignore[arg-type]
    code, row, said = judged(folder)
    assert (code, row["start"], "readmit" in said) == (1, Start.ANEW.value, True)
    assert started(folder, OF_THREE) is Start.ANEW
