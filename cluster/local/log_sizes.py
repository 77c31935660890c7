"""Settings of a cluster with log files of another log's size, so that addresses stay."""

from __future__ import annotations

from dataclasses import fields

from cluster.settings.node import RECORD_OVERHEAD_MAX
from commitlog.records.record import BLANK_SIZE, HEADER_SIZE
from dledger.config import RaftConfig


def settings_for(data_file_size: int) -> dict[str, str]:
    """Sizes as "section.key" → text: of the files, and of the largest entry where less than by
    default fits. `data_file_size`: bytes of a log file.
    """
    settings = {"raft.data_file_size": str(data_file_size)}
    entry_size_max = data_file_size - HEADER_SIZE - BLANK_SIZE
    if entry_size_max < _default_entry_size_max():
        settings["raft.entry_size_max"] = str(entry_size_max)
        settings["broker.body_size_max"] = str(entry_size_max - RECORD_OVERHEAD_MAX)
    return settings


def _default_entry_size_max() -> int:
    (found,) = [field.default for field in fields(RaftConfig) if field.name == "entry_size_max"]
    assert isinstance(found, int)
    return found
