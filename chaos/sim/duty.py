"""Work that a simulated machine does beside its replica: looks at its disk, repairs its log.

SimNode.duties: [DiskDuty, RepairDuty], in the order in which they are told

start       starting ─► the process recovers ─► started
disk work   sync_begins ─► … ─► sync_ended ─► the replica handles it ─► sync_handled
"""

from __future__ import annotations

from dledger.replica.ports import SyncWork


class NodeDuty:
    """One duty of one machine; each hook has no effect where a duty does not need it."""

    def starting(self) -> None:
        """A process is about to recover from the disk."""

    def started(self) -> None:
        """`SimNode.start` returns: the process is up, maybe since before, or could not come up."""

    def sync_begins(self, work: SyncWork) -> None:
        """Disk work is scheduled."""

    def sync_ended(self, work: SyncWork, error: OSError | None) -> None:
        """Disk work has ended, well or with `error`; the replica is told next."""

    def sync_handled(self, work: SyncWork) -> None:
        """The replica has been told of the end of disk work."""
