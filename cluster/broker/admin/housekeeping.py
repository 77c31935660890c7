"""Periodic work of a broker: checkpoints, exports, idle connections, lost clients, disk space, log
files that are no longer kept, and the leaders that were seen.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from cluster.broker.admin.exports import Exports
from cluster.broker.admin.lead_file import LeadFile
from cluster.broker.admin.ports import AdminPorts
from cluster.broker.admin.retention import Retention
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.core.groups import Change
from commitlog.files.system import is_out_of_space

PERIOD_SECONDS = 1.0
# Deriving so much anew takes some tenths of a second.
START_CHECKPOINT_BYTES = 16 << 20
SWEEP_SECONDS = 10.0  # idle connections and silent clients; their limits are minutes


class Housekeeping:
    """One task. A disk that refuses a checkpoint or an export stops the node (`failed`).

    But for one that is full: then producers are refused, another node leads if it has space, and
    the next round tries again (`DiskSpace`; `DerivedStore.space` for what is derived).
    """

    def __init__(
        self,
        ports: AdminPorts,
        exports: Exports,
        retention: Retention,
        leads: LeadFile,
        *,
        close_idle: Callable[[], None],
        clients_left: Callable[[Change], None],
    ) -> None:
        """`close_idle` closes connections that are silent for too long.

        `clients_left` learns which clients were not heard for too long.
        """
        self._ports, self._exports, self._close_idle = ports, exports, close_idle
        self.retention, self._leads = retention, leads
        self._clients_left = clients_left
        self._checkpointed_at = self._exported_at = self._swept_at = ports.now()
        self._checkpoint_position = ports.state.position
        self._saving = asyncio.Lock()
        self.checkpoints = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep house once a second within."""
        task = self._ports.owned.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._leads.save()

    async def _run(self) -> None:
        while True:  # until it is cancelled
            await self._once()
            await asyncio.sleep(PERIOD_SECONDS)

    async def _once(self) -> None:
        ports, config = self._ports, self._ports.live.now
        now = ports.now()
        ports.daily_totals.look(ports.now_ms())
        ports.access.look_again()
        ports.disk.look()
        await self._leads.save()
        if now - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = now
            self._close_idle()
            self._clients_left(ports.registry.expire(now))
            self.retention.look()
        if now - self._exported_at >= config.export_seconds or ports.disk.is_unsaved:
            self._exported_at = now
            await self.export()
        written = ports.state.position - self._checkpoint_position
        if now - self._checkpointed_at >= config.checkpoint_seconds or (
            written >= config.checkpoint_bytes or ports.disk.is_unsaved or self._long_start(written)
        ):
            await self.checkpoint()

    def _long_start(self, written: int) -> bool:
        """Much was derived anew since the start, and that is done: the next start has it easier.

        Else a node that is killed again and again within `checkpoint_seconds` would derive more at
        each start, and lead later.
        """
        behind = self._ports.derived.behind
        return (
            self.checkpoints == 0
            and written >= START_CHECKPOINT_BYTES
            and behind <= self._ports.config.dispatch_lag_max
        )

    async def checkpoint(self) -> None:
        """Save queues, index and state; not before the log itself is on disk so far."""
        ports, derived = self._ports, self._ports.derived
        async with self._saving:
            if not derived.checkpoint_due:
                return
            files = derived.files
            for _ in range(files.part_count):  # queues that change meanwhile are of the last part
                part = files.begin_part()
                if part is None:
                    break
                await asyncio.to_thread(part)
            if not derived.checkpoint_due or not _log_is_on_disk(ports, derived):
                return  # deriving may have stopped meanwhile
            task = derived.begin_checkpoint()
            self._checkpoint_position = ports.state.position
            self._checkpointed_at = ports.now()
            await asyncio.to_thread(task.run)
            ports.disk.saved("a checkpoint", task.no_room)
            derived.finish_checkpoint(task)
            if not task.no_room:
                self.checkpoints += 1

    async def export(self) -> None:
        """Bring config/*.json up to date."""
        ports = self._ports
        async with self._saving:
            task = self._exports.capture()
            try:
                await asyncio.to_thread(task.run)
            except OSError as error:
                if not is_out_of_space(error):
                    raise
                self._exports.again(task)
                ports.disk.saved("config/*.json", str(error))
            else:
                ports.disk.saved("config/*.json", "")


def _log_is_on_disk(ports: AdminPorts, derived: DerivedStore) -> bool:
    return ports.log.store.flushed >= derived.dispatched
