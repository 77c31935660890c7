"""A node of ours (or a DLedger-mode store) → a store root that RocketMQ's DLedger mode opens.

    <out>/dledger-<id>/data/…    the same bytes; Java does not look at the checksums
                       index/…   one slot per entry, all entries
                       currterm  checkpoint
          consumequeue/  index/  config/*.json

The log is written in a staging folder, which no node starts on and no broker of theirs sees; it
moves up when our files are gone from it. `abort` is there until all is written.

Physical offsets, indexes and terms stay. DLedger 0.3 refuses to append bodies above 4 MiB but reads
them; they are told.
"""

from __future__ import annotations

from pathlib import Path

from cluster.move.exported_state import write_configs
from cluster.move.into_log import Progress, fill
from cluster.move.new_folders import STAGING, all_or_nothing
from cluster.move.source import Source, Survey, refuse_used
from commitlog.errors import StoreUsageError
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.inspect.geometry import DerivedSizes
from commitlog.inspect.rebuild import Rebuild
from commitlog.store.layout import StoreLayout
from commitlog.store.reader import StoreReader
from dledger.config import RaftConfig
from dledger.durable import identity as identities
from dledger.log.options import INDEX_FILE_SIZE

BODY_SIZE_MAX_OF_03 = 4 << 20  # DLedger 0.3's cap for one entry (docs/spec/raft_log.md 1.4)


def export_dledger(
    source: Source,
    survey: Survey,
    out: Path,
    node_id: str,
    *,
    files: FileSystem = OS_FILES,
    progress: Progress = lambda _: None,
) -> int:
    """Write a DLedger-mode store root into the empty folder `out`; returns the entries.

    Raises StoreUsageError when `out` is in use or the source has no entries to keep.
    """
    refuse_used(out, files)
    if not source.keeps_addresses:
        raise StoreUsageError(
            f"{source.path} begins with plain records; export it as a plain store, or import it "
            "into a cluster first"
        )
    folder = out / STAGING / f"dledger-{node_id}"
    raft = RaftConfig(
        node_id=node_id,
        cluster_id="exported",
        data_dir=folder,
        peers={node_id: ("127.0.0.1", 1)},
        data_file_size=source.data_file_size,
        index_file_size=INDEX_FILE_SIZE,
    )
    abort = StoreLayout(out).abort
    with all_or_nothing([out]):
        files.make_dirs(out)
        files.write_atomic(abort, b"")
        # Written by our own storage, so Java gets a whole log: every slot, zeros where nothing is.
        entries = fill(source, survey, (), raft, 0, files, progress)
        _remove_ours(folder, files)
        files.rename(folder, out / folder.name)
        files.remove_dir(folder.parent)
        write_configs(source, survey, out, files)
        _derive(out, files)
        files.remove(abort)
        files.sync_dir(out)
    return entries


def notes_for_03(survey: Survey) -> list[str]:
    """Hints about contents that a DLedger 0.3 group cannot serve."""
    if survey.largest <= BODY_SIZE_MAX_OF_03:
        return []
    return [
        f"the largest entry has {survey.largest} bytes and DLedger 0.3 takes "
        f"{BODY_SIZE_MAX_OF_03}: it reads it, but a follower cannot be sent it"
    ]


def _remove_ours(folder: Path, files: FileSystem) -> None:
    """Removes our own files: the folder is one of Java's then."""
    for name in files.list(folder):
        if files.is_dir(folder / name):
            if name == "staging" and not files.list(folder / name):
                files.remove_dir(folder / name)
            continue
        if name not in ("currterm", "checkpoint", "checkpoint.bak", identities.FILE_NAME):
            files.remove(folder / name)
    files.remove(folder / identities.FILE_NAME)
    files.sync_dir(folder)


def _derive(out: Path, files: FileSystem) -> None:
    rebuild = Rebuild(files, out, DerivedSizes())
    try:
        with StoreReader(out, files=files) as reader:
            for item in reader.items():
                rebuild.add(item)
        rebuild.finish()
    finally:
        rebuild.close()
