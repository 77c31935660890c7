"""The type checker knows what a command's result is; mypy --strict runs over this file."""

from __future__ import annotations

import asyncio
import inspect
from typing import assert_type

from dledger import Entry, ReplicatedNode, ReplicatedStateMachine


class Lengths(ReplicatedStateMachine[str, int]):
    def apply(self, entry: Entry[str]) -> int:
        assert_type(entry.command, str)
        return len(entry.command)


async def lengths(node: ReplicatedNode[str, int]) -> int:
    """Never run: the types are the test."""
    assert_type(node.propose("x"), asyncio.Future[int])
    assert_type(await node.propose("x"), int)
    assert_type(await node.read(lambda: "text"), str)
    return await node.propose("x")


def test_a_node_is_typed_by_its_machine() -> None:
    assert inspect.iscoroutinefunction(lengths)
    assert Lengths().apply(Entry(1, 1, 0, "four")) == 4
