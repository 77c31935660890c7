"""`dledger backup run --folder` of nodes that do not say what is committed: blocked, or killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from cluster.commands import embedded_backup
from dledger.core.types import Index, NodeId, Term
from dledger.durable.identity import Identity
from dledger.log.node_storage import NodeStorage, format_node, open_node
from tests.waiting import eventually, limit

from .embedded_program import started


def backed_up(place: Path, *folders: Path) -> tuple[dict[str, Any], str]:
    named = [word for folder in folders for word in ("--folder", str(folder))]
    found = CliRunner().invoke(dledger, ["backup", "run", str(place), *named, "-o", "json"])
    assert found.exit_code == 0, found.stderr
    (row,) = json.loads(found.stdout)
    return row, found.stderr


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeStorage]:
    """Open, with entries 0 to 4 on disk, of which none is known to be committed."""
    identity = Identity("c", "g", NodeId("n0"), data_file_size=16_384, index_file_size=2048)
    format_node(tmp_path / "n0", identity, incarnation=1)
    made = open_node(tmp_path / "n0", cluster_id="c", group="g", node_id="n0", clock=lambda: 0.0)
    made.log.append([b"%d" % number for number in range(5)], Term(1))
    task = made.log.begin_sync()
    assert task is not None
    task.run()
    made.log.finish_sync(task)
    yield made
    made.close()


def say_committed(node: NodeStorage, index: int) -> None:
    """As the event loop does, within 0.1 s; no other file is written."""
    node.log.save_commit(Index(index))
    node.log.flush.mark_now()
    task = node.log.begin_mark()
    assert task is not None
    task.run()
    node.log.finish_mark(task)


def test_what_is_not_known_to_be_committed_is_told_and_not_copied(
    node: NodeStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_backup, "WAIT_SECONDS", 0.1)
    say_committed(node, 1)
    row, err = backed_up(tmp_path / "place", tmp_path / "n0")
    assert (row["to_index"], row["not_known_entries"]) == (1, 3)
    assert "group g: copied up to entry 1; 2 to 4 are in the log of" in err
    assert "has not said so for 0.1 s, as it is busy or has no majority" in err
    say_committed(node, 4)
    row, err = backed_up(tmp_path / "place", tmp_path / "n0")
    assert (row["to_index"], row["not_known_entries"], row["added_entries"], err) == (4, 0, 3, "")


def test_a_node_that_says_so_in_time_is_copied_whole(
    node: NodeStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say_committed(node, 1)
    monkeypatch.setattr(embedded_backup.time, "sleep", lambda _: say_committed(node, 4))
    row, err = backed_up(tmp_path / "place", tmp_path / "n0")
    assert (row["to_index"], row["not_known_entries"], row["added_entries"], err) == (4, 0, 5, "")


def test_of_a_node_that_was_killed_no_word_is_waited_for(node: NodeStorage, tmp_path: Path) -> None:
    say_committed(node, 1)
    node.close(failed=True)
    (tmp_path / "n0" / "checkpoint").unlink(missing_ok=True)
    row, err = backed_up(tmp_path / "place", tmp_path / "n0")
    assert (row["to_index"], row["not_known_entries"]) == (1, 3)
    assert "its program has stopped without a word of them; start it, then run this again" in err


async def test_a_program_whose_event_loop_is_blocked_is_copied_or_told(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    """21 entries were acknowledged, the last one just before it was blocked."""
    process = started(tmp_path / "n0", new_address(), blocked=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"20\n"
        row, err = backed_up(tmp_path / "place", tmp_path / "n0")
        assert row["to_index"] + row["not_known_entries"] >= 21
        assert ("not known to be committed" in err) is (row["not_known_entries"] > 0)
        process.stdin.write(b"\n")
        process.stdin.flush()

        def is_whole() -> bool:
            row, err = backed_up(tmp_path / "place", tmp_path / "n0")
            return (row["to_index"] >= 21, row["not_known_entries"], err) == (True, 0, "")

        await eventually(is_whole, "a backup with all of it", limit(30))
    finally:
        process.kill()
        process.communicate()
