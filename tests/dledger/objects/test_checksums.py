"""Checksums of the ready objects: by the state alone, however a node came to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.testing.objects import OBJECTS
from dledger import (
    CommandRefused,
    Entry,
    LogUsageError,
    StateMachineDiverged,
)
from dledger.machine.state_machine import bytes_of, has_checksum
from dledger.objects.dictionary import DictMachine
from dledger.objects.kv_machine import KeyValueMachine
from dledger.objects.lock import LockMachine
from dledger.objects.replicated import ComparedMachine, command, machine_of, query, replicated
from dledger.objects.sorted_keys import SortedKeys
from dledger.objects.state_sum import (
    LOOK_BYTES,
    LOOK_COUNT,
    hash_of,
    hash_of_bytes,
    part_of,
    sum_anew,
)
from tests.dledger.machine.group import MachineGroup
from tests.waiting import eventually, limit, within

KINDS = ("dictionary", "lock", "kv")
#: By 200 commands; another number is another rule, which all nodes of a group must follow at once.
EXPECTED = {"dictionary": 11113547, "lock": 3708166873, "kv": 4277360210}
PROGRAM = """
import sys
if sys.argv[1] == "plain":
    sys.modules["orjson"] = sys.modules["zlib_ng"] = None
from tests.dledger.objects.test_checksums import KINDS, after
print(*(after(kind, 200).checksum() for kind in KINDS))
"""


def applied(machine: Any, command: Any, index: int, time_ms: int = 0) -> Any:
    try:
        return machine.apply(Entry(index, 1, time_ms, command))
    except CommandRefused as refused:
        return refused


def after(kind: str, count: int, made: Callable[[int, Any], Any] = lambda _, one: one) -> Any:
    """The machine after so many commands, whose times let leases end; `made`: it from there on."""
    subject, random = OBJECTS[kind], Random(7)
    machine: Any = subject.make()
    for number in range(1, count):
        applied(machine, subject.draw(random, number), number, 100 * number)
        machine = made(number, machine)
    return machine


def restored(machine: Any) -> Any:
    copy = type(machine)()
    take = copy.restore(bytes_of(machine.snapshot()))
    if take is not None:
        take()
    return copy


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_same_in_every_process_and_on_every_python(kind: str) -> None:
    assert after(kind, 200).checksum() == EXPECTED[kind]
    assert has_checksum(after(kind, 1))


@pytest.mark.parametrize("parts", ["plain", "fast"])
@pytest.mark.parametrize("seed", ["0", "1"])
def test_neither_pythons_own_hash_nor_a_faster_library_changes_it(parts: str, seed: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, parts],
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=limit(30),
    )
    assert [int(word) for word in told.stdout.split()] == list(EXPECTED.values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_state_has_it_and_goes_on_with_it(kind: str) -> None:
    seen = list[int]()

    def compare(number: int, machine: Any) -> Any:
        copy = restored(machine)
        assert copy.checksum() == machine.checksum(), f"after command {number}"
        seen.append(machine.checksum())
        return copy if number % 3 == 0 else machine

    assert after(kind, 400, compare).checksum() == after(kind, 400).checksum()
    assert len(set(seen)) > 100


def test_commands_that_change_nothing_leave_it_alone() -> None:
    machine = DictMachine()
    empty = machine.checksum()
    applied(machine, ["set", "a", None], 1)
    with_null = machine.checksum()
    assert with_null != empty
    for one in (["setdefault", "a", 1], ["pop", "b"], ["set", "a", None], ["update", {}]):
        applied(machine, one, 2)
        assert machine.checksum() == with_null
    applied(machine, ["clear"], 3)
    assert machine.checksum() == empty


def dictionary(values: dict[str, Any]) -> int:
    machine = DictMachine()
    applied(machine, ["update", values], 1)
    return machine.checksum()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "left", "b": "rite"}, {"a": "rite", "b": "left"}),
        ({"a": 11}, {"a1": 1}),
        ({"a": "bc"}, {"ab": "c"}),
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": None}, {}),
    ],
)
def test_states_that_look_alike_have_others(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert dictionary(one) != dictionary(other)


@pytest.mark.parametrize(
    ("key", "other", "a", "b"),
    [("k6", "k9", "343", "858"), ("k9", "k6", "980", "644"), ("k7", "k8", "187", "377")],
)
def test_values_that_change_places_are_seen(key: str, other: str, a: str, b: str) -> None:
    """CRC-32 is linear: plain sums of it are the same here, and XORs for all of one length."""
    assert dictionary({key: a, other: b}) != dictionary({key: b, other: a})


def put(key: str, text: str) -> list[Any]:
    return ["transact", [], [["put", key, text, 0]], []]


def rot_dictionary(machine: Any) -> None:
    machine.values["a"] = 2


def rot_lock(machine: Any) -> None:
    machine.locks["a"] = machine.locks["a"]._replace(owner="you")


def rot_item(machine: Any) -> None:
    machine.items["a"] = machine.items["a"]._replace(text="j2")


def lose_item(machine: Any) -> None:
    del machine.items["a"]


def rot_history(machine: Any) -> None:
    machine._history[0] = machine._history[0]._replace(key="z")
    machine._history[0] = machine._history[0]._replace(item=None)


def rot_lease(machine: Any) -> None:
    leases = machine._leases.values
    (number,) = leases
    leases[number] = leases[number]._replace(ttl_ms=1)


#: (machine, a command that changes something, others without an effect on that, what rots)
ROTS: list[tuple[type[Any], Any, Any, Callable[[Any], None]]] = [
    (DictMachine, ["set", "a", 1], ["pop", "b"], rot_dictionary),
    (LockMachine, ["acquire", "a", "me", 10**9], ["release", "b", "me", 1], rot_lock),
    (KeyValueMachine, put("a", "j1"), ["look"], rot_item),
    (KeyValueMachine, put("a", "j1"), ["look"], lose_item),
    (KeyValueMachine, put("a", "j1"), ["look"], rot_history),
    (KeyValueMachine, ["grant", 10**9], ["look"], rot_lease),
]


@pytest.mark.parametrize(("kind", "change", "rest", "rot"), ROTS, ids=[r[3].__name__ for r in ROTS])
def test_a_state_that_was_changed_behind_its_back_has_another_checksum(
    kind: type[Any], change: Any, rest: Any, rot: Callable[[Any], None]
) -> None:
    right, rotten = kind(), kind()
    for machine in (right, rotten):
        applied(machine, change, 1)
    rot(rotten)
    for machine in (right, rotten):
        applied(machine, rest, 2)
    assert right.checksum() != rotten.checksum()


@pytest.mark.parametrize(("kind", "change", "rest", "rot"), ROTS, ids=[r[3].__name__ for r in ROTS])
async def test_a_replica_whose_object_was_changed_behind_its_back_stops_and_says_where(
    tmp_path: Path,
    new_address: Callable[[], str],
    kind: type[Any],
    change: Any,
    rest: Any,
    rot: Callable[[Any], None],
) -> None:
    """No command touches it again, and no result shows it."""

    class Often(kind):  # type: ignore[misc]
        compare_every = 50

    group: MachineGroup[Any, Any] = MachineGroup(tmp_path, new_address, Often)
    await group.start()
    rotten, right = group.nodes["n1"], group.nodes["n0"]
    await within(right.propose(change), "a result")
    done = right.applied
    await eventually(lambda: rotten.applied >= done, "an entry that is applied")
    rot(rotten.machine)
    index = rotten.applied

    async def stops() -> object:
        await right.propose(rest)
        return rotten.failure

    await eventually(stops, "the end of the node whose state differs", 60)
    assert isinstance(rotten.failure, StateMachineDiverged)
    assert (rotten.failure.index + 1) % 50 == 0
    assert rotten.failure.index >= index
    assert "the state differs behind entry" in str(rotten.failure)
    await within(right.propose(rest), "a result of the others")
    assert right.failure is None
    await group.close()


def test_comparisons_read_all_parts_of_a_state() -> None:
    for count in (0, 1, LOOK_COUNT, LOOK_COUNT + 1, 2 * LOOK_COUNT + 9):
        plain = list(range(count))
        parts = [tuple(part_of(plain, chosen)) for chosen in range(12 * count + 1)]
        assert parts == [tuple(part_of(SortedKeys(plain), n)) for n in range(len(parts))]
        assert {len(set(part)) for part in parts} == {min(count, LOOK_COUNT)}
        if count > LOOK_COUNT:
            begins = Counter(part[0] for part in parts)
            assert begins.keys() == set(plain), "a large value is read where it is the first"
            assert max(begins.values()) < 40, "each as likely as another"


class Handed(SortedKeys[Any]):
    """Counts the keys that it gives."""

    count = 0

    def __getitem__(self, wanted: slice) -> list[Any]:
        found = super().__getitem__(wanted)
        Handed.count += len(found)
        return found


class Closed(dict[str, Any]):
    """Can be asked for a key alone."""

    def __iter__(self) -> Any:
        raise AssertionError("all keys are passed over")

    items = keys = values = __reversed__ = __iter__


@pytest.mark.parametrize("count", [10, 20 * LOOK_COUNT])
def test_a_comparison_looks_at_no_more_than_its_part(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    machines: list[Any] = [DictMachine(), LockMachine(), KeyValueMachine()]
    values, locks, kv = machines
    for number in range(1, count + 1):
        applied(values, ["set", f"k{number}", number], number)
        applied(locks, ["acquire", f"k{number}", "me", 10**9], number)
        applied(kv, ["grant", 10**9], number)
        applied(kv, put(f"k{number}", "j1"), number)
    by_rows = [machine.checksum() for machine in machines]
    for held in (values._all, locks._all, kv._all, kv._leases):
        held.keys, held.values = Handed(held.values), Closed(held.values)
    monkeypatch.setattr(Handed, "count", 0)
    for machine, kinds, before in zip(machines, (1, 1, 2), by_rows, strict=True):
        Handed.count = 0
        assert machine.checksum() == before, "however the keys are spread over rows"
        assert Handed.count == kinds * min(count, LOOK_COUNT)


def test_large_values_are_bounded_by_their_bytes() -> None:
    size = LOOK_BYTES // 10
    rest = iter([bytes([number]) * size for number in range(50)])
    total = sum_anew(rest)
    assert len(list(rest)) == 50 - 11
    assert total == sum(hash_of_bytes(bytes([number]) * size) for number in range(11))
    assert sum_anew([]) == 0


def test_of_many_values_one_that_rots_is_found_before_long() -> None:
    right, rotten = DictMachine(), DictMachine()
    for number in range(10 * LOOK_COUNT):
        for one in (right, rotten):
            applied(one, ["set", f"k{number}", number], number)
    windows = 0
    for number in range(0, 10 * LOOK_COUNT, LOOK_COUNT):
        rotten.values[f"k{number}"] = -1
        before = windows
        while right.checksum() == rotten.checksum():
            windows += 1
            assert windows < before + 100, "each looks at a tenth of the values"
            for one in (right, rotten):
                applied(one, ["set", "k9", -windows], 10_000 + windows)
        rotten.values[f"k{number}"] = number
    assert windows > 10, "none looks at all of them"


class Noted:
    def __init__(self) -> None:
        self.total = 0

    @command
    def add(self, amount: int) -> None:
        self.total += amount

    def checksum(self) -> int:
        return hash_of([self.total]) & 0xFFFFFFFF


def test_a_class_of_ones_own_is_compared_if_it_has_a_checksum() -> None:
    class Asked:
        @query
        def checksum(self) -> int:
            return 1

        @command
        def add(self) -> None: ...

    class Wrong(Noted):
        def checksum(self, of: str) -> int:  # type: ignore[override]
            return len(of)

    one, other = machine_of(replicated(Noted)()), machine_of(Noted())
    assert isinstance(one, ComparedMachine)
    assert has_checksum(one)
    applied(one, ["add", [1], {}], 1)
    assert one.checksum() != other.checksum()
    applied(other, ["add", [1], {}], 1)
    assert one.checksum() == other.checksum()
    assert not has_checksum(machine_of(replicated(Asked)()))
    with pytest.raises(LogUsageError, match=r"Wrong\.checksum is called with no arguments"):
        replicated(Wrong)
