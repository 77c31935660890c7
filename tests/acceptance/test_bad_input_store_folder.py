"""A node's folder that was touched from outside, or whose disk says no."""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from commitlog.records.record import MAGIC_ENTRY
from dledger.durable.double_slot import SLOT_SIZE, decode_slot

from .conftest import MESSAGES, TOPIC, body_of
from .frames import pull_fields, raw, send_fields
from .node_process import DATA_FILE_SIZE, NodeProcess, dledger

FAILED = 1
Break = Callable[[NodeProcess], None]


def data_file(node: NodeProcess, number: int) -> Path:
    return node.log / "data" / f"{number * DATA_FILE_SIZE:020}"


def flip(path: Path, at: int) -> None:
    """One byte of a file turned over."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes((byte ^ 0xFF,)))


def find(path: Path, wanted: bytes) -> int:
    at = path.read_bytes().find(wanted)
    assert at >= 0
    return at


def shorter(node: NodeProcess) -> None:
    os.truncate(data_file(node, 1), DATA_FILE_SIZE - 4096)


def longer(node: NodeProcess) -> None:
    with data_file(node, 0).open("ab") as file:
        file.write(b"more")


def stray(node: NodeProcess) -> None:
    (node.log / "data" / "notes.txt").write_text("not ours")


def stray_number(node: NodeProcess) -> None:
    (node.log / "data" / f"{12345:020}").write_bytes(bytes(DATA_FILE_SIZE))


def gone_in_the_middle(node: NodeProcess) -> None:
    data_file(node, 1).unlink()


def no_hard_state(node: NodeProcess) -> None:
    (node.log / "hardstate").unlink()


def no_flush_mark(node: NodeProcess) -> None:
    (node.log / "flushmark").write_bytes(b"")


def no_identity(node: NodeProcess) -> None:
    (node.log / "identity").unlink()


def rotten_identity(node: NodeProcess) -> None:
    flip(node.log / "identity", 20)


def all_data_gone(node: NodeProcess) -> None:
    for path in (node.log / "data").iterdir():
        path.unlink()


def damaged_end(node: NodeProcess) -> None:
    """The last acknowledged message: below the flush mark, so no torn tail."""
    flip(data_file(node, 2), find(data_file(node, 2), body_of(MESSAGES - 1)[:64]))


SLOT_FILES = ("hardstate", "flushmark", "truncate")


def slot_values(node: NodeProcess) -> list[bytes]:
    """What the files of two slots say; the slots are written again, with that, at every start."""
    values = []
    for path in (node.log / name for name in SLOT_FILES):
        data = path.read_bytes() if path.exists() else b""
        slots = [decode_slot(data[at : at + SLOT_SIZE]) for at in (0, SLOT_SIZE)]
        values.append(max((slot for slot in slots if slot), default=(0, data))[1])
    return values


def untouched(node: NodeProcess) -> dict[str, str]:
    """Hashes of everything but the files of two slots and the marks of a living process."""
    apart = {"abort", "abort.bak", *(f"dledger-n0/{name}" for name in SLOT_FILES)}
    return {name: sha for name, sha in node.hashes(node.root).items() if name not in apart}


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (shorter, rf"data/0*{DATA_FILE_SIZE}\b.*{DATA_FILE_SIZE - 4096}"),
        (longer, rf"data/0+\b.*{DATA_FILE_SIZE + 4}"),
        (stray, r"data/notes\.txt"),
        (stray_number, r"data.*0*12345"),
        (gone_in_the_middle, r"data.*0*1048576"),
        (no_hard_state, r"hardstate|hard state"),
        (no_flush_mark, r"flush mark|flushmark"),
        (no_identity, r"never formatted|formatted"),
        (rotten_identity, r"identity"),
        (all_data_gone, r"files are gone"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_node_refuses_and_touches_nothing(damage: Break, where: str, node: NodeProcess) -> None:
    damage(node)
    before, values = untouched(node), slot_values(node)
    ended = node.fails()
    assert ended.code == FAILED, ended.text
    assert re.search(where, ended.sentence), ended.text
    assert "Traceback" not in ended.text
    assert untouched(node) == before
    assert slot_values(node) == values


def test_a_damaged_end_is_said_and_neither_served_nor_cut_off(node: NodeProcess) -> None:
    """A node alone has nobody to mend it from: that message is refused, the rest goes on."""
    damaged_end(node)
    written = data_file(node, 2).read_bytes().rstrip(b"\0")
    with node.running(), raw(node.client) as client:
        assert re.search(r"entries \d+ to \d+ are damaged on the disk", node.output())
        refused = client.ask(11, pull_fields(TOPIC, 0, MESSAGES - 1, maxMsgNums=1))
        assert refused.code != 0
        assert not refused.body
        assert re.search(r"position \d+", refused.remark or ""), refused.remark
        before = client.ask(11, pull_fields(TOPIC, 0, MESSAGES - 2, maxMsgNums=1))
        assert body_of(MESSAGES - 2) in before.body
        assert client.ask(310, send_fields(TOPIC, 1), b"still writable").code == 0
    assert "Traceback" not in node.output()
    assert data_file(node, 2).read_bytes().startswith(written)


def test_damage_in_the_middle_is_not_served_and_the_rest_is(node: NodeProcess) -> None:
    """Message 5 lies in the first file, far below the flush mark."""
    flip(data_file(node, 0), find(data_file(node, 0), body_of(5)[:64]) + 40)
    before = node.hashes(node.log / "data")
    with node.running(), raw(node.client) as client:
        for number in (4, 6, MESSAGES - 1):
            answer = client.ask(11, pull_fields(TOPIC, 0, number, maxMsgNums=1))
            assert answer.code == 0, answer.remark
            assert body_of(number) in answer.body
        refused = client.ask(11, pull_fields(TOPIC, 0, 5, maxMsgNums=1))
        assert refused.code != 0
        assert not refused.body
        assert re.search(r"position \d+", refused.remark or ""), refused.remark
        assert client.ask(310, send_fields(TOPIC, 1), b"still writable").code == 0
    after = node.hashes(node.log / "data")
    first = data_file(node, 0).name
    assert after[first] == before[first]
    seen = dledger("inspect", str(node.root), home=node.folder)
    assert seen.code == FAILED
    assert re.search(r"position \d+", seen.text), seen.text
    assert "messages        " in seen.text


def test_a_torn_tail_is_cut_and_what_was_acknowledged_stays(node: NodeProcess) -> None:
    """The power went while an entry behind the flush mark was half on disk."""
    path = data_file(node, 2)
    data = path.read_bytes()
    end = len(data.rstrip(b"\0"))
    begin = data.rfind(struct.pack(">i", MAGIC_ENTRY), 0, end)
    with path.open("r+b") as file:
        file.seek(end)
        file.write(data[begin : begin + 700])
    with node.running(), raw(node.client) as client:
        for number in range(MESSAGES):
            answer = client.ask(11, pull_fields(TOPIC, 0, number, maxMsgNums=1))
            assert body_of(number) in answer.body, answer.remark
        sent = client.ask(310, send_fields(TOPIC), b"after")
        assert (sent.code, sent.ext["queueOffset"]) == (0, str(MESSAGES))
    assert dledger("inspect", str(node.root), home=node.folder).code == 0


def no_queues(node: NodeProcess) -> None:
    shutil.rmtree(node.root / "consumequeue")
    shutil.rmtree(node.root / "index")


def no_queue_of_the_topic(node: NodeProcess) -> None:
    shutil.rmtree(node.root / "consumequeue" / TOPIC)


def junk_in_index(node: NodeProcess) -> None:
    for path in (node.root / "index").iterdir():
        path.write_bytes(b"\xff" * path.stat().st_size)


def junk_in_marks(node: NodeProcess) -> None:
    for name in ("dispatched", "state.ckpt"):
        assert (node.root / name).exists()
        (node.root / name).write_bytes(b"junk")
    (node.root / "config" / "topics.json").write_text("{ no json")


@pytest.mark.parametrize("ruin", [no_queues, no_queue_of_the_topic, junk_in_index, junk_in_marks])
def test_derived_files_are_made_anew(ruin: Break, node: NodeProcess) -> None:
    ruin(node)
    before = node.hashes(node.log / "data")
    with node.running(), raw(node.client) as client:
        for number in range(MESSAGES):
            answer = client.ask(11, pull_fields(TOPIC, 0, number, maxMsgNums=1))
            assert body_of(number) in answer.body, answer.remark
        sent = client.ask(310, send_fields(TOPIC), b"after")
        assert (sent.code, sent.ext["queueOffset"]) == (0, str(MESSAGES))
    after = node.hashes(node.log / "data")
    assert [after[name] for name in list(before)[:-1]] == list(before.values())[:-1]


def wrong_size_of_a_queue(node: NodeProcess) -> None:
    path = next((node.root / "consumequeue" / TOPIC / "0").iterdir())
    path.write_bytes(b"\xff" * 777)


def wrong_size_of_an_index(node: NodeProcess) -> None:
    os.truncate(next((node.root / "index").iterdir()), 99)


def stray_in_a_queue(node: NodeProcess) -> None:
    (node.root / "consumequeue" / TOPIC / "0" / "stray").write_text("x")


@pytest.mark.parametrize("ruin", [wrong_size_of_a_queue, wrong_size_of_an_index, stray_in_a_queue])
def test_derived_files_of_a_wrong_size_are_named(ruin: Break, node: NodeProcess) -> None:
    ruin(node)
    before = node.hashes(node.log / "data")
    ended = node.fails()
    assert ended.code == FAILED, ended.text
    assert "Traceback" not in ended.text
    assert re.search(r"(consumequeue|index)/\S*", ended.sentence), ended.text
    assert node.hashes(node.log / "data") == before
