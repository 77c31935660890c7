"""Keys and values with revisions, history and leases: the state behind `KeyValueStore`.

    ["transact", compares, then, otherwise] ─► [did all compares hold, revision, a result for each]
        compare  [key, field, relation, operand]     field: value, revision, created, version
        then     ["put", key, text, lease]           result: the item before, or null
                 ["delete", first, end]              how many
                 ["get", first, end, limit]          items
    ["grant", ms]      ─► the lease's number         ["renew", lease]   ["revoke", lease]
    ["compact", revision]                            ["look"]: only the time of this entry matters

Keys are text, in the order of their code points; `end` is the first key that is not meant, "" for
none. Each command that changes something makes one revision; all its changes have it. A lease ends
with the first entry whose time, the log's, has reached its end: no clock is asked, so every node
and each restart removes the same keys at the same revision.
"""

from __future__ import annotations

import base64
import heapq
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, BinaryIO, ClassVar, NamedTuple

from dledger.errors import CommandRefused, Compacted
from dledger.machine.state_machine import Entry, json_bytes
from dledger.objects.frozen import FreezableDict, give_up
from dledger.objects.replicated_object import of_json
from dledger.objects.state_lines import InLines, lines, lists_of, of_list
from dledger.objects.state_sum import checksum_of, hash_of, part_of, sum_anew

_BYTES, _JSON = "b", "j"
_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    ">": lambda a, b: bool(a > b),
}


def text_of(value: object) -> str:
    """A value as text: equal values have equal texts. Raises TypeError, ValueError."""
    if isinstance(value, bytes | bytearray | memoryview):
        return _BYTES + base64.b64encode(value).decode()
    return _JSON + json.dumps(
        value, separators=(",", ":"), ensure_ascii=False, sort_keys=True, allow_nan=False
    )


def value_of(text: str) -> Any:
    """The value that `text_of` wrote: bytes, or JSON's."""
    return base64.b64decode(text[1:]) if text[0] == _BYTES else json.loads(text[1:])


class Item(NamedTuple):
    """A key with its value.

    Attributes:
        text: the value as it is kept; `value` is a copy of it as it was given.
        revision: of the last change of this key; created: of the first one since it was absent.
        version: how many changes since then, this one included.
        lease: with whose end it goes; 0: none.
    """

    key: str
    text: str
    revision: int
    created: int
    version: int
    lease: int

    @property
    def value(self) -> Any:
        """Bytes, or a JSON value."""
        return value_of(self.text)


class Change(NamedTuple):
    """One key at one revision; `item` is None when it was deleted or its lease ended."""

    revision: int
    key: str
    item: Item | None

    @property
    def size(self) -> int:
        """Bytes that history counts for it."""
        return 100 + len(self.key) + (0 if self.item is None else len(self.item.text))


class _Lease(NamedTuple):
    ttl_ms: int
    until_ms: int


