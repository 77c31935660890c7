"""A `@replicated` class is the same behind a restart, or is refused before its first command."""

from __future__ import annotations

import io
import json
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from types import new_class
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from dledger import Entry, LogUsageError, RaftConfig, ReplicatedNode, ReplicatedStateMachine
from dledger.machine.state_machine import bytes_of, check_methods
from dledger.objects import attributes
from dledger.objects.attributes import attributes_of, kinds_of
from dledger.objects.replicated import ObjectMachine, command, query, replicated

T = TypeVar("T")


class Counting:
    """Its command leans on the kinds of its attributes."""

    def __init__(self) -> None:
        self.by_name: dict[str, list[int]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.order: OrderedDict[str, int] = OrderedDict()
        self.plain: dict[str, int] = {}

    @command
    def see(self, name: str) -> list[Any]:
        self.by_name[name].append(len(self.order))
        self.counts[name] += 1
        self.order[name] = self.plain[name] = 1
        self.order.move_to_end(name, last=False)
        return [self.by_name[name], self.counts.most_common(1), list(self.order)]


def see(machine: ObjectMachine, name: str) -> Any:
    return machine.apply(Entry(1, 1, 1, ["see", [name], {}]))


@pytest.mark.parametrize("large", [4, 1000])
@pytest.mark.parametrize("is_of_former_release", [False, True])
def test_attributes_of_collections_are_such_again(
    large: int, *, is_of_former_release: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In lines of their own, among others, and in the one line of a former release."""
    monkeypatch.setattr(attributes, "LARGE", large)
    machine, other = ObjectMachine(Counting()), ObjectMachine(Counting())
    for number in range(20):
        see(machine, f"k{number % 9}")
    state = bytes_of(machine.snapshot())
    if is_of_former_release:
        state = json.dumps(json.loads(state)).encode()
    for _ in range(2):  # the second one finds what the first one left
        take = other.restore(state)
        assert take is not None
        take()
    kinds = [type(value) for value in vars(other.target).values()]
    assert kinds == [defaultdict, Counter, OrderedDict, dict]
    assert vars(other.target) == vars(machine.target)
    assert list(other.target.order) == list(machine.target.order)
    for name in "k1", "new":
        assert see(other, name) == see(machine, name)


def test_a_kind_is_that_of_the_class_and_not_of_what_an_attribute_is_now() -> None:
    machine = ObjectMachine(Counting())
    machine.target.plain = Counter()
    take = machine.restore(b'{"plain":{"a":1},"counts":null}')
    assert take is not None
    take()
    assert type(machine.target.plain) is dict
    assert machine.target.counts is None


def test_items_of_a_counter_are_not_added_up() -> None:
    lines = b'{\n"counts":{\n"a":1\n"b":2,\n"a":"x"\n}\n}'
    found = attributes_of(io.BytesIO(lines), kinds_of({"counts": Counter()}))
    assert found == {"counts": {"a": "x", "b": 2}}


def test_commands_queries_and_attributes_are_no_methods_for_the_state() -> None:
    @replicated
    class Shelf:
        def __init__(self) -> None:
            self.items = ["a"]
            self.checksum = 5

        @command
        def restore(self, item: str) -> None:
            self.items.append(item)

        @query
        def snapshot(self) -> list[str]:
            return self.items

        def __getattr__(self, name: str) -> int:
            return 7

    machine, other = ObjectMachine(Shelf()), ObjectMachine(Shelf())
    machine.apply(Entry(1, 1, 1, ["restore", ["b"], {}]))
    take = other.restore(bytes_of(machine.snapshot()))
    assert take is not None
    take()
    assert vars(other.target) == {"items": ["a", "b"], "checksum": 5}


def test_a_container_of_the_class_itself_is_for_constants() -> None:
    """Else a restart would lose it, and the nodes of one process share it."""

    @replicated
    class Shop:
        names: ClassVar[list[str]] = ["a"]
        rows: dict[str, int] = {}  # noqa: RUF012  # the mistake
        locks: ClassVar[list[Any]] = [threading.Lock()]
        more: ClassVar[dict[str, Any]] = dict.fromkeys(map(str, range(5000)))

        @command
        def put(self, name: str) -> None:
            self.rows[name] = 1

    machine = ObjectMachine(Shop())
    assert bytes_of(machine.snapshot())
    machine.apply(Entry(1, 1, 1, ["put", ["x"], {}]))
    with pytest.raises(LogUsageError, match=r"the class Shop.*self\.rows = "):
        machine.snapshot()
    machine.target.rows = {"x": 1}  # of the object, but that of the class was changed, too
    with pytest.raises(LogUsageError, match="rows is of the class Shop"):
        machine.snapshot()


class Late(ReplicatedStateMachine[int, int]):
    def apply(self, entry: Entry[int]) -> int:
        return 1


async def later(self: object, *args: object) -> None: ...


def yields(self: object, *args: object) -> Iterator[bytes]:
    yield b""


@pytest.mark.parametrize("name", ["apply", "restore", "restore_from", "keep", "kept", "checksum"])
@pytest.mark.parametrize("method", [later, yields])
def test_a_machine_with_methods_that_do_nothing_when_called_is_refused(
    name: str, method: Any
) -> None:
    machine = type("Odd", (Late,), {name: method})()
    with pytest.raises(LogUsageError, match="nodes call it as a plain function"):
        check_methods(machine)
    with pytest.raises(LogUsageError, match="nodes call it as a plain function"):
        ReplicatedNode(RaftConfig("n0", {"n0": ("127.0.0.1", 1)}, "data"), machine)


def test_a_machine_may_make_states_and_results_one_by_one() -> None:
    check_methods(type("Odd", (Late,), {"snapshot": yields, "apply_batch": yields})())
    with pytest.raises(LogUsageError, match="`async def`"):
        check_methods(type("Odd", (Late,), {"snapshot": later})())


@pytest.mark.parametrize("mark", [command, query])
@pytest.mark.parametrize("method", [later, yields])
def test_commands_and_queries_are_plain_methods(mark: Any, method: Any) -> None:
    with pytest.raises(LogUsageError, match="nodes call it as a plain function"):
        mark(method)


class Slotted:
    __slots__ = ("count",)


class Add:
    @command
    def add(self) -> None: ...


class Both:
    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None: ...


@pytest.mark.parametrize(
    ("bases", "attributes", "wanted"),
    [
        ((Add, Slotted), {}, "has slots count, which are no part"),
        ((Slotted,), {"__slots__": (), "add": Add.add}, "has slots count, which are no part"),
        ((Slotted, Both), {"__slots__": (), "add": Add.add}, None),
        ((Add, Slotted, Both), {}, None),
        ((Add, dict), {}, "is a dict, and its items are no part"),
        ((Add, deque), {"__init__": lambda self: None}, "is a deque, and its items"),
        ((Add, dict, Both), {}, None),
        ((Add, Generic[T], Mapping), {}, None),
        ((Add,), {"snapshot": Both.snapshot}, "has snapshot and no restore"),
        ((Add,), {"restore": Both.restore}, "has restore and no snapshot"),
        ((Add, Both), {"restore": lambda self: None}, "restore is called with 1 argument"),
        ((Add, Both), {"snapshot": lambda self, at: b""}, "snapshot is called with no arguments"),
        ((Add, Both), {"restore": later}, "later is `async def`, and nodes call it"),
        ((Add, Both), {"snapshot": later}, "later is `async def`, and nodes call it"),
        ((Add, Both), {"snapshot": yields}, None),
        ((Add,), {"checksum": lambda self, key: 5}, "checksum is called with no arguments"),
    ],
)
def test_a_class_that_a_restart_would_change_is_refused(
    bases: tuple[Any, ...], attributes: dict[str, Any], wanted: str | None
) -> None:
    plain = new_class("Odd", bases, {}, lambda body: body.update(attributes))
    if wanted is None:
        assert replicated(plain) is plain
        return
    with pytest.raises(LogUsageError, match=wanted):
        replicated(plain)
