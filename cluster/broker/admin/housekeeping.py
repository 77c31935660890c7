"""What happens now and then: checkpoints, exports, idle connections, lost clients, disk room,
log files that are no longer kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cluster.broker.admin.exports import Exports
from cluster.broker.admin.ports import AdminPorts
from cluster.broker.admin.retention import Retention
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.net.server import ClientServer
from cluster.core.groups import Change
from cluster.errors import ClusterError, ServiceNotAvailable
from commitlog.files.system import FileSystem, is_out_of_space

PERIOD_SECONDS = 1.0
# Deriving so much anew takes some tenths of a second.
START_CHECKPOINT_BYTES = 16 << 20
SWEEP_SECONDS = 10.0  # idle connections and silent clients; their limits are minutes

_log = logging.getLogger(__name__)


class Housekeeping:
    """One task. A disk that refuses a checkpoint or an export stops the node (`failed`).

    But for one that is full: then producers are refused, another node leads if it has room, and
    the next round tries again (`DerivedStore.room` for what is derived).
    """

    def __init__(
        self,
        ports: AdminPorts,
        server: ClientServer,
        exports: Exports,
        files: FileSystem,
        retention: Retention,
        clients_left: Callable[[Change], None],
    ) -> None:
        """`clients_left` is told of clients that were not heard for too long."""
        self._ports, self._server, self._exports = ports, server, exports
        self._files, self.retention = files, retention
        self._clients_left = clients_left
        self._task: asyncio.Task[None] | None = None
        self._checkpointed_at = self._exported_at = self._swept_at = ports.now()
        self._checkpoint_position = ports.state.position
        self._saving = asyncio.Lock()
        self.disk_used_ratio = 0.0
        self._no_room: dict[str, str] = {}
        self.checkpoints = 0
        ports.derived.room.told = self.tell_room

    def start(self) -> None:
        self._task = self._ports.owned.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def refuse_sends(self) -> ClusterError | None:
        """Why producers are refused now (L5): a full disk."""
        why = self._why_low()
        return ServiceNotAvailable(why) if why else None

    def _why_low(self) -> str:
        """The sentence about a full disk, "" when there is room."""
        if self._ports.derived.room.why:
            return self._ports.derived.room.why
        if self._no_room:
            what, error = next(iter(self._no_room.items()))
            return f"there was no room to write {what} ({error}); free some space"
        limit = self._ports.config.disk_full_ratio
        if self.disk_used_ratio <= limit:
            return ""
        return (
            f"the disk is {self.disk_used_ratio:.0%} full and producers are refused above "
            f"{limit:.0%}; free some space"
        )

    def tell_room(self) -> None:
        """The replica, whether there is room: without any for what is derived, it takes nothing."""
        ports = self._ports
        ports.log.driver.short_of_room(self._why_low(), ports.derived.room.why)

    def _wrote(self, what: str, no_room: str) -> None:
        """Whether there was room for it this time."""
        if no_room:
            _log.error("no room to write %s: %s", what, no_room)
            self._no_room[what] = no_room
        else:
            self._no_room.pop(what, None)

    async def _run(self) -> None:
        while True:  # until `stop`
            await self._once()
            await asyncio.sleep(PERIOD_SECONDS)

    async def _once(self) -> None:
        ports, config = self._ports, self._ports.config
        now = ports.now()
        ports.daily_totals.look(ports.now_ms())
        if ports.access is not None:
            ports.access.look_again()
        self.disk_used_ratio = self._files.usage(config.root).used_ratio
        self.tell_room()
        if now - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = now
            self._server.close_idle()
            self._clients_left(ports.registry.expire(now))
            self.retention.look()
        if now - self._exported_at >= config.export_seconds or self._no_room:
            self._exported_at = now
            await self.export()
        written = ports.state.position - self._checkpoint_position
        if now - self._checkpointed_at >= config.checkpoint_seconds or (
            written >= config.checkpoint_bytes or self._no_room or self._long_start(written)
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
            if not derived.checkpoint_due or not _log_is_on_disk(ports, derived):
                return
            task = derived.begin_checkpoint()
            self._checkpoint_position = ports.state.position
            self._checkpointed_at = ports.now()
            await asyncio.to_thread(task.run)
            self._wrote("a checkpoint", task.no_room)
            derived.finish_checkpoint(task)
            if not task.no_room:
                self.checkpoints += 1

    async def export(self) -> None:
        """Bring config/*.json up to date."""
        async with self._saving:
            task = self._exports.capture()
            try:
                await asyncio.to_thread(task.run)
            except OSError as error:
                if not is_out_of_space(error):
                    raise
                self._exports.again(task)
                self._wrote("config/*.json", str(error))
            else:
                self._wrote("config/*.json", "")


def _log_is_on_disk(ports: AdminPorts, derived: DerivedStore) -> bool:
    return ports.log.store.flushed >= derived.dispatched
