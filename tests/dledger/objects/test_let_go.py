"""Large containers that are given up go in slices, in a thread, where no other has them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from dledger import Entry
from dledger.machine.state_machine import bytes_of
from dledger.objects.dictionary import DictMachine
from dledger.objects.frozen import FreezableDict
from dledger.objects.kv_machine import KeyValueMachine
from dledger.objects.let_go import AT_ONCE, SLICE, SMALL, free, let_go
from dledger.objects.lock import LockMachine
from dledger.snapshots.rests import Rests
from tests.waiting import limit

COUNT = AT_ONCE + 1


class Gone(str):
    """A text that notes the thread in which it is freed."""

    threads: list[int]

    def __del__(self) -> None:
        Gone.threads.append(threading.get_ident())


@pytest.fixture(autouse=True)
def gone(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which texts were freed."""
    threads: list[int] = []
    monkeypatch.setattr(Gone, "threads", threads, raising=False)
    return threads


def ended() -> None:
    """Wait until nothing is freed any more."""
    for thread in threading.enumerate():
        if thread.name == "dledger-let-go":
            thread.join(limit(60))
            assert not thread.is_alive()


def random_of(random: Random, depth: int) -> Any:
    """A container of containers, some of them empty, and texts."""
    if depth == 0:
        return Gone("text")
    if random.random() < 0.2:
        return {Gone(number) for number in range(random.choice([1, SLICE, 3 * SLICE + 7]))}
    count = random.choice([0, 1, 3, SMALL, SMALL + 1, SLICE + 1] if depth == 1 else [1, 5, 20])
    items = [random_of(random, depth - 1) for _ in range(count)]
    return dict(enumerate(items)) if random.random() < 0.5 else items


class Slices(Rests):
    """Notes how many texts were freed between two rests."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self._before = len(Gone.threads)

    def between(self) -> None:
        self.sizes.append(len(Gone.threads) - self._before)
        self._before = len(Gone.threads)


@pytest.mark.parametrize("seed", range(30))
def test_all_goes_in_small_slices(seed: int, gone: list[int]) -> None:
    random = Random(seed)
    held = [random_of(random, random.choice([1, 2, 3])) for _ in range(20)]
    held.append({Gone(number): Gone("value") for number in range(3000)})
    before, slices = len(gone), Slices()
    free(held, slices)
    assert held == []
    assert sum(slices.sizes) == len(gone) - before >= 6000
    assert max(slices.sizes) <= SLICE * SMALL


def test_items_are_not_worth_a_slice_of_their_own(gone: list[int]) -> None:
    held: list[Any] = [{number: [Gone("a"), Gone("b")] for number in range(5000)}]
    slices = Slices()
    free(held, slices)
    assert len(slices.sizes) == 5000 // SLICE + 2
    assert len(gone) == 10_000


def test_what_another_holds_is_left_alone(gone: list[int]) -> None:
    inner = {number: Gone("value") for number in range(COUNT)}
    outer = {"mine": inner, "other": [Gone("value") for _ in range(COUNT)]}
    held = [outer]
    let_go(held)
    assert (held, len(outer), len(inner), gone) == ([], 2, COUNT, [])
    held.append(outer)
    del outer
    let_go(held, at_once=0)
    ended()
    assert (len(inner), len(gone)) == (COUNT, COUNT)
    assert threading.get_ident() not in gone


def test_a_few_items_go_at_once_and_start_no_thread(gone: list[int]) -> None:
    let_go([{number: Gone("value") for number in range(AT_ONCE)}])
    assert gone == [threading.get_ident()] * AT_ONCE


def test_a_view_has_all_until_it_is_closed(gone: list[int]) -> None:
    all_of = FreezableDict[int, str]()
    all_of.extend({number: Gone(number) for number in range(COUNT)})
    one, other = all_of.freeze(), all_of.freeze()
    all_of.clear()
    all_of.put(7, "new")
    ended()
    assert not gone
    assert one.take(COUNT) == [(number, str(number)) for number in range(COUNT)]
    one.close()
    ended()
    assert not gone
    assert len(other.take(COUNT)) == COUNT
    other.close()
    ended()
    assert len(gone) == COUNT
    assert threading.get_ident() not in gone
    assert all_of.values == {7: "new"}


def test_a_view_that_kept_much_lets_it_go(gone: list[int]) -> None:
    all_of = FreezableDict[int, str]()
    all_of.extend({number: Gone(number) for number in range(COUNT)})
    view = all_of.freeze()
    for number in range(COUNT):
        all_of.put(number, "new")
    assert not gone
    view.close()
    ended()
    assert len(gone) == COUNT
    assert threading.get_ident() not in gone


def dictionary() -> Any:
    machine = DictMachine()
    for number in range(COUNT):
        machine.apply(Entry(number, 1, 5, ["set", f"{number}", Gone("value")]))
    return machine


def locks() -> Any:
    machine = LockMachine()
    for number in range(COUNT):
        machine.apply(Entry(number, 1, 5, ["acquire", f"{number}", Gone("owner"), 1000]))
    return machine


def keys() -> Any:
    machine = KeyValueMachine()
    machine.history_max = 0  # type: ignore[misc]
    for number in range(COUNT):
        puts = [["put", f"{number}", Gone('j"value"'), 0]]
        machine.apply(Entry(number, 1, 5, ["transact", [], puts, []]))
    return machine


@pytest.mark.parametrize("made", [dictionary, locks, keys])
def test_a_restored_state_takes_the_place_of_another_one(
    made: Callable[[], Any], gone: list[int]
) -> None:
    machine = made()
    state = bytes_of(machine.snapshot())
    ended()
    gone.clear()
    if finish := machine.restore(state):
        finish()
    ended()
    assert len(gone) >= COUNT
    assert threading.get_ident() not in gone
    assert bytes_of(machine.snapshot()) == state


def test_a_dictionary_is_cleared_by_a_thread(gone: list[int]) -> None:
    machine = dictionary()
    gone.clear()
    machine.apply(Entry(COUNT, 1, 5, ["clear"]))
    assert machine.values == {}
    machine.apply(Entry(COUNT + 1, 1, 5, ["set", "a", 1]))
    ended()
    assert len(gone) == COUNT
    assert threading.get_ident() not in gone
    assert bytes_of(machine.snapshot()) == b'{\n"a":1\n}'
    assert machine.checksum() == one_key().checksum()


def one_key() -> DictMachine:
    machine = DictMachine()
    machine.apply(Entry(1, 1, 5, ["set", "a", 1]))
    return machine


def test_where_no_thread_is_to_be_had_all_goes_at_once(
    gone: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container at its limit of processes: a command does not fail by it."""
    machine = DictMachine()
    machine.apply(Entry(1, 1, 0, ["update", {f"{key}": Gone(key) for key in range(COUNT)}]))

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    machine.apply(Entry(2, 1, 0, ["clear"]))
    assert (machine.values, machine.checksum()) == ({}, DictMachine().checksum())
    assert len(gone) == COUNT
