"""KeyValueStore: ordered keys with transactions, watches and leases; any node takes all calls.

    put, delete, compare_and_set, transact ─► one entry of the log ─► one revision, on every node
    watch(after=revision) ◄─ each later change, once, in order; raises `Compacted` if they are gone
    grant ─► a lease ─► put(…, lease=…) ─► the key is removed unless the lease is renewed in time

Leases run by the log's time (`Entry.time_ms`). When one is due, the leader writes an entry, and the
time of that entry ends the lease. So a key is never removed early; during an election it stays
longer, because no leader is there to write.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from dledger.config import RaftConfig
from dledger.errors import CommandRefused, DledgerError, LogUsageError
from dledger.machine.node import Consistency
from dledger.objects.kv_machine import Change, Item, KeyValueMachine, text_of
from dledger.objects.replicated_object import ReplicatedObject, lease_ms, text, whole

#: A node that does not lead, or could not end a lease that is due, tries again after this time.
LOOK_SECONDS = 0.5
#: How many times `holding` renews within the seconds of its lease.
RENEWALS = 3
_UNSET: Any = object()


class Lease(NamedTuple):
    """A lease of `grant`; each renewal makes it last `seconds` more, by the log's time."""

    number: int
    seconds: float


class Put(NamedTuple):
    """Give a key a value: bytes, or a JSON value. Result: the key's `Item` before, or None."""

    key: str
    value: Any
    lease: Lease | None = None


class Delete(NamedTuple):
    """Remove a key, or all keys that begin with it. Result: the number of keys removed."""

    key: str
    prefix: bool = False


class Get(NamedTuple):
    """Read a key, or all keys that begin with it. Result: a list of `Item`, ordered by key."""

    key: str
    prefix: bool = False


class Compare(NamedTuple):
    """The condition `field` `relation` `operand` on one key; `relation` is "=", "!=", "<" or ">".

    `field`: "revision", "created" or "version", which are 0 for an absent key; or "value", where an
    absent key differs from every value. "<" and ">" compare values by their JSON texts.
    """

    key: str
    field: str
    relation: str
    operand: Any


class Transacted(NamedTuple):
    """Result of `transact`. `succeeded`: all compares held. `results`: one per operation done."""

    succeeded: bool
    revision: int
    results: list[Any]


