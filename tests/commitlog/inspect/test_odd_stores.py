"""Stores broken in any way: the viewer ends with 0 or 1, says what and where, changes nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from commitlog.inspect import main

from ..golden import BROKER, JAVA, PLAIN_CASES, copy

STORES = [JAVA / "normal", BROKER / "store", PLAIN_CASES[3] / "store"]
Break = Callable[[Path], object]
QUEUE = "consumequeue/T0/1"


def rewritten(path: Path, change: Callable[[bytearray], object]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def put(path: str, at: int, data: bytes) -> Break:
    """Overwrite bytes of a file of the plain store."""

    def change(root: Path) -> None:
        rewritten(root / path, lambda content: content.__setitem__(slice(at, at + len(data)), data))

    return change


FIRST = f"commitlog/{0:020d}"
BORN_PORT, STORE_PORT, BODY_SIZE = 52, 68, 84

CASES: dict[str, tuple[Break, str]] = {
    "a queue file of another size stands first": (
        lambda root: rewritten(root / QUEUE / f"{0:020d}", lambda data: data.append(0)),
        "it was written with",
    ),
    "an empty queue file stands first": (
        lambda root: (root / QUEUE / f"{0:020d}").write_bytes(b""),
        QUEUE,
    ),
    "a queue file is a folder": (
        lambda root: ((root / QUEUE / f"{0:020d}").unlink(), (root / QUEUE / f"{0:020d}").mkdir()),
        QUEUE,
    ),
    "a name of too many digits": (
        lambda root: (root / "commitlog" / ("9" * 25)).write_bytes(bytes(16_384)),
        "does not belong",
    ),
    "a name of more digits than Python reads": (
        lambda root: (root / QUEUE / ("9" * 250)).write_bytes(bytes(400)),
        "is not a file of this store",
    ),
    "an address beyond a long": (
        lambda root: (root / "commitlog" / ("9" * 20)).write_bytes(bytes(16_384)),
        "does not belong",
    ),
    "an empty file in the middle": (
        lambda root: (root / "commitlog" / f"{16_384:020d}").write_bytes(b""),
        "it has 0 bytes",
    ),
    "two of three files are empty": (
        lambda root: [(root / "commitlog" / f"{n:020d}").write_bytes(b"") for n in (0, 16_384)],
        "it has 0 bytes",
    ),
    "a born port that is none": (
        put(FIRST, BORN_PORT, b"\x7f\0\0\0"),
        "a host has port 2130706432",
    ),
    "a store port that is none": (put(FIRST, STORE_PORT, b"\xff" * 4), "a host has port -1"),
    "an index file is a folder": (
        lambda root: (root / "index" / "20990101000000000").mkdir(),
        "",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_plain_store(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, said = CASES[case]
    root = copy(JAVA / "normal", tmp_path / "store")
    change(root)
    assert main([str(root), "-o", "jsonl", "--rebuild", str(tmp_path / "out")]) == bool(said)
    out, err = capsys.readouterr()
    assert said in err
    assert "Traceback" not in err
    for line in out.splitlines():
        json.loads(line)


@pytest.mark.parametrize(
    ("topic", "said"),
    [(b"/0", "cannot name a folder"), (b"..", "cannot name a folder"), (b"T\xff", "is no text")],
)
def test_a_topic_that_is_none(
    topic: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = copy(JAVA / "normal", tmp_path / "store")
    path = root / FIRST
    at = BODY_SIZE + 5 + int.from_bytes(path.read_bytes()[BODY_SIZE : BODY_SIZE + 4], "big")
    put(FIRST, at, topic)(root)
    assert main([str(root), "-o", "json", "--rebuild", str(tmp_path / "out")]) == 1
    out, err = capsys.readouterr()
    assert "at position 0: the message is broken" in err
    assert said in err
    assert json.loads(out)["messages"] == 129


def test_slots_whose_files_hold_no_whole_slots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = copy(PLAIN_CASES[3] / "store", tmp_path / "store")
    for path in next(root.iterdir()).glob("index/*"):
        path.write_bytes(path.read_bytes()[:-3])
    assert main([str(root)]) == 1
    assert "it has 2045 bytes" in capsys.readouterr().err


def test_a_folder_for_a_checkpoint(tmp_path: Path) -> None:
    root = copy(BROKER / "store", tmp_path / "store")
    (root / "dledger-n1" / "checkpoint").unlink()
    (root / "dledger-n1" / "checkpoint").mkdir()
    assert main([str(root)]) == 0


def broken(data: bytearray, chance: random.Random) -> bytearray:
    """One of the things that happen to bytes."""
    at, size = chance.randrange(len(data)), chance.choice([1, 4, 60, 600])
    kind = chance.choice(["flip", "zero", "random", "cut", "longer", "number"])
    if kind == "flip":
        data[at] ^= 1 << chance.randrange(8)
    elif kind == "zero":
        data[at : at + size] = bytes(len(data[at : at + size]))
    elif kind == "random":
        data[at : at + size] = chance.randbytes(len(data[at : at + size]))
    elif kind == "cut":
        del data[at:]
    elif kind == "longer":
        data += b"x" * size
    else:
        number = chance.choice([-1, 0, (1 << 31) - 1, 8, 48, 91]).to_bytes(4, "big", signed=True)
        data[at : at + 4] = number[: len(data[at : at + 4])]
    return data


@pytest.mark.parametrize("store", STORES, ids=["plain", "broker", "raw"])
@pytest.mark.parametrize("seed", range(5))
def test_anything_may_be_broken(
    store: Path, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed)
    root = copy(store, tmp_path / "store")
    paths = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
    whole = {path: path.read_bytes() for path in paths}
    for number in range(8):
        path = chance.choice(paths)
        path.write_bytes(broken(bytearray(whole[path]), chance))
        now = {path: path.read_bytes() for path in paths}
        assert main([str(root), "-o", "jsonl"]) in (0, 1), (seed, number, path)
        for line in capsys.readouterr().out.splitlines():
            json.loads(line)
        assert {path: path.read_bytes() for path in paths} == now
        path.write_bytes(whole[path])
