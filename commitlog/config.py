"""Every setting of the store, with RocketMQ's default and its reason.

Each field carries, as metadata, `help` (what it is and what more or less of it costs) and
`rocketmq` (its name in broker.conf, "" where there is none). Sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final, TypeVar

from commitlog.delay_levels import DEFAULT_LEVELS, parse_delay_levels
from commitlog.errors import StoreConfigError
from commitlog.index.index_format import IndexGeometry
from commitlog.queues.batch_queue_entry import ENTRY_SIZE as BATCH_ENTRY_SIZE
from commitlog.queues.queue_entry import ENTRY_SIZE
from commitlog.queues.queue_ext_unit import FILE_END_ROOM, UNIT_SIZE_MAX
from commitlog.records.message_layout import BLANK_SIZE, BODY_SIZE_MAX, RECORD_SIZE_MIN
from commitlog.records.record import HEADER_SIZE

FILE_SIZE_MAX: Final = (1 << 31) - 1  # Java maps a file with an int; more could not be opened there

T = TypeVar("T")


class FlushMode(Enum):
    """When a put is answered. Values are RocketMQ's names."""

    SYNC = "SYNC_FLUSH"  # after its bytes are on disk
    ASYNC = "ASYNC_FLUSH"  # before: a power cut loses up to flush_thorough_interval_ms of messages


