"""KeyValueStore: keys in order, transactions, watches and leases, on any node.

    put, delete, compare_and_set, transact ─► one entry of the log ─► one revision, on every node
    watch(after=revision) ◄─ every change behind it, once, in order; `Compacted` if it is too old
    grant ─► a lease ─► put(…, lease=…) ─► the key goes when the lease has not been renewed in time

A lease ends by the log's time. The node that leads looks when one is due and writes an entry whose
time ends it, so a key may outlive its lease by an election, and never goes early.
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
from dledger.objects.replicated_object import ReplicatedObject

#: While this node does not lead, or could not end a lease, it looks again after so long.
LOOK_SECONDS = 0.5
#: A lease that is held by `holding` is renewed so often while it lasts.
RENEWALS = 3
_UNSET: Any = object()


class Lease(NamedTuple):
    """`seconds`: how long it lasts after each renewal, by the log's time."""

    number: int
    seconds: float


class Put(NamedTuple):
    """Give a key a value: bytes, or a JSON value. Its result: the `Item` before, or None."""

    key: str
    value: Any
    lease: Lease | None = None


class Delete(NamedTuple):
    """Remove a key, or all that begin with it. Its result: how many."""

    key: str
    prefix: bool = False


class Get(NamedTuple):
    """A key, or all that begin with it. Its result: a list of `Item`, by key."""

    key: str
    prefix: bool = False


class Compare(NamedTuple):
    """Whether a key's `field` stands in `relation` ("=", "!=", "<", ">") to `operand`.

    `field`: "revision", "created" or "version", 0 for a key that is absent; or "value", where an
    absent key is unlike every value. Values are ordered as JSON texts are.
    """

    key: str
    field: str
    relation: str
    operand: Any


class Transacted(NamedTuple):
    """`succeeded`: all compares held. `results`: one of each operation that was done."""

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
        """Give a key a value; the revision. Raises as `transact`."""
        return (await self.transact([Put(key, value, lease)])).revision

    async def delete(self, key: str, *, prefix: bool = False) -> int:
        """Remove a key, or all that begin with it; how many. Raises as `transact`."""
        count: int = (await self.transact([Delete(key, prefix)])).results[0]
        return count

    async def compare_and_set(
        self, key: str, value: Any, *, expected: Any = _UNSET, revision: int | None = None
    ) -> bool:
        """Put, if the key's value is `expected`, or its revision is `revision`; was it done?

        `revision=0`: if the key is absent. Raises as `transact`.
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
        """Do `then` if all of `when` hold, else `otherwise`: all of it at one revision.

        Raises LogUsageError for what cannot be a key, a value or a compare; CommandRefused for a
        lease that has ended (nothing is done); ResultNotKept when what it gets is over
        `result_bytes_max`; else as `ReplicatedNode.propose`.
        """
        compares = list(map(_compared, when))
        command = ["transact", compares, list(map(_done, then)), list(map(_done, otherwise))]
        succeeded, revision, results = await self.node.propose(command)
        done = then if succeeded else otherwise
        return Transacted(succeeded, revision, list(map(_result, done, results)))

    async def compact(self, revision: int) -> None:
        """Forget changes up to this revision. Raises CommandRefused when it is yet to come."""
        await self.node.propose(["compact", revision])

    # -- reads -------------------------------------------------------------------------------------

    async def get(
        self, key: str, consistency: Consistency = Consistency.LINEARIZABLE
    ) -> Item | None:
        """A key with its value and revisions, None without one. Raises as `ReplicatedNode.read`."""
        return await self.node.read(lambda: self._machine.items.get(key), consistency=consistency)

    async def range(
        self,
        first: str = "",
        end: str = "",
        *,
        limit: int = 0,
        consistency: Consistency = Consistency.LINEARIZABLE,
    ) -> list[Item]:
        """Items with first <= key < end, by key, of one moment; `end` "": to the last one.

        `limit`: so many at most, 0 for all. Raises as `get`.
        """
        return await self.node.read(
            lambda: self._machine.range(first, end, limit), consistency=consistency
        )

    async def prefix(
        self, prefix: str, consistency: Consistency = Consistency.LINEARIZABLE
    ) -> list[Item]:
        """Items with keys that begin with `prefix`, by key, of one moment. Raises as `get`."""
        return await self.range(prefix, end_of_prefix(prefix), consistency=consistency)

    async def revision(self, consistency: Consistency = Consistency.LINEARIZABLE) -> int:
        """The newest one; 0 before the first change. Raises as `get`."""
        return await self.node.read(lambda: self._machine.revision, consistency=consistency)

    async def watch(
        self, key: str = "", *, prefix: bool = False, after: int | None = None
    ) -> AsyncIterator[Change]:
        """Every change behind revision `after`, once, in order, until the caller has enough.

        `after`: None for what is new when it begins. Without a key: of all. Pass the revision of
        the last change that was seen to go on at any node, once all changes of it were seen.
        Raises Compacted when changes behind `after` are gone, NodeFailed when the node stops.
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
        if seconds <= 0:
            raise LogUsageError(f"a lease of {seconds} seconds is none; give one above 0")
        return Lease(await self.node.propose(["grant", round(seconds * 1000)]), seconds)

    async def renew(self, lease: Lease) -> bool:
        """The lease lasts its seconds from now; False: it has ended. Raises as `grant`."""
        return await self._with(lease, "renew")

    async def revoke(self, lease: Lease) -> bool:
        """End it, and its keys; False: it had ended before. Raises as `grant`."""
        return await self._with(lease, "revoke")

    @contextlib.asynccontextmanager
    async def holding(self, seconds: float) -> AsyncIterator[Lease]:
        """A lease that is renewed while the block lasts, and revoked at its end.

        It can end inside the block, when no majority was reached in time; `renew` tells. Raises as
        `grant`.
        """
        lease = await self.grant(seconds)
        renewing = self.node.log.owned.create_task(self._renew(lease))
        try:
            yield lease
        finally:
            renewing.cancel()
            with contextlib.suppress(DledgerError):  # then it runs out
                await self.revoke(lease)

    async def _with(self, lease: Lease, verb: str) -> bool:
        try:
            await self.node.propose([verb, lease.number])
        except CommandRefused:
            return False
        return True

    async def _renew(self, lease: Lease) -> None:
        held = True
        while held:
            await asyncio.sleep(lease.seconds / RENEWALS)
            with contextlib.suppress(DledgerError):  # tried again, while it may last
                held = await self.renew(lease)

    async def _end_leases(self) -> None:
        """As leader: write an entry when a lease is due, for its time."""
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
    if not isinstance(key, str):
        raise LogUsageError(f"a key is text, and {key!r} is none; make it a str")
    return key, end_of_prefix(key) if prefix else key + "\0"


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
            one.lease.number if one.lease else 0,
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
