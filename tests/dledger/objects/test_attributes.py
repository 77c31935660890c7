"""States of `@replicated` classes are those of their moment, however they are taken and written."""

from __future__ import annotations

import ast
import copy
import gc
import inspect
import io
import json
import math
import weakref
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from enum import IntEnum
from random import Random
from typing import Any

import pytest

from dledger import Entry, LogUsageError
from dledger.machine import freezing
from dledger.machine.freezing import Freezing
from dledger.machine.state_machine import bytes_of
from dledger.objects import attributes
from dledger.objects.attributes import attributes_of, lines_of, pieces_of
from dledger.objects.replicated import ObjectMachine, command
from dledger.objects.replicated_object import as_json

NAMES = [f"k{number:02}" for number in range(30)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pieces and lines, and one piece in a turn."""
    monkeypatch.setattr(attributes, "PIECE_ITEMS", 3)
    monkeypatch.setattr(attributes, "LINE_ITEMS", 2)
    monkeypatch.setattr(attributes, "LARGE", 4)
    monkeypatch.setattr(freezing, "TURN_SECONDS", 0.0)


def value(random: Random, depth: int = 3) -> Any:
    kind = random.randrange(9 if depth else 6)
    if kind < 6:
        text = random.choice(["", "a\nb", '"},\\', "ä€𝄞", "[", "x" * 300])
        numbers = [0, -1, 2**70, random.random(), 1e300, math.inf]
        return random.choice([None, True, False, text, random.choice(numbers)])
    items = [value(random, depth - 1) for _ in range(random.choice([0, 1, 2, 9]))]
    if kind == 6:
        return items
    pairs = zip(random.sample(NAMES, len(items)), items, strict=True)
    return random.choice([dict, dict, OrderedDict])(pairs)


class Store:
    """Its command changes values in place, at any depth."""

    def __init__(self) -> None:
        self.count = 0
        self.by_name: dict[str, Any] = {}
        self.counts: dict[str, int] = defaultdict(int)
        self.rows: list[Any] = []
        self.nested: dict[str, dict[str, Any]] = {"one": {}, "other": {}}

    @command
    def change(self, seed: int) -> None:
        random = Random(seed)
        self.count += 1
        name = random.choice(NAMES)
        self.counts[name] = self.counts.get(name, 0) + 1
        self.nested[random.choice(["one", "other"])][name] = value(random)
        what = random.randrange(9)
        if what < 5:
            self.by_name[name] = value(random)
            self.rows.append(value(random))
        elif what == 5:
            self.by_name.pop(name, None)
            self.rows[: random.randrange(9)] = []
        elif what == 6:
            self.by_name = dict(list(self.by_name.items())[::2])
        elif what == 7:
            vars(self)[f"more_{name}"] = value(random)
        else:
            vars(self).pop(f"more_{name}", None)
        inside(random, self.by_name)
        inside(random, self.rows)

    def clear(self) -> None:
        vars(self).clear()


def inside(random: Random, found: Any) -> None:
    """Change something in place, somewhere in it."""
    items = list(found.values() if isinstance(found, dict) else found)
    inner = [item for item in items if isinstance(item, dict | list)]
    if inner and random.random() < 0.8:
        inside(random, random.choice(inner))
    elif isinstance(found, dict):
        found[random.choice(NAMES)] = -1
    else:
        found.append("more")


def change(machine: ObjectMachine, seed: int) -> None:
    machine.apply(Entry(seed, 1, seed, ["change", [seed], {}]))


def taken(state: bytes) -> ObjectMachine:
    machine = ObjectMachine(Store())
    finish = machine.restore(state)
    assert finish is not None
    finish()
    return machine


class Written:
    """A state that is taken and written a piece at a time, between commands."""

    def __init__(self, machine: ObjectMachine) -> None:
        self.wanted = copy.deepcopy(vars(machine.target))
        found = machine.snapshot()
        assert isinstance(found, Freezing)
        self.freezing: Freezing[Any] = found
        self.source: Iterator[bytes] | None = None
        self.parts: list[bytes] = []
        self.turns = 0

    def goes_on(self) -> bool:
        """Take a piece, or write one; True: it is written, and it was right."""
        if self.source is None:
            self.turns += 1
            if self.freezing.go_on():
                found = self.freezing()
                assert isinstance(found, Iterator)
                self.source = found
        elif (part := next(self.source, None)) is None:
            self.check()
            return True
        else:
            self.parts.append(part)
        return False

    def check(self) -> None:
        state = b"".join(self.parts)
        again = taken(state)
        assert vars(again.target) == self.wanted
        assert list(vars(again.target)) == list(self.wanted), "in the same order"
        assert json.loads(state) == json.loads(as_json(self.wanted)), "former releases read it"
        former = as_json(self.wanted)
        assert vars(taken(former).target) == self.wanted, "and what they wrote is read"
        assert all(len(line) < 4000 for line in state.split(b"\n"))


@pytest.mark.parametrize("seed", range(25))
def test_a_state_is_that_of_its_moment(seed: int) -> None:
    """Also with several under way, ones that are left, and another state taken meanwhile."""
    random, machine = Random(seed), ObjectMachine(Store())
    written, whole, cut = list[Written](), 0, 0
    for index in range(1, 300):
        if random.random() < 0.6:
            change(machine, seed * 1000 + index)
        if random.random() < 0.1:
            written.append(Written(machine))
        for one in written.copy():
            was_whole = one.freezing.is_whole
            for _ in range(random.randrange(6)):
                if one.goes_on():
                    whole += 1
                    written.remove(one)
                    break
            cut += not was_whole and one.turns > 1
            if one in written and random.random() < 0.01:
                written.remove(one)
        if random.random() < 0.02:
            finish = machine.restore(bytes_of(machine.snapshot()))
            assert finish is not None
            if random.random() < 0.5:
                change(machine, index)
            finish()
    assert whole > 5
    assert cut > 5
    for one in written:
        while not one.goes_on():
            pass


def test_pieces_are_small_and_none_is_taken_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of what is large at the second level, and of lists."""
    machine = ObjectMachine(Store())
    machine.target.nested["one"] = {f"{number}": [number] for number in range(3000)}
    machine.target.rows = [list(range(1000))] * 5
    machine.target.by_name = {"text": "x" * 100_000}
    monkeypatch.setattr(attributes, "PIECE_ITEMS", 64)
    monkeypatch.setattr(attributes, "PIECE_BYTES", 1000)
    found = machine.snapshot()
    assert isinstance(found, Freezing)
    turns = 1
    while not found.go_on():
        turns += 1
    sizes = [len(piece.data) for piece in found.taken]
    assert turns == len(sizes) + 1 > 150
    assert max(size for size in sizes if size < 100_000) < 3000
    again = taken(bytes_of(found))
    assert vars(again.target) == vars(machine.target)


def test_a_turn_takes_as_many_pieces_as_it_has_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezing, "TURN_SECONDS", 5.0)
    now = 0.0

    def pieces() -> Iterator[int]:
        nonlocal now
        for number in range(20):
            now += 2.0
            yield number

    def state(found: list[int]) -> bytes:
        return bytes(found)

    found = Freezing(pieces(), state, lambda: now)
    turns = [found.go_on() for _ in range(7)]
    assert turns == [False] * 6 + [True]
    assert found() == bytes(range(20))


