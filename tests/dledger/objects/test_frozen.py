"""States of the ready objects are those of the moment of `snapshot`, however commands go on."""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from dledger import CommandRefused, Entry, MachineSettings
from dledger.log.log_start import LogStart
from dledger.machine.state_machine import bytes_of
from dledger.objects import sorted_keys, state_lines
from dledger.objects.dictionary import DictMachine, ReplicatedDict
from dledger.objects.frozen import FreezableDict, View
from dledger.objects.kv_machine import KeyValueMachine
from dledger.objects.lock import LockMachine
from dledger.objects.replicated_object import as_json
from dledger.snapshots.pace import Pace
from dledger.snapshots.snapshot_files import SnapshotFolder
from tests.dledger.runtime.group import Group
from tests.waiting import eventually, within

KEYS = [f"k{number:02}" for number in range(60)]


@pytest.fixture(autouse=True)
def small_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows and lines in a small state."""
    monkeypatch.setattr(sorted_keys, "ROW_MAX", 8)
    monkeypatch.setattr(state_lines, "LINE_ITEMS", 2)
    monkeypatch.setattr(state_lines, "LINE_BYTES", 40)


def of_dict(random: Random, _: int) -> list[Any]:
    key, value = random.choice(KEYS), random.randrange(1000)
    verbs = (
        ["set"] * 6 + ["pop"] * 4 + ["setdefault", "update"] + ["clear"] * (not random.randrange(9))
    )
    commands: dict[str, list[Any]] = {
        "set": ["set", key, random.choice([value, None, "\n", [value, "]"]])],
        "pop": ["pop", key],
        "setdefault": ["setdefault", key, value],
        "update": ["update", dict.fromkeys(random.sample(KEYS, 5), value)],
        "clear": ["clear"],
    }
    return commands[random.choice(verbs)]


def of_lock(random: Random, _: int) -> list[Any]:
    return [
        random.choice(["acquire", "acquire", "renew", "release"]),
        random.choice(KEYS),
        random.choice("ab"),
        random.randrange(1, 300),
    ]


def of_kv(random: Random, index: int) -> list[Any]:
    lease = random.randrange(index) if random.random() < 0.5 else 0
    does: list[Any] = [
        random.choice(
            [
                ["put", random.choice(KEYS), f"j{random.randrange(99)}", random.choice([0, lease])],
                ["delete", key := random.choice(KEYS), key + "\x00"],
            ]
        )
        for _ in range(random.randrange(1, 5))
    ]
    return random.choice(
        [
            *[["transact", [], does, []]] * 8,
            ["grant", random.randrange(1, 500)],
            ["grant", random.randrange(1, 500)],
            ["renew", lease],
            ["revoke", lease],
            ["compact", random.randrange(index)],
        ]
    )


KINDS: dict[type[Any], Callable[[Random, int], list[Any]]] = {
    DictMachine: of_dict,
    LockMachine: of_lock,
    KeyValueMachine: of_kv,
}


def copied(machine: Any) -> dict[str, Any]:
    """What the machine has, by what does not freeze."""
    if isinstance(machine, DictMachine):
        return dict(machine.values)
    if isinstance(machine, LockMachine):
        return dict(machine.locks)
    return {
        "head": (machine.revision, machine.compacted),
        "items": dict(machine.items),
        "leases": dict(machine._leases.values),
        "history": list(machine.changes(machine.compacted)),
    }


def taken(kind: type[Any], state: bytes) -> Any:
    machine = kind()
    if finish := machine.restore(state):
        finish()
    return machine


class Written:
    """A state that is written a part at a time, between commands."""

    def __init__(self, machine: Any) -> None:
        self.kind, self.wanted = type(machine), copied(machine)
        self.sum, self.parts = machine.checksum(), list[bytes]()
        self.source: Iterator[bytes] = machine.snapshot()()

    def goes_on(self, parts: int) -> bool:
        """Write so many parts; True: it is whole, and it was right."""
        for _ in range(parts):
            if (part := next(self.source, None)) is None:
                self.check()
                return True
            self.parts.append(part)
        return False

    def check(self) -> None:
        state = b"".join(self.parts)
        again = taken(self.kind, state)
        assert copied(again) == self.wanted
        assert again.checksum() == self.sum
        assert bytes_of(again.snapshot()) == state, "equal states have equal bytes"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_a_state_is_that_of_its_moment(kind: type[Any], seed: int) -> None:
    """Also with several under way, ones that are left, and another state taken meanwhile."""
    random, machine, now = Random(seed), kind(), 0
    written, whole = list[Written](), 0
    for index in range(1, 600):
        now += random.randrange(12)
        entry = Entry(index, 1, now, KINDS[kind](random, index))
        with contextlib.suppress(CommandRefused):
            machine.apply(entry)
        if random.random() < 0.05:
            written.append(Written(machine))
        for one in written.copy():
            if one.goes_on(random.randrange(3)):
                whole += 1
                written.remove(one)
            elif random.random() < 0.004:
                cast(Any, one.source).close()
                written.remove(one)
        if random.random() < 0.01:
            state = bytes_of(machine.snapshot())
            if random.random() < 0.5:
                machine = taken(kind, state)
            elif finish := machine.restore(state):
                finish()
    assert whole > 10
    for one in written:
        while not one.goes_on(1):
            pass


def views_of(machine: Any) -> list[Any]:
    maps = [found for found in vars(machine).values() if isinstance(found, FreezableDict)]
    return [view for one in maps for view in one._views]


@pytest.mark.parametrize("how", ["written", "closed", "raised", "never begun", "never called"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_ends_keeps_nothing(kind: type[Any], how: str) -> None:
    machine, random = kind(), Random(1)

    def apply(index: int) -> None:
        with contextlib.suppress(CommandRefused):
            machine.apply(Entry(index, 1, index, KINDS[kind](random, index)))

    for index in range(1, 100):
        apply(index)
    parts = machine.snapshot()
    assert len(views_of(machine)) == (2 if kind is KeyValueMachine else 1)
    source: Any = None if how == "never called" else parts()
    if how == "written":
        assert list(source)
    elif how == "closed":
        next(source)
        next(source)
        source.close()
    elif how == "raised":
        next(source)
        with pytest.raises(OSError, match="full"):
            source.throw(OSError("full"))
    view = views_of(machine)[0]
    if how.startswith("never"):
        del parts, source
        gc.collect()
        assert view() is None
    else:
        assert view().closed
        assert not view().kept
    for _ in range(2):  # a command, or the next state, forgets it
        machine.snapshot()
        gc.collect()
    machine.snapshot()
    assert len(views_of(machine)) <= 2
    for index in range(100, 400):
        apply(index)
    assert not any(reference() for reference in views_of(machine))


@pytest.mark.parametrize("row_max", [8, 64])
def test_a_view_against_a_copy(row_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_keys, "ROW_MAX", row_max)
    for seed in range(40):
        random, all_of = Random(seed), FreezableDict[int, int]()
        views: list[tuple[View[int, int], dict[int, int], dict[int, int]]] = []
        for step in range(400):
            key = random.randrange(80)
            if key in all_of.values and random.random() < 0.5:
                assert all_of.pop(key) is not None
            elif random.random() < 0.05:
                behind = max(all_of.values, default=0) + 1
                all_of.extend({behind + more: step for more in range(random.randrange(9))})
            else:
                all_of.put(key, step)
            if random.random() < 0.05:
                views.append((all_of.freeze(), dict(all_of.values), {}))
            for view, _, found in views:
                found.update(view.take(random.randrange(1, 4)))
            assert all_of.keys[:] == sorted(all_of.values)
        for view, wanted, found in views:
            while pairs := view.take(7):
                found.update(pairs)
            assert list(found.items()) == sorted(wanted.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_in_one_line_of_a_former_release_is_taken(kind: type[Any]) -> None:
    machine, random = kind(), Random(5)
    for index in range(1, 300):
        with contextlib.suppress(CommandRefused):
            machine.apply(Entry(index, 1, index, KINDS[kind](random, index)))
    state = bytes_of(machine.snapshot())
    former = as_json(json.loads(state))  # which reads lines as any JSON
    assert b"\n" in state
    assert b"\n" not in former
    again = taken(kind, former)
    assert copied(again) == copied(machine)
    assert again.checksum() == machine.checksum()
    assert bytes_of(again.snapshot()) == state


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_state_and_half_of_one(kind: type[Any]) -> None:
    state = bytes_of(kind().snapshot())
    assert copied(taken(kind, state)) == copied(kind())
    with pytest.raises(ValueError, match=r"no end|delimiter|Expecting"):
        taken(kind, state[:-2])


def test_nothing_refers_to_a_view_but_its_reader() -> None:
    all_of = FreezableDict[str, int]()
    all_of.put("a", 1)
    view = weakref.ref(all_of.freeze())
    gc.collect()
    assert view() is None
    all_of.put("a", 2)
    assert all_of._views == []


class Raced(dict[str, int]):
    """Values that a command replaces just before a reader looks at them."""

    changes: Callable[[str], object]

    def get(self, key: str, default: Any = None) -> Any:
        self.changes(key)
        return super().get(key, default)


def test_a_change_just_before_a_look_is_not_seen() -> None:
    for change in ("put", "pop"):
        all_of = FreezableDict[str, int]()
        all_of.values = raced = Raced()
        for number, key in enumerate(KEYS):
            all_of.put(key, number)
        raced.changes = partial(all_of.put, value=-1) if change == "put" else all_of.pop
        view = all_of.freeze()
        found = [pair for _ in range(20) for pair in view.take(7)]
        assert found == list(zip(KEYS, range(60), strict=True))
        assert len(all_of.values) == (60 if change == "put" else 0)


def test_a_thread_reads_while_commands_go_on() -> None:
    interval = sys.getswitchinterval()
    machine = DictMachine()
    for key in KEYS * 20:
        machine.apply(Entry(1, 1, 0, ["set", f"{key}", 0]))
    sys.setswitchinterval(1e-6)
    try:
        for number in range(1, 40):
            machine.apply(Entry(1, 1, 0, ["update", dict.fromkeys(KEYS, number)]))
            found: list[bytes] = []
            parts = machine.snapshot()
            thread = threading.Thread(target=lambda: found.append(bytes_of(parts)))  # noqa: B023
            thread.start()
            while thread.is_alive():
                machine.apply(Entry(1, 1, 0, ["set", KEYS[number], -1]))
                machine.apply(Entry(1, 1, 0, ["pop", KEYS[-number]]))
            thread.join()
            assert json.loads(found[0]) == dict.fromkeys(KEYS, number)
    finally:
        sys.setswitchinterval(interval)


async def test_a_state_that_the_disk_refuses_keeps_nothing(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither before its first part nor behind one, and without the garbage collector."""
    refused = list[str]()

    def refuse(_: object, start: LogStart, parts: Iterator[bytes], pace: Pace) -> None:
        if refused:
            next(parts)
        refused.append("once more")
        raise OSError("the disk is full")

    monkeypatch.setattr(SnapshotFolder, "save_recent", refuse)
    (config,) = Group(tmp_path, new_address, 1).configs.values()
    settings = MachineSettings(propose_seconds=60, state_seconds=0.05)
    gc.disable()
    try:
        async with ReplicatedDict[int](config, create=True, settings=settings) as one:
            for number in range(2):
                await within(one.set("key", number), "a result")
                await eventually(lambda wanted=number: len(refused) > wanted, "a refusal")  # type: ignore[misc]
                await eventually(lambda: one.node.snapshot_error, "its error")
            all_of = one._machine._all
            await eventually(
                lambda: not any(view() for view in all_of._views), "views that are gone"
            )
    finally:
        gc.enable()
