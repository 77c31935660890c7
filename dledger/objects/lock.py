"""Locks with leases and fencing tokens, on any node.

    acquire ─► granted: token 812, until the log's time + lease      held by another: wait
    renew   ─► a later end                    release ─► free at once
    the log's time passes the end ─► free for the next who asks, whose token is larger

A lease ends by the log's time, which leaders write into entries, so all nodes agree on the holder;
no local clock is asked. A holder that was stopped for long cannot know that it lost the lock: give
the token to the resource, and let the resource refuse tokens below the largest that it has seen.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from dledger.config import RaftConfig
from dledger.machine.state_machine import Entry, json_bytes
from dledger.objects.frozen import FreezableDict
from dledger.objects.replicated_object import ReplicatedObject, lease_ms, text
from dledger.objects.state_lines import InLines, dict_parts, dicts_of
from dledger.objects.state_sum import checksum_of, hash_of, part_of, sum_anew

#: Between two looks of a waiter whose wake-up was missed.
LOOK_SECONDS = 0.5


class Held(NamedTuple):
    """The holder of a lock: `token` rises with each grant; `until_ms` is of the log's time."""

    owner: str
    token: int
    until_ms: int


class LockMachine(InLines[list[Any], list[Any]]):
    """Commands [verb, lock, owner, lease ms].

    Results [granted, owner, token, until ms, log's time].
    """

    def __init__(self) -> None:
        self._all = FreezableDict[str, Held]()
        #: Of all locks; each change keeps it up to date.
        self._sum = 0
        #: Set and made anew when a lock may have become free; not part of the state.
        self.changed = asyncio.Event()

    @property
    def locks(self) -> dict[str, Held]:
        """Locks with their holders, for looking."""
        return self._all.values

    def apply(self, entry: Entry[list[Any]]) -> list[Any]:
        """Grant, renew or release."""
        verb, name, owner, lease_ms = entry.command
        now = entry.time_ms
        held = self.locks.get(name)
        if held is not None and held.until_ms <= now:
            self._free(name)
            held = None
        if verb == "acquire":
            if held is None or held.owner == owner:
                token = entry.index if held is None else held.token
                held = self._hold(name, Held(owner, token, now + lease_ms))
                return [True, *held, now]
            return [False, *held, now]
        if held is None or held.owner != owner:
            return [False, "", -1, 0, now]
        if verb == "renew":
            held = self._hold(name, held._replace(until_ms=now + lease_ms))
            return [True, *held, now]
        assert verb == "release", f"no command of this class is {verb}"
        self._free(name)
        self._wake()
        return [True, *held, now]

    def _hold(self, name: str, held: Held) -> Held:
        if name in self.locks:
            self._sum -= hash_of([name, *self.locks[name]])
        self._all.put(name, held)
        self._sum += hash_of([name, *held])
        return held

    def _free(self, name: str) -> None:
        self._sum -= hash_of([name, *self._all.pop(name)])

    def checksum(self) -> int:
        """CRC-32 of the sum of all locks, and of some that it reads anew."""
        part = part_of(self._all.keys, self._sum)
        anew = sum_anew(json_bytes([name, *self.locks.get(name, ())]) for name in part)
        return checksum_of(len(self.locks), self._sum, anew)

    def snapshot(self) -> Callable[[], Iterator[bytes]]:
        """All locks as they are now; a thread writes them."""
        return dict_parts(self._all.freeze())

    def restore_from(self, state: BinaryIO) -> Callable[[], None]:
        """Take other locks, on the event loop: waits for a lock are its."""
        locks, total = FreezableDict[str, Held](), 0
        for found in dicts_of(state):
            locks.extend({name: Held(*held) for name, held in found.items()})
            total += sum(hash_of([name, *held]) for name, held in found.items())

        def take() -> None:
            before = self._all
            self._all, self._sum = locks, total
            before.clear()
            self._wake()

        return take

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Grant(NamedTuple):
    """A lock that is held here. `ends_at`: seconds of the loop's clock, on the careful side."""

    name: str
    owner: str
    token: int
    ends_at: float


class ReplicatedLock(ReplicatedObject[list[Any], list[Any]]):
    """Any number of locks by name; a task that wants one is another owner than every other task."""

    def __init__(self, config: RaftConfig, **options: Any) -> None:
        """`options`: as of `ReplicatedObject`."""
        self._machine = LockMachine()
        super().__init__(config, self._machine, **options)

    async def try_acquire(self, name: str, *, lease: float, owner: str = "") -> Grant | None:
        """The lock for `lease` seconds, or None while another holds it.

        `owner`: a name to be recognised by, also after a restart; else a new one of its own. Who
        holds the lock already gets it again, with the same token. Raises as
        `ReplicatedNode.propose`, LogUsageError for a lease that is none.
        """
        grant, _ = await self._ask("acquire", name, owner or self._new_owner(), lease)
        return grant

    async def acquire(self, name: str, *, lease: float, owner: str = "") -> Grant:
        """The lock for `lease` seconds, as soon as it is free; bound the wait by `asyncio.timeout`.

        Raises as `try_acquire`.
        """
        owner = owner or self._new_owner()
        while True:  # until it is granted, or its task is cancelled
            changed = self._machine.changed
            grant, left = await self._ask("acquire", name, owner, lease)
            if grant is not None:
                return grant
            wait = min(max(left, 0.0), LOOK_SECONDS)
            try:
                await asyncio.wait_for(changed.wait(), wait)
            except TimeoutError:
                continue

    async def renew(self, grant: Grant, *, lease: float) -> Grant | None:
        """The same grant, for `lease` seconds from now; None: it was lost. Raises as `acquire`."""
        renewed, _ = await self._ask("renew", grant.name, grant.owner, lease)
        return None if renewed is None or renewed.token != grant.token else renewed

    async def release(self, grant: Grant) -> bool:
        """Free the lock; False: it was lost before. Raises as `ReplicatedNode.propose`."""
        released, _ = await self._ask("release", grant.name, grant.owner, 1.0)
        return released is not None

    async def holder(self, name: str) -> Held | None:
        """The last one that was granted the lock and has not released it.

        Its lease may be over: that shows with the next command of this lock. Raises as
        `ReplicatedNode.read`.
        """
        return await self.node.read(lambda: self._machine.locks.get(name))

    async def _ask(
        self, verb: str, name: str, owner: str, lease: float
    ) -> tuple[Grant | None, float]:
        """The grant, or None and the seconds that the lock is held for by another."""
        command = [verb, text("a name", name), text("an owner", owner), lease_ms(lease)]
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        granted, by, token, until_ms, now_ms = await self.node.propose(command)
        if granted:
            # The leader's stamp is later than our question, so the lease ends no sooner than this.
            return Grant(name, by, token, asked_at + lease), 0.0
        return None, (until_ms - now_ms) / 1000

    def _new_owner(self) -> str:
        return f"{self.node.config.node_id}/{secrets.token_hex(8)}"
