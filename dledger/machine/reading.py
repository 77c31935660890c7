"""A read waits out an election, as a command does, and sees the state when a leader proves it.

the log proves how new the state is ─► it is read
            └► no leader, or none with a majority ─► a leader is known again ─► once more
                                                └► its time is over: the last error
"""

from __future__ import annotations

import asyncio
import contextlib

from dledger.errors import DledgerError
from dledger.runtime.replicated_log import ReplicatedLog

#: Seconds between two attempts at least: a follower knows a leader that is gone a while longer.
PAUSE_SECONDS = 0.05


async def read_barrier(log: ReplicatedLog, staleness: float, seconds: float) -> None:
    """As `ReplicatedLog.read_barrier`, again and again until `seconds` are over.

    Raises the last error then; and one that is not retriable, as NodeFailed, at once.
    """
    clock = asyncio.get_running_loop().time
    ends = clock() + seconds
    while True:  # until `ends`, or an error that is not retriable
        try:
            await log.read_barrier(staleness)
            return
        except DledgerError as error:
            if not error.retriable or clock() >= ends:
                raise
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(ends):
                await asyncio.sleep(PAUSE_SECONDS)
                await log.wait_for_leader()
