"""The machine of `KeyValueStore` against a plain model, over random histories and restarts.

The model keeps whole dictionaries, one for each revision, and looks at all of them each time; the
machine keeps indexes, a heap of leases and a bounded history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dledger import CommandRefused, Compacted, Entry
from dledger.machine.state_machine import bytes_of
from dledger.objects.kv import end_of_prefix
from dledger.objects.kv_machine import Item, KeyValueMachine, text_of, value_of


@dataclass
class Model:
    """`states[r]`: all items right after revision r; `leases`: number → (length, end)."""

    states: list[dict[str, Item]] = field(default_factory=lambda: [{}])
    leases: dict[int, tuple[int, int]] = field(default_factory=dict)
    compacted: int = 0

    def apply(self, index: int, now: int, command: list[Any]) -> Any:
        over = sorted((end, at) for at, (_, end) in self.leases.items() if end <= now)
        for _, number in over:
            self.end(number)
        verb, *rest = command
        if verb == "transact":
            return self.transact(*rest)
        if verb == "grant":
            self.leases[index] = (rest[0], now + rest[0])
            return index
        if verb == "compact":
            if rest[0] >= len(self.states):
                raise CommandRefused("too far")
            self.compacted = max(self.compacted, rest[0])
            return None
        if verb == "look":
            return None
        if rest[0] not in self.leases:
            raise CommandRefused("no lease")
        if verb == "renew":
            length = self.leases[rest[0]][0]
            self.leases[rest[0]] = (length, now + length)
            return rest[0]
        self.end(rest[0])
        return None

    def end(self, number: int) -> None:
        del self.leases[number]
        left = {key: item for key, item in self.states[-1].items() if item.lease != number}
        if len(left) < len(self.states[-1]):
            self.states.append(left)

    def transact(self, compares: Any, then: Any, otherwise: Any) -> Any:
        now, revision = dict(self.states[-1]), len(self.states)
        results: list[Any] = []
        holds = all(self.holds(*compare) for compare in compares)
        changed = False
        for verb, first, *rest in then if holds else otherwise:
            if verb == "put":
                text, lease = rest
                if lease and lease not in self.leases:
                    raise CommandRefused("no lease")
                old = now.get(first)
                created, version = (old.created, old.version) if old else (revision, 0)
                now[first] = Item(first, text, revision, created, version + 1, lease)
                results.append(old)
                changed = True
                continue
            inside = [key for key in sorted(now) if first <= key and (not rest[0] or key < rest[0])]
            if verb == "get":
                results.append([now[key] for key in inside])
                continue
            for key in inside:
                del now[key]
                changed = True
            results.append(len(inside))
        if changed:
            self.states.append(now)
        return [holds, len(self.states) - 1, results]

    def holds(self, key: str, name: str, relation: str, operand: Any) -> bool:
        item = self.states[-1].get(key)
        if name == "value":
            if item is None:
                return relation == "!="
            own: Any = item.text
        else:
            own = getattr(item, name) if item else 0
        if relation in ("=", "!="):
            return bool((own == operand) is (relation == "="))
        return bool(own < operand if relation == "<" else own > operand)


keys = st.text("ab\U0010ffff", max_size=2)
texts = st.sampled_from(["j1", "j2", "bAA=="])
lease_numbers = st.integers(0, 3)
spans = st.one_of(
    keys.map(lambda key: (key, key + "\0")), keys.map(lambda key: (key, end_of_prefix(key)))
)
operations = st.one_of(
    st.tuples(st.just("put"), keys, texts, st.just(0) | lease_numbers).map(list),
    spans.map(lambda span: ["delete", *span]),
    spans.map(lambda span: ["get", *span]),
)
compares = st.one_of(
    st.tuples(keys, st.just("value"), st.sampled_from(["=", "!=", "<", ">"]), texts),
    st.tuples(
        keys,
        st.sampled_from(["revision", "created", "version"]),
        st.sampled_from(["=", "!=", "<", ">"]),
        st.integers(0, 12),
    ),
).map(list)
commands = st.one_of(
    st.tuples(
        st.just("transact"),
        st.lists(compares, max_size=2),
        st.lists(operations, max_size=4),
        st.lists(operations, max_size=2),
    ).map(list),
    st.integers(1, 60).map(lambda ms: ["grant", ms]),
    st.tuples(st.sampled_from(["renew", "renew", "revoke"]), lease_numbers).map(list),
    st.integers(0, 20).map(lambda revision: ["compact", revision]),
    st.just(["look"]),
)
steps = st.lists(st.tuples(commands, st.integers(0, 20), st.booleans()), min_size=10, max_size=40)


def answer(apply: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return apply(*arguments)
    except CommandRefused:
        return "refused"


def with_leases(command: list[Any], granted: list[int]) -> list[Any]:
    """Numbers that were drawn for leases become those of leases that were granted, mostly."""

    def lease(drawn: int) -> int:
        return granted[-1 - drawn % len(granted)] if drawn and granted else drawn

    verb, *rest = command
    if verb in ("renew", "revoke"):
        return [verb, lease(rest[0])]
    if verb != "transact":
        return command
    compares, *branches = rest
    return [
        verb,
        compares,
        *[[[*o[:3], lease(o[3])] if o[0] == "put" else o for o in ops] for ops in branches],
    ]


def copy_of(machine: KeyValueMachine) -> KeyValueMachine:
    other = KeyValueMachine()
    other.restore(bytes_of(machine.snapshot()))()
    return other


@settings(max_examples=25)
@given(steps)
def test_the_machine_does_as_the_model_also_after_restarts(
    history: list[tuple[list[Any], int, bool]],
) -> None:
    machine, model, now = KeyValueMachine(), Model(), 0
    granted: list[int] = []
    for index, (drawn, passed, restarts) in enumerate(history, 1):
        now += passed
        command = with_leases(drawn, granted)
        if command[0] == "grant":
            granted.append(index)
        if restarts:
            machine = copy_of(machine)
        got = answer(machine.apply, Entry(index, 1, now, command))
        assert got == answer(model.apply, index, now, command)
        assert machine.items == model.states[-1]
        assert machine.revision == len(model.states) - 1
        assert machine.range("", "") == [machine.items[key] for key in sorted(machine.items)]
        ends = [end for _, end in model.leases.values()]
        assert machine.next_end_ms == (min(ends) if ends else None)
    check_changes(machine, model)
    check_changes(copy_of(machine), model)


def check_changes(machine: KeyValueMachine, model: Model) -> None:
    """From each revision that is kept, the changes lead to each one behind it."""
    for after in range(model.compacted):
        with pytest.raises(Compacted) as gone:
            machine.changes(after)
        assert (gone.value.after, gone.value.compacted) == (after, model.compacted)
    for after in range(model.compacted, len(model.states)):
        state, at = dict(model.states[after]), after
        for change in machine.changes(after):
            if change.revision != at:
                assert state == model.states[at]
                assert change.revision == at + 1
                at = change.revision
            if change.item is None:
                del state[change.key]
            else:
                state[change.key] = change.item
        assert at == len(model.states) - 1
        assert state == model.states[at]


def test_leases_after_a_restart_and_what_a_refusal_leaves() -> None:
    machine = KeyValueMachine()

    def does(index: int, now: int, *command: Any) -> Any:
        return answer(machine.apply, Entry(index, 1, now, list(command)))

    assert [does(index, 0, "grant", 100) for index in (1, 2)] == [1, 2]
    does(3, 0, "transact", [], [["put", "a", "j1", 1], ["put", "b", "j1", 1]], [])
    does(4, 0, "transact", [], [["put", "b", "j2", 2]], [])
    half = [["put", "c", "j1", 0], ["put", "d", "j1", 7]]
    assert does(5, 0, "transact", [], half, []) == "refused"
    assert (sorted(machine.items), machine.revision) == (["a", "b"], 2)
    does(6, 0, "compact", 1)
    machine = copy_of(machine)
    with pytest.raises(Compacted):
        machine.changes(0)
    does(7, 50, "transact", [], [["put", "e", "j1", 1], ["put", "e", "j1", 2]], [])
    assert does(7, 50, "renew", 2) == 2
    does(8, 100, "look")
    assert (sorted(machine.items), machine.revision) == (["b", "e"], 4)
    absent = ["transact", [["x", "value", "=", "j1"]], [["put", "x", "j2", 0]], []]
    assert does(9, 149, *absent)[0] is False
    does(10, 150, "look")
    assert (machine.items, machine.revision) == ({}, 5)


class Forgetful(KeyValueMachine):
    history_max = 10
    history_bytes_max = 3000


def test_history_is_bounded_by_count_and_bytes_in_whole_revisions() -> None:
    machine = Forgetful()
    for index in range(1, 21):
        put = [["put", f"{index}", "j1", 0], ["put", "x", "j1", 0]]
        machine.apply(Entry(index, 1, 0, ["transact", [], put, []]))
    kept = machine.changes(machine.compacted)
    assert 0 < len(kept) <= 10
    assert kept[0].revision == machine.compacted + 1
    machine.apply(Entry(21, 1, 0, ["transact", [], [["put", "y", "j" + "1" * 2500, 0]], []]))
    assert sum(change.size for change in machine.changes(machine.compacted)) <= 3000
    assert machine.compacted > kept[0].revision


@pytest.mark.parametrize("restored_at", [1, 2, 4])
def test_restored_machine_forgets_the_same_history(restored_at: int) -> None:
    """Also after a command with more changes than are kept: room is made between commands."""
    machine = other = Forgetful()
    for index, count in enumerate([12, 10, 1, 13, 10, 4, 5, 12, 9, 1], 1):
        put = [["put", f"{index}-{number}", "j1", 0] for number in range(count)]
        entry = Entry(index, 1, 0, ["transact", [], put, []])
        machine.apply(entry)
        if other is not machine:
            other.apply(entry)
        elif index == restored_at:
            other = Forgetful()
            other.restore(bytes_of(machine.snapshot()))()
        assert other.compacted == machine.compacted, f"after entry {index}"
        assert other.changes(other.compacted) == machine.changes(machine.compacted)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=3,
)


@settings(max_examples=30)
@given(st.binary() | json_values)
def test_values_come_back_as_they_were(value: Any) -> None:
    assert value_of(text_of(value)) == value


def test_equal_values_have_equal_texts_and_others_not() -> None:
    assert text_of({"a": 1, "b": 2}) == text_of({"b": 2, "a": 1})
    assert len({text_of(value) for value in (1, True, "1", b"1", None, [1])}) == 6


@given(keys, st.text(min_size=1))
def test_the_end_of_a_prefix_is_the_first_key_behind_it(prefix: str, key: str) -> None:
    end = end_of_prefix(prefix)
    assert key.startswith(prefix) == (prefix <= key and (not end or key < end))