class KeyValueStore(ReplicatedObject[list[Any], Any]):
    """Keys are text; values are bytes or JSON values, copied in and out."""

    def __init__(self, config: RaftConfig, **options: Any) -> None:
        """`options`: as of `ReplicatedObject`."""
        self._machine = KeyValueMachine()
        super().__init__(config, self._machine, **options)
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """As `ReplicatedNode.start`."""
        await super().start()
        self._looking = self.node.log.owned.create_task(self._end_leases())

    async def close(self) -> None:
        """As `ReplicatedNode.close`; watches end with NodeFailed."""
        if self._looking is not None:
            self._looking.cancel()
        await super().close()
        for listener in self._machine.listeners:
            listener()

    # -- changes -----------------------------------------------------------------------------------

    async def put(self, key: str, value: Any, *, lease: Lease | None = None) -> int:
        """Give a key a value; returns the new revision. Raises as `transact`."""
        return (await self.transact([Put(key, value, lease)])).revision

    async def delete(self, key: str, *, prefix: bool = False) -> int:
        """Remove a key, or all that begin with it; returns how many. Raises as `transact`."""
        count: int = (await self.transact([Delete(key, prefix)])).results[0]
        return count

    async def compare_and_set(
        self, key: str, value: Any, *, expected: Any = _UNSET, revision: int | None = None
    ) -> bool:
        """Put `value` if the key has value `expected` and revision `revision`; True if it was put.

        Give one of the two or both; `revision=0` means an absent key. Raises as `transact`.
        """
        compares = []
        if expected is not _UNSET:
            compares.append(Compare(key, "value", "=", expected))
        if revision is not None:
            compares.append(Compare(key, "revision", "=", revision))
        if not compares:
            raise LogUsageError("nothing to compare with; give `expected`, `revision` or both")
        return (await self.transact([Put(key, value)], when=compares)).succeeded

    async def transact(
        self,
        then: Sequence[Put | Delete | Get],
        *,
        when: Sequence[Compare] = (),
        otherwise: Sequence[Put | Delete | Get] = (),
    ) -> Transacted:
        """Do all of `then` if every condition of `when` holds, else all of `otherwise`.

        All changes get the same revision. Raises LogUsageError for an invalid key, value or
        compare; CommandRefused for a lease that has ended, and then changes nothing; ResultNotKept
        when the results are over `result_bytes_max`; else as `ReplicatedNode.propose`.
        """
        compares = list(map(_compared, when))
        command = ["transact", compares, list(map(_done, then)), list(map(_done, otherwise))]
        succeeded, revision, results = await self.node.propose(command)
        done = then if succeeded else otherwise
        return Transacted(succeeded, revision, list(map(_result, done, results)))

    async def compact(self, revision: int) -> None:
        """Forget changes up to this revision.

        Raises CommandRefused for a future revision, LogUsageError for what is no int.
        """
        await self.node.propose(["compact", whole("a revision", revision)])

    # -- reads -------------------------------------------------------------------------------------

    async def get(
        self, key: str, consistency: Consistency = Consistency.LINEARIZABLE
    ) -> Item | None:
        """A key's value and revisions; None if it is absent. Raises as `ReplicatedNode.read`."""
        return await self.node.read(lambda: self._machine.items.get(key), consistency=consistency)

    async def range(
        self,
        first: str = "",
        end: str = "",
        *,
        limit: int = 0,
        consistency: Consistency = Consistency.LINEARIZABLE,
    ) -> list[Item]:
        """Items with first <= key < end at one revision, ordered by key; `end` "": to the last one.

        `limit`: the most items to return, 0 for all. Raises as `get`.
        """
        return await self.node.read(
            lambda: self._machine.range(first, end, limit), consistency=consistency
        )

    async def prefix(
        self, prefix: str, consistency: Consistency = Consistency.LINEARIZABLE
    ) -> list[Item]:
        """Items with keys that begin with `prefix`, as of `range`. Raises as `get`."""
        return await self.range(prefix, end_of_prefix(prefix), consistency=consistency)

    async def revision(self, consistency: Consistency = Consistency.LINEARIZABLE) -> int:
        """The newest revision; 0 before the first change. Raises as `get`."""
        return await self.node.read(lambda: self._machine.revision, consistency=consistency)

    async def watch(
        self, key: str = "", *, prefix: bool = False, after: int | None = None
    ) -> AsyncIterator[Change]:
        """Each change to `key` after revision `after`, once, in order, until the caller stops.

        `after` None: only changes from now on. Without a key: changes to all keys. To go on later,
        at any node, pass the last revision of which you have seen every change. Raises Compacted
        when changes after `after` are gone, NodeFailed when the node stops.
        """
        machine = self._machine
        if after is None:
            after = await self.revision()
        first, end = _span(key, prefix or not key)
        changed = asyncio.Event()
        failed = self.node.log.driver.failed

        def ended(_: object) -> None:
            changed.set()

        failed.add_done_callback(ended)
        machine.listeners.append(changed.set)
        try:
            while True:  # until the caller has enough, or the node stops
                changed.clear()
                changes = machine.changes(after)
                for change in changes:
                    if first <= change.key and (not end or change.key < end):
                        yield change
                    after = change.revision
                if not changes:
                    if self.node.failure is not None:
                        raise self.node.failure
                    await changed.wait()
        finally:
            failed.remove_done_callback(ended)
            machine.listeners.remove(changed.set)

    # -- leases ------------------------------------------------------------------------------------

    async def grant(self, seconds: float) -> Lease:
        """A lease for so many seconds. Raises LogUsageError, and as `ReplicatedNode.propose`."""
        return Lease(await self.node.propose(["grant", lease_ms(seconds)]), seconds)

    async def renew(self, lease: Lease) -> bool:
        """Make the lease last its seconds from now; False: it has ended. Raises as `grant`."""
        return await self._with(lease, "renew")

    async def revoke(self, lease: Lease) -> bool:
        """End the lease and remove its keys; False: it had ended before. Raises as `grant`."""
        return await self._with(lease, "revoke")

    @contextlib.asynccontextmanager
    async def holding(self, seconds: float) -> AsyncIterator[Lease]:
        """A lease that is renewed while the block lasts, and revoked at its end.

        The lease ends inside the block if no majority was reached in time: `renew` then returns
        False. Raises as `grant`.
        """
        lease = await self.grant(seconds)
        renewing = self.node.log.owned.create_task(self._renew(lease))
        try:
            yield lease
        finally:
            renewing.cancel()
            with contextlib.suppress(DledgerError):  # without a majority it runs out by itself
                await self.revoke(lease)

    async def _with(self, lease: Lease, verb: str) -> bool:
        try:
            await self.node.propose([verb, whole("a lease", lease.number)])
        except CommandRefused:
            return False
        return True

    async def _renew(self, lease: Lease) -> None:
        held = True
        while held:
            await asyncio.sleep(lease.seconds / RENEWALS)
            with contextlib.suppress(DledgerError):  # the next turn tries again
                held = await self.renew(lease)

    async def _end_leases(self) -> None:
        """As leader, write an entry when a lease is due, because the entry's time ends it."""
        changed = asyncio.Event()
        self._machine.listeners.append(changed.set)
        while self.node.failure is None:
            changed.clear()
            end_ms = self._machine.next_end_ms
            if end_ms is None:
                await changed.wait()
                continue
            left = (end_ms - self.node.log.driver.clock.time_ms()) / 1000
            if left <= 0 and self.node.is_leader:
                with contextlib.suppress(DledgerError):
                    await self.node.propose(["look"])
                    continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), left if left > 0 else LOOK_SECONDS)