def test_a_state_that_no_one_writes_is_not_taken() -> None:
    machine = ObjectMachine(Store())
    change(machine, 1)
    state = weakref.ref(machine.snapshot())
    gc.collect()
    assert state() is None
    change(machine, 2)


class Number(IntEnum):
    ONE = 1


class Wrong(dict[str, int]):
    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "found",
    [Number.ONE, Counter("abba"), {"a": [Number.ONE]}, defaultdict(int, {"a": 1}), OrderedDict()],
)
def test_values_that_json_has_under_another_type_are_taken(found: Any) -> None:
    machine = ObjectMachine(Store())
    for state in ({"value": found}, {"value": [found] * 9}, {"value": {"a": {"b": [found]}}}):
        machine.target.clear()
        vars(machine.target).update(state)
        assert vars(taken(bytes_of(machine.snapshot())).target) == state


@pytest.mark.parametrize(
    ("found", "error"),
    [
        ((1, 2), LogUsageError),
        ({1: 2}, LogUsageError),
        ({None: [[]]}, LogUsageError),
        (math.nan, LogUsageError),
        (Wrong(), LogUsageError),
        ({1, 2}, TypeError),
        (b"bytes", TypeError),
        (1j, TypeError),
        ("\ud800", UnicodeEncodeError),
        ({"\ud800": [[]]}, UnicodeEncodeError),
    ],
)
def test_what_json_would_change_is_refused(found: Any, error: type[Exception]) -> None:
    machine = ObjectMachine(Store())
    for state in (
        {"value": found},
        {"a": [found] * 9},
        {"a": {"b": {"c": [found]}}},
        {"a": dict.fromkeys(NAMES, found)},
        {"a": [[found]]},
    ):
        machine.target.clear()
        vars(machine.target).update(state)
        with pytest.raises(error):
            bytes_of(machine.snapshot())


