"""Directory tree of a store root, its lock, and the file that tells a crash from a clean exit.

    <root>/lock           exclusive fcntl lock on bytes 0..1; holds the 4 bytes "lock"; stays
           abort          process id as text: present while the store is open, and after a crash
           abort.bak      what `abort` held before
           checkpoint     flush times (checkpoint.py)
           dispatched     the dispatch mark (dispatch_mark.py); not in RocketMQ
           staging/       half-made files; may be emptied at any time; not in RocketMQ
           commitlog/<20 digits>
           consumequeue/<topic>/<queue id>/<20 digits>
           consumequeue_ext/…  batchconsumequeue/…  index/<17 digits>  config/*.json
           leaders.json   the leaders that a broker has seen (its own; not in RocketMQ)
           dledger-<id>/  the replicated log, in a node's root

The lock is taken before any other file is touched (docs/spec/store.md 5.2, 8). No other code of the
process may open the lock file: closing any descriptor of it would drop this process's lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from commitlog.errors import StoreFailed, StoreLocked
from commitlog.files.system import FileSystem, is_out_of_space
from commitlog.files.system import Lock as StoreLock
from commitlog.recovery.checkpoint import FILE_SIZE as CHECKPOINT_SIZE
from commitlog.recovery.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint

__all__ = [
    "StoreLayout",
    "StoreLock",
    "lock_store",
    "read_checkpoint",
    "remove_abort",
    "was_clean",
    "write_abort",
    "write_checkpoint",
]


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """Paths of the files and folders of one store."""

    root: Path

    @property
    def commit_log(self) -> Path:
        """Folder of the log's files."""
        return self.root / "commitlog"

    @property
    def index(self) -> Path:
        """Folder of the key index."""
        return self.root / "index"

    @property
    def config(self) -> Path:
        """Folder of the JSON files."""
        return self.root / "config"

    @property
    def staging(self) -> Path:
        """Folder where files are made before they are renamed to their place."""
        return self.root / "staging"

    @property
    def checkpoint(self) -> Path:
        """File with the times up to which log, queues and index are synced."""
        return self.root / "checkpoint"

    @property
    def abort(self) -> Path:
        """File that exists while the store is open; a crash leaves it behind."""
        return self.root / "abort"

    @property
    def abort_backup(self) -> Path:
        """Copy of the abort file that the start before left."""
        return self.root / "abort.bak"

    @property
    def lock(self) -> Path:
        """File that a process locks for as long as it has the store open."""
        return self.root / "lock"


def lock_store(files: FileSystem, root: Path) -> StoreLock:
    """Make the root folder if it is missing, and lock it.

    Raises StoreLocked when the store is open already, StoreFailed when the folder is not writable.
    """
    try:
        files.make_dirs(root)
        return files.lock(StoreLayout(root).lock)
    except BlockingIOError as error:
        raise _locked(root) from error
    except OSError as error:
        raise StoreFailed(
            f"the store folder {root} cannot be written ({error}); "
            "make it writable for this user, or read it with the viewer"
        ) from error


def _locked(root: Path) -> StoreLocked:
    return StoreLocked(
        f"the store in {root} is open in another process (or twice in this one); "
        "stop the other one first"
    )


def was_clean(files: FileSystem, layout: StoreLayout) -> bool:
    """True if the process that opened the store last has closed it, and for a new store."""
    return not files.exists(layout.abort)


def write_abort(files: FileSystem, layout: StoreLayout, process_id: int) -> None:
    """Write the abort file; its former content goes to abort.bak.

    On a full disk the file is empty, or the former one stays: only its existence counts.
    Source: docs/spec/store.md 5.2.
    """
    exists = files.exists(layout.abort)
    try:
        former = files.read(layout.abort) if exists else b""
        files.write_atomic(layout.abort_backup, former, staging=layout.staging)
        files.write_atomic(layout.abort, str(process_id).encode(), staging=layout.staging)
    except OSError as error:
        if not is_out_of_space(error):
            raise
        if not exists:
            files.write_atomic(layout.abort, b"", staging=layout.staging)


def remove_abort(files: FileSystem, layout: StoreLayout) -> None:
    """Remove the abort file: the store was closed cleanly, so the next start need not recover."""
    if files.exists(layout.abort):
        files.remove(layout.abort)
        files.sync_dir(layout.root)


def read_checkpoint(files: FileSystem, layout: StoreLayout) -> Checkpoint:
    """The checkpoint; all zeros when the file is missing or too short."""
    if not files.exists(layout.checkpoint) or files.file_size(layout.checkpoint) < 40:
        return Checkpoint()
    return decode_checkpoint(files.read(layout.checkpoint))


def write_checkpoint(files: FileSystem, layout: StoreLayout, checkpoint: Checkpoint) -> None:
    """Overwrite in place, or make the file. Raises OSError."""
    data = encode_checkpoint(checkpoint)
    path = layout.checkpoint
    if not files.exists(path) or files.file_size(path) != CHECKPOINT_SIZE:
        files.write_atomic(path, data, staging=layout.staging)
        return
    file = files.open(path)
    try:
        file.pwrite(data, 0)
        file.datasync()
    finally:
        file.close()
