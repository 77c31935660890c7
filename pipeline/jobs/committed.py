"""How far a stopped node's log is committed, as its own files say.

    dledger-<id>/checkpoint    committedIndex=⟨n⟩, a mirror that may lag and never runs ahead

Entries above it may be taken back by the next leader, so no job reads them. Plain stores have no
such thing: all they hold counts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from commitlog.errors import StoreUsageError
from commitlog.store.committed import committed_in
from commitlog.store.reader import StoreReader
from pipeline.options import LogOptions


def committed_index(path: Path) -> int | None:
    """Highest committed index of the store at `path`; None when it holds no entries.

    Raises StoreUsageError when the store does not say.
    """
    with StoreReader(path) as reader:
        folders = [part.folder.parent for part in reader.parts if part.entries]
    if not folders:
        return None
    found = committed_in(_text(folders[-1] / "checkpoint"))
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
    committed = committed_index(options.path)
    return options if committed is None else replace(options, end_index=committed + 1)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""
