"""What happens now and then: checkpoints, exports, idle connections, lost clients, disk room."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cluster.broker.client_requests import left
from cluster.broker.derived import DerivedStore
from cluster.broker.exports import Exports
from cluster.broker.server import ClientServer
from cluster.broker.services import Services
from cluster.errors import ClusterError, ServiceNotAvailable
from commitlog.files import FileSystem

PERIOD_SECONDS = 1.0
SWEEP_SECONDS = 10.0  # idle connections and silent clients; their limits are minutes

_log = logging.getLogger(__name__)


class Housekeeping:
    """One task. A disk that refuses a checkpoint or an export stops the node (`failed`)."""

    def __init__(
        self,
        services: Services,
        server: ClientServer,
        exports: Exports,
        files: FileSystem,
        *,
        failed: Callable[[BaseException], None],
    ) -> None:
        self._services, self._server, self._exports = services, server, exports
        self._files, self._failed = files, failed
        self._task: asyncio.Task[None] | None = None
        self._checkpointed_at = self._exported_at = self._swept_at = services.now()
        self._checkpoint_position = services.state.position
        self._saving = asyncio.Lock()
        self.disk_used_ratio = 0.0
        self.checkpoints = 0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def refuse_sends(self) -> ClusterError | None:
        """Why producers are refused now (D6): a full disk."""
        limit = self._services.config.disk_full_ratio
        if self.disk_used_ratio <= limit:
            return None
        return ServiceNotAvailable(
            f"the disk is {self.disk_used_ratio:.0%} full and producers are refused above "
            f"{limit:.0%}; free some space"
        )

    async def _run(self) -> None:
        try:
            while True:  # until `stop`
                await self._once()
                await asyncio.sleep(PERIOD_SECONDS)
        except Exception as error:
            _log.critical("housekeeping failed", exc_info=error)
            self._failed(error)

    async def _once(self) -> None:
        services, config = self._services, self._services.config
        now = services.now()
        usage = self._files.usage(config.root)
        self.disk_used_ratio = 1 - usage.free / usage.total if usage.total else 0.0
        if now - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = now
            self._server.close_idle()
            left(services, services.registry.expire(now))
        if now - self._exported_at >= config.export_seconds:
            self._exported_at = now
            await self.export()
        written = services.state.position - self._checkpoint_position
        if now - self._checkpointed_at >= config.checkpoint_seconds or (
            written >= config.checkpoint_bytes
        ):
            await self.checkpoint()

    async def checkpoint(self) -> None:
        """Save queues, index and state; not before the log itself is on disk so far."""
        services, derived = self._services, self._services.derived
        async with self._saving:
            if not derived.checkpoint_due or not _log_is_on_disk(services, derived):
                return
            task = derived.begin_checkpoint()
            self._checkpoint_position = services.state.position
            self._checkpointed_at = services.now()
            await asyncio.to_thread(task.run)
            derived.finish_checkpoint(task)
            self.checkpoints += 1

    async def export(self) -> None:
        """Bring config/*.json up to date."""
        async with self._saving:
            task = self._exports.capture()
            await asyncio.to_thread(task.run)


def _log_is_on_disk(services: Services, derived: DerivedStore) -> bool:
    return services.log.store.flushed >= derived.dispatched
