"""The common part of the objects: a state machine of theirs on a node of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from commitlog.files.system import OS_FILES, FileSystem
from dledger.config import RaftConfig
from dledger.errors import LogUsageError
from dledger.machine.node import ReplicatedNode
from dledger.machine.settings import MachineSettings
from dledger.machine.state_machine import ReplicatedStateMachine
from dledger.runtime.clock import Clock
from dledger.runtime.lifetime import Lifetime
from dledger.runtime.parts import Parts

C = TypeVar("C")
R = TypeVar("R")


class ReplicatedObject(Lifetime, Generic[C, R]):
    """`async with` starts and stops its node.

    Attributes:
        node: for its status, its members and reads of one's own.
    """

    def __init__(
        self,
        config: RaftConfig,
        machine: ReplicatedStateMachine[C, R],
        *,
        create: bool = False,
        settings: MachineSettings | None = None,
        files: FileSystem = OS_FILES,
        clock: Clock | None = None,
        extend: Callable[[Parts], Parts] | None = None,
    ) -> None:
        """As of `ReplicatedNode`."""
        self.node = ReplicatedNode(
            config,
            machine,
            create=create,
            settings=settings,
            files=files,
            clock=clock,
            extend=extend,
        )

    async def start(self) -> None:
        """As `ReplicatedNode.start`."""
        await self.node.start()

    async def close(self) -> None:
        """As `ReplicatedNode.close`."""
        await self.node.close()


#: Seconds of the longest lease, some 30,000 years.
LEASE_SECONDS_MAX = 1e12


def text(what: str, value: str) -> str:
    """The value, if it is text. Raises LogUsageError.

    What no node can apply stops them all, so callers are told before it is proposed.
    """
    if not isinstance(value, str):
        raise LogUsageError(f"{what} is text, and {value!r} is none; make it a str")
    return value


def whole(what: str, value: int) -> int:
    """The value, if it is a whole number. Raises LogUsageError, as `text` does."""
    if not isinstance(value, int):
        raise LogUsageError(f"{what} is a whole number, and {value!r} is none; make it an int")
    return value


def lease_ms(seconds: float) -> int:
    """Milliseconds of a lease. Raises LogUsageError, as `text` does."""
    if not isinstance(seconds, int | float) or not 0 < seconds <= LEASE_SECONDS_MAX:
        raise LogUsageError(
            f"a lease of {seconds!r:.50} seconds is none; give one above 0, up to "
            f"{LEASE_SECONDS_MAX:.0e}"
        )
    return round(seconds * 1000)


def as_json(state: object) -> bytes:
    """A state of JSON's types as bytes."""
    return json.dumps(state, separators=(",", ":"), ensure_ascii=False).encode()


def of_json(state: bytes) -> Any:
    """The state that `as_json` wrote."""
    return json.loads(state)