def test_what_is_within_itself_is_refused() -> None:
    machine = ObjectMachine(Store())
    loops: list[list[Any]] = [[], [1] * 9]
    for loop in loops:
        loop.append(loop)
        machine.target.rows = loop
        with pytest.raises((ValueError, RecursionError)):
            bytes_of(machine.snapshot())


def test_an_error_of_a_state_is_none_of_the_command_that_comes_meanwhile() -> None:
    machine = ObjectMachine(Store())
    machine.target.by_name = {**{name: {} for name in NAMES}, 1: [1] * 9}
    found = machine.snapshot()
    assert isinstance(found, Freezing)
    assert not found.go_on()
    machine.apply(Entry(1, 1, 1, ["change", [1], {}]))
    with pytest.raises(LogUsageError, match="Store change when"):
        found.go_on()
    with pytest.raises(LogUsageError, match="Store change when"):
        bytes_of(found)


def test_half_of_a_state_is_refused() -> None:
    whole = b"".join(lines_of(pieces_of({"a": {"b": [1] * 9, "c": {}}, "d": []}, "a"), "a"))
    assert attributes_of(io.BytesIO(whole)) == {"a": {"b": [1] * 9, "c": {}}, "d": []}
    assert attributes_of(io.BytesIO(b"{}")) == {}
    for end in range(len(whole)):
        with pytest.raises(ValueError, match=r"."):
            attributes_of(io.BytesIO(whole[:end]))


def test_a_value_that_a_program_looks_at_is_left_alone() -> None:
    machine = ObjectMachine(Store())
    machine.target.by_name = {f"{number}": [number] for number in range(10_000)}
    seen = machine.target.by_name
    finish = machine.restore(b'{"count":1}')
    assert finish is not None
    finish()
    assert vars(machine.target) == {"count": 1}
    assert len(seen) == 10_000
    assert all(seen.values())


def test_a_copy_in_memory_is_read_by_the_state_that_made_it() -> None:
    """`marshal` reads the data of pieces alone, which `pieces_of` has made in this process."""
    tree = ast.parse(inspect.getsource(attributes))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    reads = [ast.unparse(node) for node in calls if ast.unparse(node.func) == "marshal.loads"]
    assert reads == ["marshal.loads(data)"]
    (reader,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and reads[0] in ast.unparse(node)
    ]
    assert reader.name == "_lines"
    callers = [ast.unparse(node) for node in calls if ast.unparse(node.func) == "_lines"]
    assert callers == ["_lines(kind, data, owner)"], "by lines_of, of each piece"
