"""Why a backup cannot be made, read, or restored."""

from __future__ import annotations

from commitlog.advice import Advised


class BackupError(Advised):
    """The backup is as it was before; the text gives one thing to try."""

    advice = "dledger backup verify tells more"
    retriable = False
    exit_code = 1


class BackupGap(BackupError):
    """The log's beginning is gone, and with it entries that the backup does not have."""

    advice = "begin another backup in an empty place, and make them more often"


class BackupDamaged(BackupError):
    """A part of the backup is missing, or is not the one that was written."""

    advice = "restore from a copy of the backup, or begin another one while the cluster lives"


class PlaceFailed(BackupError):
    """The store where the backup lies does not do as it is asked."""

    advice = "check the keys, the bucket and the endpoint"
    retriable = True
    exit_code = 4


class BackupBusy(BackupError):
    """Another command has changed the same backup meanwhile."""

    advice = "let one command at a time write to it"
    retriable = True
    exit_code = 4