def end_of_prefix(prefix: str) -> str:
    """The first key behind all that begin with `prefix`; "" for none."""
    last = "\U0010ffff"
    begun = prefix.rstrip(last)
    if not begun:
        return ""
    after = ord(begun[-1]) + 1
    return begun[:-1] + chr(0xE000 if after == 0xD800 else after)  # no text has surrogates


def _span(key: str, prefix: bool) -> tuple[str, str]:
    return text("a key", key), end_of_prefix(key) if prefix else key + "\0"


def _compared(compare: Compare) -> list[Any]:
    key, field, relation, operand = compare
    is_value = field == "value"
    if (
        field not in ("value", "revision", "created", "version")
        or relation not in ("=", "!=", "<", ">")
        or not (is_value or isinstance(operand, int))
    ):
        raise LogUsageError(f"{compare} compares nothing; see `Compare`")
    return [_span(key, False)[0], field, relation, _text(operand) if is_value else operand]


def _done(one: Put | Delete | Get) -> list[Any]:
    if isinstance(one, Put):
        return [
            "put",
            _span(one.key, False)[0],
            _text(one.value),
            whole("a lease", one.lease.number) if one.lease else 0,
        ]
    if isinstance(one, Delete):
        return ["delete", *_span(one.key, one.prefix)]
    return ["get", *_span(one.key, one.prefix)]


def _text(value: Any) -> str:
    try:
        return text_of(value)
    except (TypeError, ValueError) as error:
        raise LogUsageError(f"a value is neither bytes nor JSON's: {error}") from error


def _result(one: Put | Delete | Get, result: Any) -> Any:
    if isinstance(one, Put):
        return None if result is None else Item(*result)
    return result if isinstance(one, Delete) else [Item(*item) for item in result]
