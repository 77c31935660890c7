"""How far a log is committed, as its own files say.

    dledger-<id>/checkpoint    committedIndex=⟨n⟩, a mirror that may lag and never runs ahead

Entries above it may be taken back by the next leader, so no job reads them. Plain stores have no
such thing: all they hold counts. A backup has committed entries only.
"""

from __future__ import annotations

from dataclasses import replace

from commitlog.errors import StoreUsageError
from commitlog.store.committed import committed_in
from commitlog.store.reader import StoreReader
from pipeline.options import LogOptions
from pipeline.places import files_of
from pipeline.rawlog.backups import backup_at


def committed_index(options: LogOptions) -> int | None:
    """Highest committed index of the store or backup at a place; None when it holds no entries.

    Raises StoreUsageError when the store does not say.
    """
    files, path = files_of(options)
    if (backup := backup_at(files, path)) is not None:
        return backup.last_index
    with StoreReader(path, files=files) as reader:
        folders = [part.folder.parent for part in reader.parts if part.entries]
    if not folders:
        return None
    checkpoint = folders[-1] / "checkpoint"
    if files.exists(checkpoint) and not files.is_dir(checkpoint):
        found = committed_in(files.read(checkpoint).decode("utf-8", "replace"))
        if found is not None:
            return found
    raise StoreUsageError(
        f"{folders[-1]} does not say how far its log is committed (checkpoint is missing); give "
        "the end index yourself"
    )


def only_committed(options: LogOptions) -> LogOptions:
    """The same, ending at the committed index unless it ends before. Raises StoreUsageError."""
    if options.end_index >= 0:
        return options
    committed = committed_index(options)
    return options if committed is None else replace(options, end_index=committed + 1)
