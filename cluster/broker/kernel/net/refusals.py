"""Errors of the log and the store as errors of the service: same certainty, same advice."""

from __future__ import annotations

from cluster import errors as service
from commitlog import errors as store
from dledger import errors as log


def to_service_error(error: Exception, leader: str | None = None) -> service.ClusterError:
    """The error for the client. `leader`: client address of the current leader, when known."""
    match error:
        case service.ClusterError():
            return error
        case log.NotLeader():
            return service.NotLeader("", leader)
        case log.Transferring():
            return service.PlannedMove(str(error))
        case log.SequenceGap():
            return service.SequenceGap(str(error))
        case log.QueueFull():
            return service.QueueFull(str(error))
        case log.EntryTooLarge() | store.MessageTooLarge():
            return service.MessageTooLarge(str(error))
        case log.LogUsageError() | store.StoreUsageError():
            return service.InvalidRequest(str(error))
        case log.OutcomeUnknown():
            return service.LeaderLostWhileWaiting(str(error))
        case log.DiskFull() | log.NodeFailed() | store.StoreError() | OSError():
            return service.ServiceNotAvailable(str(error))
        case _:
            return service.ServerError(f"{type(error).__name__}: {error}")