class KeyValueMachine(InLines[list[Any], Any]):
    """See the module's text."""

    #: Changes that are kept for watchers, and their bytes; the same on every node.
    history_max: ClassVar[int] = 10_000
    history_bytes_max: ClassVar[int] = 16 << 20

    def __init__(self) -> None:
        self._clear()
        #: Called after each entry and each restored state; not part of it.
        self.listeners: list[Callable[[], None]] = []

    def _clear(self) -> None:
        self.revision = 0
        #: Changes up to this revision are gone.
        self.compacted = 0
        self._all = FreezableDict[str, Item]()
        self._leases = FreezableDict[int, _Lease]()
        self._leased: dict[int, set[str]] = {}
        self._ends: list[tuple[int, int]] = []
        self._history: list[Change] = []
        self._history_bytes = 0
        #: Of items, leases and history; each change keeps them up to date.
        self._items_sum = self._leases_sum = self._history_sum = 0
        self._begun = False

    @property
    def items(self) -> dict[str, Item]:
        """Items by key, for looking."""
        return self._all.values

    # -- reading -----------------------------------------------------------------------------------

    def range(self, first: str, end: str, limit: int = 0) -> list[Item]:
        """Items with keys in the range, by key; `limit`: so many at most, 0 for all."""
        return [self.items[key] for key in self._range(first, end, limit)]

    def changes(self, after: int) -> Sequence[Change]:
        """The changes behind revision `after`, in order. Raises Compacted."""
        if after < self.compacted:
            raise Compacted(after, self.compacted)
        at = bisect_right(self._history, after, key=lambda change: change.revision)
        return self._history[at:]

    @property
    def next_end_ms(self) -> int | None:
        """When a lease ends next, by the log's time; None: there is none."""
        while self._ends and self._is_stale(*self._ends[0]):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def _range(self, first: str, end: str, limit: int) -> list[str]:
        return self._all.keys.between(first, end or None, limit)

    # -- commands ----------------------------------------------------------------------------------

    def apply(self, entry: Entry[list[Any]]) -> Any:
        """End leases that are over by the entry's time, then do its command."""
        try:
            self._expire(entry.time_ms)
            verb, *arguments = entry.command
            if verb == "transact":
                return self._transact(*arguments)
            if verb == "grant":
                return self._set_end(entry.index, arguments[0], entry.time_ms)
            if verb == "look":
                return None
            if verb == "compact":
                return self._compact(arguments[0])
            lease = self._leases.values.get(arguments[0])
            if lease is None:
                raise _no_lease(arguments[0])
            if verb == "renew":
                return self._set_end(arguments[0], lease.ttl_ms, entry.time_ms)
            assert verb == "revoke", f"no command of this class is {verb}"
            return self._end(arguments[0])
        finally:
            self._bound_history()
            for listener in self.listeners:
                listener()

    def _transact(
        self, compares: list[list[Any]], then: list[list[Any]], otherwise: list[list[Any]]
    ) -> list[Any]:
        holds = all(self._holds(*compare) for compare in compares)
        doing = then if holds else otherwise
        for verb, *arguments in doing:
            if verb == "put" and arguments[2] and arguments[2] not in self._leases.values:
                raise _no_lease(arguments[2])
        self._begun = False
        results = [self._do(*one) for one in doing]
        return [holds, self.revision, results]

    def _holds(self, key: str, field: str, relation: str, operand: Any) -> bool:
        item = self.items.get(key)
        if field == "value":
            if item is None:  # absent: other than every value, and none is above or below
                return relation == "!="
            return _RELATIONS[relation](item.text, operand)
        assert field in ("revision", "created", "version"), f"no item has a {field}"
        return _RELATIONS[relation](0 if item is None else getattr(item, field), operand)

    def _do(self, verb: str, first: str, *arguments: Any) -> Any:
        if verb == "put":
            return self._put(first, *arguments)
        if verb == "delete":
            keys = self._range(first, arguments[0], 0)
            for key in keys:
                self._delete(key)
            return len(keys)
        assert verb == "get", f"nothing in a transaction is {verb}"
        return self.range(first, *arguments)

    def _put(self, key: str, text: str, lease: int) -> Item | None:
        revision, before = self._change(), self.items.get(key)
        if before is None:
            item = Item(key, text, revision, revision, 1, lease)
        else:
            item = Item(key, text, revision, before.created, before.version + 1, lease)
            self._let_go(before)
        self._all.put(key, item)
        if lease:
            self._leased[lease].add(key)
        self._items_sum += self._note(Change(revision, key, item))
        return before

    def _delete(self, key: str) -> None:
        revision = self._change()
        self._let_go(self._all.pop(key))
        self._note(Change(revision, key, None))

    def _let_go(self, item: Item) -> None:
        self._items_sum -= _hash_of_item(item)
        if item.lease:
            self._leased[item.lease].discard(item.key)

    # -- leases ------------------------------------------------------------------------------------

    def _set_end(self, number: int, ttl_ms: int, now_ms: int) -> int:
        if number in self._leases.values:
            self._leases_sum -= hash_of([number, *self._leases.values[number]])
        self._leases.put(number, lease := _Lease(ttl_ms, now_ms + ttl_ms))
        self._leases_sum += hash_of([number, *lease])
        self._leased.setdefault(number, set())
        heapq.heappush(self._ends, (now_ms + ttl_ms, number))
        return number

    def _expire(self, now_ms: int) -> None:
        while (end := self.next_end_ms) is not None and end <= now_ms:
            self._end(heapq.heappop(self._ends)[1])

    def _end(self, number: int) -> None:
        self._begun = False
        for key in sorted(self._leased[number]):
            self._delete(key)
        self._leases_sum -= hash_of([number, *self._leases.pop(number)])
        del self._leased[number]

    def _is_stale(self, until_ms: int, number: int) -> bool:
        lease = self._leases.values.get(number)
        return lease is None or lease.until_ms != until_ms

    # -- history -----------------------------------------------------------------------------------

    def _change(self) -> int:
        """The revision of a change: a new one for the first of a command."""
        if not self._begun:
            self.revision += 1
            self._begun = True
        return self.revision

    def _note(self, change: Change) -> int:
        self._history.append(change)
        self._history_bytes += change.size
        added = _hash_of_change(change)
        self._history_sum += added
        return added

    def _bound_history(self) -> None:
        """Forget whole revisions, a tenth more than needed, so that it is seldom done.

        Between commands only: a node that restores a state begins there, with the same history.
        """
        if len(self._history) <= self.history_max and self._history_bytes <= self.history_bytes_max:
            return
        count, size = len(self._history), self._history_bytes
        for change in self._history:
            if count <= self.history_max * 0.9 and size <= self.history_bytes_max * 0.9:
                break
            count, size = count - 1, size - change.size
            self.compacted = change.revision
        self._drop_history()

    def _compact(self, revision: int) -> None:
        if revision > self.revision:
            raise CommandRefused(
                f"revision {revision} is not there yet, {self.revision} is the newest; "
                "give one up to that"
            )
        self.compacted = max(self.compacted, revision)
        self._drop_history()

    def _drop_history(self) -> None:
        first = bisect_right(self._history, self.compacted, key=lambda change: change.revision)
        self._history_sum -= sum(map(_hash_of_change, self._history[:first]))
        self._history = self._history[first:]
        self._history_bytes = sum(change.size for change in self._history)

    # -- states ------------------------------------------------------------------------------------

    def checksum(self) -> int:
        """CRC-32 of the sums of items, leases and history, and of some that it reads anew."""
        sums = self._items_sum, self._leases_sum, self._history_sum
        by = sum(sums)
        parts = (
            sum_anew(
                json_bytes(list(self.items.get(key, ()))) for key in part_of(self._all.keys, by)
            ),
            sum_anew(
                json_bytes([n, *self._leases.values.get(n, ())])
                for n in part_of(self._leases.keys, by)
            ),
            sum_anew(json_bytes(_summed(change)) for change in part_of(self._history, by)),
        )
        counts = len(self._all.keys), len(self.items), len(self._leases.values), len(self._history)
        return checksum_of(self.revision, self.compacted, *counts, *sums, *parts)

    def snapshot(self) -> Callable[[], Iterator[bytes]]:
        """Items, leases and history as they are now; a thread writes them."""
        head = b"[%d,%d,[" % (self.revision, self.compacted)
        items, leases = self._all.freeze(), self._leases.freeze()
        history = of_list(self._history.copy())  # bounded, as a list of millions would take ms

        def parts() -> Iterator[bytes]:
            with closing(items), closing(leases):
                yield head
                yield from lines(items.take, lambda pairs: [item for _, item in pairs])
                yield b"],["
                yield from lines(leases.take, list)
                yield b"],["
                yield from lines(history, list)
                yield b"]]"

        return parts

    def restore_from(self, state: BinaryIO) -> Callable[[], None]:
        """Take another state, on the event loop: watches look at it there."""
        other = type(self)()
        other._fill(state)

        def take() -> None:
            before = vars(self).copy()
            vars(self).update({**vars(other), "listeners": self.listeners})
            give_up(before)
            for listener in self.listeners:
                listener()

        return take

    def _fill(self, state: BinaryIO) -> None:
        head = state.readline()
        if head.endswith(b",[\n"):
            self.revision, self.compacted = of_json(head[:-3] + b"]")
            parts: list[Iterable[Any]] = [lists_of(state) for _ in range(3)]
        else:  # by a release that wrote it in one line
            self.revision, self.compacted, *lists = of_json(head + state.read())
            parts = [[one] for one in lists]
        leased: list[Item] = []
        for found in parts[0]:
            items = [Item(*one) for one in found]
            self._all.extend({item.key: item for item in items})
            self._items_sum += sum(map(_hash_of_item, items))
            leased += [item for item in items if item.lease]
        for found in parts[1]:
            self._leases.extend({number: _Lease(*lease) for number, lease in found})
            self._leases_sum += sum(hash_of([number, *lease]) for number, lease in found)
        self._leased = {number: set() for number in self._leases.values}
        self._ends = [(lease.until_ms, number) for number, lease in self._leases.values.items()]
        heapq.heapify(self._ends)
        for item in leased:
            self._leased[item.lease].add(item.key)
        for found in parts[2]:
            for revision, key, changed in found:
                self._note(Change(revision, key, None if changed is None else Item(*changed)))
        self._drop_history()


def _hash_of_item(item: Item) -> int:
    return hash_of(list(item))


def _hash_of_change(change: Change) -> int:
    return hash_of(_summed(change))


def _summed(change: Change) -> list[Any]:
    """The values that are summed for a change: as for its item, where it has one."""
    revision, key, item = change
    return [revision, key] if item is None else list(item)


def _no_lease(number: int) -> CommandRefused:
    return CommandRefused(f"lease {number} has ended; ask for another one")
