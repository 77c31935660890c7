"""Space on this node's disk: its use, and failed saves; producers are refused while it is full.

look (once a second) ─► used_ratio ─┐
deriving rests       ─► its reason ─┼─► refuse_sends (L5)
a file was not saved ─► its name   ─┘   └─► the replica, which lets another node lead
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from cluster.broker.kernel.live_settings import LiveSettings
from cluster.broker.kernel.ports import LogPort
from cluster.errors import ClusterError, ServiceNotAvailable
from commitlog.files.system import FileSystem

_log = logging.getLogger(__name__)


class DiskSpace:
    """`used_ratio`: between 0 and 1, as it was at the last look."""

    def __init__(
        self,
        live: LiveSettings,
        files: FileSystem,
        log: LogPort,
        *,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._live, self._files, self._log = live, files, log
        self._call_soon = call_soon
        self.used_ratio = 0.0
        self._deriving = ""
        self._unsaved: dict[str, str] = {}

    def look(self) -> None:
        """Measure the disk, and tell the replica."""
        self.used_ratio = self._files.usage(self._live.now.root).used_ratio
        self._tell()

    def deriving_rests(self, why: str) -> None:
        """Queues and key index found no space, for the reason `why`; "" when they go on."""
        changed = bool(why) != bool(self._deriving)
        self._deriving = why
        if changed:
            self._call_soon(self._tell)  # not from inside the replica

    def saved(self, name: str, no_space: str) -> None:
        """`name` was saved, or not, for the reason `no_space`."""
        if no_space:
            _log.error("no space to write %s: %s", name, no_space)
            self._unsaved[name] = no_space
        else:
            self._unsaved.pop(name, None)

    @property
    def is_unsaved(self) -> bool:
        """True while something that had to be saved found no space."""
        return bool(self._unsaved)

    def refuse_sends(self) -> ClusterError | None:
        """Why producers are refused now (L5), or None."""
        why = self._why()
        return ServiceNotAvailable(why) if why else None

    def _why(self) -> str:
        """The sentence about a full disk, "" when there is space."""
        if self._deriving:
            return self._deriving
        if self._unsaved:
            name, error = next(iter(self._unsaved.items()))
            return f"there was no space to write {name} ({error}); free some space"
        limit = self._live.now.disk_full_ratio
        if self.used_ratio <= limit:
            return ""
        return (
            f"the disk is {self.used_ratio:.0%} full and producers are refused above "
            f"{limit:.0%}; free some space"
        )

    def _tell(self) -> None:
        """The replica learns whether there is space; when deriving rests, it takes no entries."""
        self._log.driver.report_disk_space(self._why(), self._deriving)