def _setting(default: T, rocketmq: str, text: str) -> T:
    result: T = field(default=default, metadata={"rocketmq": rocketmq, "help": text})
    return result


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Settings of one store. File sizes and index geometry belong to the files: never change them
    for a store that exists. Call `validate` before use."""

    # -- sizes of files ----------------------------------------------------------------------
    commit_log_file_size: int = _setting(
        1 << 30,
        "mappedFileSizeCommitLog",
        "Size of a commit log file. Smaller ones go sooner and roll (sync, rename) more often.",
    )
    consume_queue_file_size: int = _setting(
        300_000 * ENTRY_SIZE,
        "mappedFileSizeConsumeQueue",
        "Size of a consume queue file, a multiple of 20. Every queue has at least one file.",
    )
    consume_queue_ext_file_size: int = _setting(
        48 << 20,
        "mappedFileSizeConsumeQueueExt",
        "Size of a consume queue extension file.",
    )
    batch_queue_file_size: int = _setting(
        300_000 * BATCH_ENTRY_SIZE,
        "mappedFileSizeBatchConsumeQueue",
        "Size of a batch consume queue file, a multiple of 46.",
    )
    index_slots: int = _setting(
        5_000_000,
        "maxHashSlotNum",
        "Hash slots of an index file. Fewer make longer chains, more make larger files.",
    )
    index_entries: int = _setting(
        20_000_000,
        "maxIndexNum",
        "Entries of an index file plus one. More entries a slot make key queries read more.",
    )
    preallocated_files: int = _setting(
        1,
        "",
        "Commit log files made ahead of use. 0 makes a put wait for the next file at every roll.",
    )
    write_zeros: bool = _setting(
        False,
        "warmMapedFileEnable",
        "Write zeros into a commit log file before use: later syncs overwrite written blocks, "
        "which many disks do faster; making a file costs its size in writes.",
    )

    # -- what a message may be ---------------------------------------------------------------
    body_size_max: int = _setting(
        BODY_SIZE_MAX,
        "maxMessageSize",
        "Largest body; a record may be 65,536 bytes larger, and must fit a commit log file. "
        "RocketMQ allows 4 MiB, Kafka and NATS 1 MiB. One message this large delays all others.",
    )
    record_crc_enabled: bool = _setting(
        False,
        "enabledAppendPropCRC",
        "Add a checksum of the whole record to its properties (20 bytes and one CRC a message).",
    )
    message_delay_level: str = _setting(
        DEFAULT_LEVELS,
        "messageDelayLevel",
        "Delays of levels 1, 2, …. Levels in use must keep their delay.",
    )

    # -- flush -------------------------------------------------------------------------------
    flush_mode: FlushMode = _setting(  # noqa: RUF009 (a field, as the others)
        FlushMode.SYNC,
        "flushDiskType",
        "SYNC_FLUSH answers after the bytes are on disk, many messages to one sync. ASYNC_FLUSH "
        "answers before and risks the last seconds at a power cut. (RocketMQ: ASYNC_FLUSH.)",
    )
    sync_flush_timeout_ms: int = _setting(
        5000,
        "syncFlushTimeout",
        "How long a put waits for its sync before it is answered as uncertain.",
    )
    flush_interval_ms: int = _setting(
        500, "flushIntervalCommitLog", "ASYNC_FLUSH: how often new pages are looked for."
    )
    flush_pages_min: int = _setting(
        4, "flushCommitLogLeastPages", "ASYNC_FLUSH: new 4-KiB pages that are worth a sync."
    )
    flush_thorough_interval_ms: int = _setting(
        10_000,
        "flushCommitLogThoroughInterval",
        "ASYNC_FLUSH: how often anything new is synced: the longest time at risk.",
    )
    queue_flush_interval_ms: int = _setting(
        1000,
        "flushIntervalConsumeQueue",
        "How often is looked whether queues must be synced and files may go; flushes wake it, too.",
    )
    queue_flush_thorough_interval_ms: int = _setting(
        60_000,
        "flushConsumeQueueThoroughInterval",
        "How often all queues are synced and the checkpoint advances. Longer means that a restart "
        "after a crash replays more of the log.",
    )

    # -- derived data ------------------------------------------------------------------------
    index_enabled: bool = _setting(
        True, "messageIndexEnable", "Keep the key index. Without it, queries by key find nothing."
    )
    consume_queue_ext_enabled: bool = _setting(
        False,
        "enableConsumeQueueExt",
        "Keep store times and filter bitmaps beside the queues. Only SQL92 filters gain from it.",
    )

    # -- reading -----------------------------------------------------------------------------
    query_hits_default: int = _setting(
        32, "defaultQueryMaxNum", "Messages that a query by key returns when it does not say."
    )

    # -- recovery ----------------------------------------------------------------------------
    check_crc_on_recovery: bool = _setting(
        True,
        "checkCRCOnRecover",
        "Check bodies while the log's tail is recovered. Off saves a CRC a message and may serve "
        "a torn body.",
    )
    verify_record_crc: bool = _setting(
        False,
        "forceVerifyPropCRC",
        "Check the whole-record checksum, where there is one, instead of the body's.",
    )

    # -- retention ---------------------------------------------------------------------------
    reserved_hours: int = _setting(
        72, "fileReservedTime", "Age after which a commit log file may be deleted."
    )
    delete_hours: tuple[int, ...] = _setting(
        (4,), "deleteWhen", "Hours of the day, local time, at which expired files go."
    )
    clean_interval_ms: int = _setting(
        10_000, "cleanResourceInterval", "How often retention and disk use are looked at."
    )
    delete_files_max: int = _setting(
        10, "deleteFileBatchMax", "Commit log files deleted in one round."
    )
    delete_pause_ms: int = _setting(
        100,
        "deleteCommitLogFilesInterval",
        "Pause between two deletions, so that the disk is not held up.",
    )
    disk_used_max_percent: int = _setting(
        75, "diskMaxUsedSpaceRatio", "Disk use above which expired files go at any hour."
    )
    disk_forced_percent: int = _setting(
        85,
        "diskSpaceCleanForciblyRatio",
        "Disk use above which the oldest files go whatever their age.",
    )
    disk_full_percent: int = _setting(
        90, "diskSpaceWarningLevelRatio", "Disk use above which producers are refused."
    )
    clean_forcibly: bool = _setting(
        True,
        "cleanFileForciblyEnable",
        "Allow deletion whatever the age. Off, a full disk refuses producers until someone acts.",
    )

    @property
    def index_geometry(self) -> IndexGeometry:
        """Slots and entries of one key index file, as this store makes it."""
        return IndexGeometry(self.index_slots, self.index_entries)

    def validate(self) -> None:
        """Raises StoreConfigError for the first value or relation that cannot work."""
        _check_ranges(self)
        _check_relations(self)
        parse_delay_levels(self.message_delay_level)


# Least and greatest value of each integer setting; what is not here is bounded by a relation.
_RANGES: Final = {
    "commit_log_file_size": (RECORD_SIZE_MIN + HEADER_SIZE + BLANK_SIZE, FILE_SIZE_MAX),
    "consume_queue_file_size": (ENTRY_SIZE, FILE_SIZE_MAX),
    "consume_queue_ext_file_size": (UNIT_SIZE_MAX + FILE_END_ROOM, FILE_SIZE_MAX),
    "batch_queue_file_size": (BATCH_ENTRY_SIZE, FILE_SIZE_MAX),
    "index_slots": (1, FILE_SIZE_MAX),
    "index_entries": (2, FILE_SIZE_MAX),
    "preallocated_files": (0, 2),
    "body_size_max": (10, 1 << 30),
    "sync_flush_timeout_ms": (1, 3_600_000),
    "flush_interval_ms": (1, 60_000),
    "flush_pages_min": (0, 1 << 20),
    "flush_thorough_interval_ms": (1, 600_000),
    "queue_flush_interval_ms": (1, 600_000),
    "queue_flush_thorough_interval_ms": (1, 3_600_000),
    "query_hits_default": (1, 100_000),
    "reserved_hours": (0, 24 * 36_500),
    "clean_interval_ms": (10, 86_400_000),
    "delete_files_max": (1, 10_000),
    "delete_pause_ms": (0, 60_000),
    "disk_used_max_percent": (10, 95),
    "disk_forced_percent": (30, 95),
    "disk_full_percent": (35, 95),
}


def _check_ranges(config: StoreConfig) -> None:
    for setting in fields(config):
        value: Any = getattr(config, setting.name)
        if setting.name not in _RANGES:
            continue
        least, most = _RANGES[setting.name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise StoreConfigError(
                f"{setting.name} = {value!r} is impossible; "
                f"give a whole number from {least} to {most}"
            )
    if not config.delete_hours or any(not 0 <= hour <= 23 for hour in config.delete_hours):
        raise StoreConfigError(
            f"delete_hours = {config.delete_hours!r} is impossible; give hours from 0 to 23"
        )


def _check_relations(config: StoreConfig) -> None:
    for name, unit in (
        ("consume_queue_file_size", ENTRY_SIZE),
        ("batch_queue_file_size", BATCH_ENTRY_SIZE),
    ):
        if getattr(config, name) % unit:
            raise StoreConfigError(
                f"{name} = {getattr(config, name)} is no multiple of the entry size {unit}; "
                "give a multiple of it"
            )
    smallest = config.body_size_max + RECORD_SIZE_MIN + HEADER_SIZE + BLANK_SIZE
    if smallest > config.commit_log_file_size:
        raise StoreConfigError(
            f"body_size_max = {config.body_size_max} does not fit a file of "
            f"commit_log_file_size = {config.commit_log_file_size}; "
            "lower the first or raise the second"
        )
    if config.index_geometry.file_size > FILE_SIZE_MAX:
        raise StoreConfigError(
            f"index_slots = {config.index_slots} and index_entries = {config.index_entries} make "
            f"files of {config.index_geometry.file_size} bytes; make "
            f"it {FILE_SIZE_MAX} at most"
        )
    for low, high in (
        ("flush_interval_ms", "flush_thorough_interval_ms"),
        ("queue_flush_interval_ms", "queue_flush_thorough_interval_ms"),
        ("disk_used_max_percent", "disk_forced_percent"),
        ("disk_forced_percent", "disk_full_percent"),
    ):
        if getattr(config, low) > getattr(config, high):
            raise StoreConfigError(
                f"{low} = {getattr(config, low)} is above {high} = {getattr(config, high)}; "
                "lower the first or raise the second"
            )
