"""`@replicated`: a plain class on three nodes, typed, bounded to its commands, restored alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, assert_type

import pytest
import pytest_asyncio

from dledger import (
    CommandRefused,
    Consistency,
    Entry,
    LogUsageError,
    MachineSettings,
    RaftConfig,
)
from dledger.machine.state_machine import bytes_of
from dledger.objects.replicated import (
    ObjectMachine,
    command,
    entry_of,
    on_node,
    query,
    read,
    replicated,
)
from tests.dledger.runtime.group import Group
from tests.virtual_loop import LoopClock
from tests.waiting import within


@replicated
class Bank:
    def __init__(self) -> None:
        self.accounts: dict[str, int] = {}

    @command
    def move(self, amount: int, *, to: str) -> dict[str, int]:
        if amount < 0:
            raise CommandRefused("an amount is above 0; give another one")
        self.accounts[to] = self.accounts.get(to, 0) + amount
        return self.accounts

    @command
    def twice(self, to: str) -> None:
        self.move(1, to=to)

    @command
    def time(self) -> int:
        return entry_of(self).time_ms

    @query
    def total(self) -> int:
        return sum(self.accounts.values())

    def here(self) -> int:
        return len(self.accounts)


Banks = list[Bank]


@pytest_asyncio.fixture
async def banks(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Banks]:
    settings = MachineSettings(propose_seconds=60)
    async with AsyncExitStack() as stack:
        made: list[Bank] = []
        for config in Group(tmp_path, new_address).configs.values():
            one = on_node(Bank, config, create=True, settings=settings, clock=LoopClock())
            made.append(await stack.enter_async_context(one))
        yield made


async def types(config: RaftConfig) -> None:
    """Never run: the types are the test."""
    async with on_node(Bank, config) as one:
        assert_type(one.move(1, to="a"), Awaitable[dict[str, int]])
        assert_type(await one.total(), int)
        assert_type(one.here(), int)
        assert_type(await read(one, lambda bank: bank.accounts), dict[str, int])
        await one.move("1", to="a")  # type: ignore[arg-type]


async def test_commands_of_any_node_are_on_every_node(banks: Banks) -> None:
    one, two, three = banks
    assert await within(one.move(5, to="a"), "a result") == {"a": 5}
    found = await within(two.move(2, to="b"), "a result")
    found["mine alone"] = 1  # the result is a copy
    assert await three.total() == 7
    assert (await read(three, lambda bank: bank.here()), three.here()) == (2, 2)
    with pytest.raises(CommandRefused, match="above 0"):
        await within(one.move(-1, to="a"), "a refusal")
    assert await within(two.time(), "a time") > 1_600_000_000_000
    assert await read(one, lambda bank: bank.here(), consistency=Consistency.LOCAL) == 2
    with pytest.raises(LogUsageError, match="no command runs"):
        entry_of(one)


def bound(name: str, *args: Any, index: int = 1) -> Entry[list[Any]]:
    return Entry(index, 1, 5, [name, list(args), {}])


class Plain:
    def __init__(self) -> None:
        self.values: list[Any] = []

    @command
    def add(self, value: Any) -> int:
        self.values.append(value)
        return len(self.values)

    def drop(self) -> None:
        self.values.clear()


def test_a_peer_can_run_commands_only() -> None:
    machine = ObjectMachine(Plain())
    assert machine.apply(bound("add", 1)) == 1
    for name in ("drop", "__init__", "values", "nothing"):
        with pytest.raises(TypeError, match=f"Plain has no command {name}"):
            machine.apply(bound(name))
    assert machine.target.values == [1]


def test_a_state_is_the_attributes_and_what_json_would_change_is_refused() -> None:
    machine, other = ObjectMachine(Plain()), ObjectMachine(Plain())
    machine.apply(bound("add", {"x": [None, "ä", 1.5]}))
    take = other.restore(bytes_of(machine.snapshot()))
    assert take is not None
    take()
    assert vars(other.target) == vars(machine.target)
    machine.target.values = (1, 2)
    with pytest.raises(LogUsageError, match="tuple"):
        bytes_of(machine.snapshot())


def test_an_object_without_a_node_says_so() -> None:
    with pytest.raises(LogUsageError, match="on no node"):
        Plain().add(1)


def test_a_class_that_cannot_be_replicated_says_why() -> None:
    class Silent:
        pass

    class Needy:
        def __init__(self, name: str) -> None:
            self.name = name

        @command
        def rename(self, name: str) -> None:
            self.name = name

    with pytest.raises(LogUsageError, match="has no commands"):
        replicated(Silent)
    with pytest.raises(LogUsageError, match="needs arguments"):
        replicated(Needy)
    with pytest.raises(LogUsageError, match="Plain is not replicated"):
        on_node(Plain, RaftConfig("n0", {"n0": ("127.0.0.1", 1)}, "data"))


async def test_arguments_that_a_command_does_not_take_are_refused_here(banks: Banks) -> None:
    """Proposed, they would raise on every node and stop them all, for good."""
    bank: Any = banks[0]
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((1,), {}),
        ((1, "a"), {}),
        ((1,), {"to": "a", "of": "b"}),
        ((1,), {"to": "a", "amount": 2}),
    ]
    for args, kwargs in wrong:
        with pytest.raises(LogUsageError, match=r"move.* is not called like this"):
            bank.move(*args, **kwargs)
    assert await bank.move(amount=1, to="a") == {"a": 1}


async def test_a_command_inside_a_command_is_refused(tmp_path: Path) -> None:
    bank = on_node(Bank, RaftConfig("n0", {"n0": ("127.0.0.1", 1)}, tmp_path, cluster_id="c"))
    machine = bank.node.machine
    with pytest.raises(LogUsageError, match="plain method"):
        machine.apply(bound("twice", "a"))
    assert bank.target.accounts == {}
