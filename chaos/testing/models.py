"""The ready objects, each written a second time, to be seen through.

Nothing of the objects' own text is used, so a rule that one of them gets wrong on all nodes alike
is found, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dledger.errors import CommandRefused
from dledger.machine.state_machine import Entry


class CounterModel:
    """All numbers that were added."""

    def __init__(self) -> None:
        self.added: list[int] = []

    def apply(self, entry: Entry[int]) -> int:
        """The sum so far."""
        self.added.append(entry.command)
        return sum(self.added)

    def look(self, question: Any) -> int:
        """The sum."""
        return sum(self.added)


class DictModel:
    """Pairs of the past, the newest of a key last; None: it has none."""

    def __init__(self) -> None:
        self.past: list[tuple[str, Any]] = []

    def now(self) -> dict[str, Any]:
        """Keys that have a value."""
        return {key: value for key, value in dict(self.past).items() if value is not None}

    def apply(self, entry: Entry[list[Any]]) -> Any:
        """The value before; of `setdefault` the value that counts from now on."""
        verb, *rest = entry.command
        if verb == "update":
            self.past += rest[0].items()
            return None
        key, *values = rest
        before = self.now().get(key)
        if verb == "setdefault" and before is not None:
            return before
        self.past.append((key, values[0] if values else None))
        return values[0] if verb == "setdefault" else before

    def look(self, question: Any) -> Any:
        """The value of a key, or everything."""
        return self.now() if question == "items" else self.now().get(question)


class Granted(NamedTuple):
    """One grant of a lock, or its renewal; `until_ms`: 0 when it was given back."""

    owner: str
    token: int
    until_ms: int


class LockModel:
    """All grants, renewals and releases of each lock, the newest last."""

    def __init__(self) -> None:
        self.granted: dict[str, list[Granted]] = {}

    def apply(self, entry: Entry[list[Any]]) -> list[Any]:
        """At most one owner has a lease that lasts; another grant has a token that is new."""
        verb, name, owner, lease_ms = entry.command
        past, now = self.granted.setdefault(name, []), entry.time_ms
        holds = bool(past) and past[-1].until_ms > now
        if past and not holds:
            past.append(past[-1]._replace(until_ms=0))
        until = 0 if verb == "release" else now + lease_ms
        if holds and past[-1].owner == owner:
            was = past[-1]
            past.append(Granted(owner, was.token, until))
            return [True, owner, was.token, was.until_ms if verb == "release" else until, now]
        if verb != "acquire":
            return [False, "", -1, 0, now]
        if holds:
            return [False, *past[-1], now]
        past.append(Granted(owner, entry.index, until))
        tokens = [one.token for one in past]
        assert tokens == sorted(tokens), f"tokens of {name} do not rise: {tokens}"
        return [True, owner, entry.index, until, now]

    def look(self, question: Any) -> Any:
        """The last grant, unless it was given back, or a command came behind its end."""
        past = self.granted.get(question)
        return list(past[-1]) if past and past[-1].until_ms else None


class Changed(NamedTuple):
    """One change of a key; `item`: [key, text, revision, created, version, lease] or None."""

    revision: int
    key: str
    item: list[Any] | None


class KeyValueModel:
    """All changes since the beginning; the present state is found by going through them."""

    def __init__(self) -> None:
        self.past: list[Changed] = []
        self.leases: dict[int, tuple[int, int]] = {}
        self.compacted = 0

    @property
    def revision(self) -> int:
        """The newest."""
        return self.past[-1].revision if self.past else 0

    def items(self) -> dict[str, list[Any]]:
        """All that are there, by key."""
        newest = {change.key: change.item for change in self.past}
        return {key: item for key, item in sorted(newest.items()) if item is not None}

    def apply(self, entry: Entry[list[Any]]) -> Any:
        """End leases that are over, the oldest end first; then the command."""
        index, now = entry.index, entry.time_ms
        for until, number in sorted((until, number) for number, (_, until) in self.leases.items()):
            if until <= now:
                self._end(number)
        verb, *rest = entry.command
        if verb == "transact":
            return self._transact(*rest)
        if verb == "look":
            return None
        if verb == "grant":
            self.leases[index] = (rest[0], now + rest[0])
            return index
        if verb == "compact":
            if rest[0] > self.revision:
                raise CommandRefused("it is yet to come")
            self.compacted = max(self.compacted, rest[0])
            return None
        if rest[0] not in self.leases:
            raise CommandRefused("it has ended")
        if verb == "revoke":
            self._end(rest[0])
            return None
        length, _ = self.leases[rest[0]]
        self.leases[rest[0]] = (length, now + length)
        return rest[0]

    def _end(self, number: int) -> None:
        del self.leases[number]
        revision = self.revision + 1
        gone = [key for key, item in self.items().items() if item[5] == number]
        self.past += [Changed(revision, key, None) for key in gone]

    def _transact(self, compares: Any, then: Any, otherwise: Any) -> Any:
        holds = all(self._holds(*compare) for compare in compares)
        doing = then if holds else otherwise
        if any(one[0] == "put" and one[3] and one[3] not in self.leases for one in doing):
            raise CommandRefused("a lease has ended")
        revision = self.revision + 1
        results: list[Any] = []
        for verb, first, *rest in doing:
            items = self.items()
            if verb == "put":
                text, lease = rest
                before = items.get(first)
                created, version = (before[3], before[4]) if before else (revision, 0)
                item = [first, text, revision, created, version + 1, lease]
                self.past.append(Changed(revision, first, item))
                results.append(before)
                continue
            inside = self._range(first, *rest)
            if verb == "delete":
                self.past += [Changed(revision, item[0], None) for item in inside]
            results.append(inside if verb == "get" else len(inside))
        return [holds, self.revision, results]

    def _range(self, first: str, end: str, limit: int = 0) -> list[list[Any]]:
        inside = [
            item for key, item in self.items().items() if key >= first and (not end or key < end)
        ]
        return inside[:limit] if limit else inside

    def _holds(self, key: str, field: str, relation: str, operand: Any) -> bool:
        item = self.items().get(key)
        if field == "value":
            if item is None:
                return relation == "!="
            own = item[1]
        else:
            at = {"revision": 2, "created": 3, "version": 4}[field]
            own = item[at] if item else 0
        found = "=" if own == operand else "<" if own < operand else ">"
        return found != "=" if relation == "!=" else found == relation

    def look(self, question: Any) -> Any:
        """["get", key], ["range", first, end, limit], ["revision"] or ["changes", after]."""
        verb, *rest = question
        if verb == "get":
            return self.items().get(rest[0])
        if verb == "range":
            return self._range(*rest)
        if verb == "revision":
            return self.revision
        if rest[0] < self.compacted:
            return ["compacted", self.compacted]
        return [list(change) for change in self.past if change.revision > rest[0]]
