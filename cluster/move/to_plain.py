"""A source → a plain RocketMQ store, which the stock broker and `MessageStore` open.

    <out>/commitlog/<20 digits>   every message but our internal ones, at its new address
          consumequeue/  index/  checkpoint  config/*.json

The queues, the index and the checkpoint are made by the local store's own recovery from the log,
as after a crash: while the log is written `abort` is there, so a half-made export is never taken
for a clean store.
"""

from __future__ import annotations

import os
from pathlib import Path

from cluster.move.errors import MoveRefused
from cluster.move.exported_state import write_configs
from cluster.move.into_log import Progress
from cluster.move.new_folders import all_or_nothing
from cluster.move.relocate import Relocation
from cluster.move.source import INTERNAL_TOPICS, Source, Survey, refuse_used
from commitlog.config import StoreConfig
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.records.message_layout import BLANK_SIZE, encode_blank
from commitlog.segments.segment_log import SegmentLog
from commitlog.store.layout import StoreLayout, write_abort
from commitlog.store.store import MessageStore

_SYNC_BYTES = 64 << 20  # written between syncs; bounds dirty memory


def export_plain(
    source: Source,
    survey: Survey,
    out: Path,
    config: StoreConfig | None = None,
    *,
    files: FileSystem = OS_FILES,
    progress: Progress = lambda _: None,
) -> int:
    """Write a plain store into the empty folder `out`; returns the number of messages.

    Raises StoreUsageError when `out` is in use, MoveRefused when a record is larger than a file.
    """
    config = config or StoreConfig()
    refuse_used(out, files)
    if survey.largest + BLANK_SIZE > config.commit_log_file_size:
        raise MoveRefused(
            f"the largest message takes {survey.largest} bytes and a commit log file has "
            f"{config.commit_log_file_size}; give a larger --commit-log-file-size"
        )
    layout = StoreLayout(out)
    with all_or_nothing([out]):
        files.make_dirs(layout.staging)
        write_abort(files, layout, os.getpid())
        count = _write_log(source, layout, config, files, progress)
        write_configs(source, survey, out, files)  # first: the store's end takes `abort` away
        with MessageStore(out, config, files=files, threads=False):
            pass  # recovers the log, derives queues and index, and closes cleanly
    return count


def _write_log(
    source: Source,
    layout: StoreLayout,
    config: StoreConfig,
    files: FileSystem,
    progress: Progress,
) -> int:
    relocation = Relocation()
    log = SegmentLog(files, layout.commit_log, config.commit_log_file_size, staging=layout.staging)
    end = unsynced = count = 0
    try:
        for item, message in source.items():
            if message.topic in INTERNAL_TOPICS:
                continue
            size = len(item.body)
            if end < log.limit and size + BLANK_SIZE > log.left(end):
                left = log.left(end)
                log.pwrite(encode_blank(left), end)
                end += left
            log.ensure(end)
            log.pwrite(relocation.move(item.body, message, end), end)
            end += size
            unsynced += size
            count += 1
            progress(count)
            if unsynced > _SYNC_BYTES:
                log.capture().run()
                unsynced = 0
        log.capture().run()
    finally:
        log.close()
    return count
