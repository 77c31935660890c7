"""A dictionary of JSON values that every node can change and read."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Generic, TypeVar, cast

from dledger.config import RaftConfig
from dledger.machine.node import Consistency
from dledger.machine.state_machine import Entry
from dledger.objects.frozen import FreezableDict
from dledger.objects.replicated_object import ReplicatedObject, text
from dledger.objects.state_lines import InLines, dict_parts, dicts_of
from dledger.objects.state_sum import bytes_of_pair, checksum_of, hash_of_pair, part_of, sum_anew

V = TypeVar("V")
T = TypeVar("T")


class DictMachine(InLines[list[Any], Any]):
    """Commands are [verb, argument, …]; results are the values before."""

    def __init__(self) -> None:
        self._all = FreezableDict[str, Any]()
        #: Of all keys with their values; each change keeps it up to date.
        self._sum = 0

    @property
    def values(self) -> dict[str, Any]:
        """The dictionary, for looking."""
        return self._all.values

    def apply(self, entry: Entry[list[Any]]) -> Any:
        """Change the dictionary."""
        verb, *arguments = entry.command
        if verb == "set":
            key, value = arguments
            return self._put(key, value)
        if verb == "update":
            for key, value in arguments[0].items():
                self._put(key, value)
            return None
        if verb == "pop":
            (key,) = arguments
            return self._pop(key) if key in self.values else None
        if verb == "setdefault":
            key, value = arguments
            if key not in self.values:
                self._put(key, value)
            return self.values[key]
        assert verb == "clear", f"no command of this class is {verb}"
        self._all.clear()
        self._sum = 0
        return None

    def _put(self, key: str, value: Any) -> Any:
        before = None
        if key in self._all.values:
            before = self._all.values[key]
            self._sum -= hash_of_pair(key, before)
        self._all.put(key, value)
        self._sum += hash_of_pair(key, value)
        return before

    def _pop(self, key: str) -> Any:
        before = self._all.pop(key)
        self._sum -= hash_of_pair(key, before)
        return before

    def checksum(self) -> int:
        """CRC-32 of the sum of all keys with their values, and of some that it reads anew."""
        part = part_of(self._all.keys, self._sum)
        anew = sum_anew(bytes_of_pair(key, self.values.get(key)) for key in part)
        return checksum_of(len(self.values), self._sum, anew)

    def snapshot(self) -> Callable[[], Iterator[bytes]]:
        """The dictionary as it is now; a thread writes it while values are replaced."""
        return dict_parts(self._all.freeze())

    def restore_from(self, state: BinaryIO) -> None:
        """Take another dictionary, line by line."""
        self._all.clear()
        self._sum = 0
        for pairs in dicts_of(state):
            self._all.extend(pairs)
            self._sum += sum(hash_of_pair(key, value) for key, value in pairs.items())


class ReplicatedDict(ReplicatedObject[list[Any], Any], Generic[V]):
    """Keys are text, values those that JSON has; both are copied in and out."""

    def __init__(self, config: RaftConfig, **options: Any) -> None:
        """`options`: as of `ReplicatedObject`."""
        self._machine = DictMachine()
        super().__init__(config, self._machine, **options)

    async def set(self, key: str, value: V) -> V | None:
        """Give a key a value; the one that it had. Raises as `ReplicatedNode.propose`."""
        return self._value(await self.node.propose(["set", _key(key), value]))

    async def update(self, values: Mapping[str, V]) -> None:
        """Give many keys their values, all at one moment. Raises as `set`."""
        await self.node.propose(["update", {_key(key): value for key, value in values.items()}])

    async def pop(self, key: str) -> V | None:
        """Remove a key; the value that it had. Raises as `set`."""
        return self._value(await self.node.propose(["pop", _key(key)]))

    async def setdefault(self, key: str, value: V) -> V:
        """The value of a key, which is `value` from now on if it had none. Raises as `set`."""
        return cast(V, self._value(await self.node.propose(["setdefault", _key(key), value])))

    async def clear(self) -> None:
        """Remove every key. Raises as `set`."""
        await self.node.propose(["clear"])

    async def get(self, key: str, consistency: Consistency = Consistency.LINEARIZABLE) -> V | None:
        """The value of a key, None without one. Raises as `ReplicatedNode.read`."""
        return await self._read(lambda values: copy.deepcopy(values.get(key)), consistency)

    async def items(self, consistency: Consistency = Consistency.LINEARIZABLE) -> dict[str, V]:
        """All keys with their values, of one moment. Raises as `ReplicatedNode.read`."""
        return await self._read(copy.deepcopy, consistency)

    async def size(self, consistency: Consistency = Consistency.LINEARIZABLE) -> int:
        """How many keys there are. Raises as `ReplicatedNode.read`."""
        return await self._read(len, consistency)

    async def _read(self, fn: Callable[[dict[str, Any]], T], consistency: Consistency) -> T:
        return await self.node.read(lambda: fn(self._machine.values), consistency=consistency)

    def _value(self, value: Any) -> V | None:
        return cast("V | None", copy.deepcopy(value))


def _key(key: str) -> str:
    return text("a key", key)
