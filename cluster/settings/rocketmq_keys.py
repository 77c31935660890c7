"""RocketMQ's broker.conf: its spelling, translated once, here.

Source: docs/spec/raft_log.md 3.2, docs/spec/store.md 0.

    key=value lines; # begins a comment; a key of RocketMQ, or one of ours as section.key

A key that means nothing here is refused with the reason, not ignored: a setting that silently has
no effect is worse than an error. All such lines of a file are told at once.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.settings.settings import Settings, SettingsError, unknown_key
from dledger.producers.durability import Durability

# RocketMQ's key → our keys; the value's text is the same on both sides.
SAME: dict[str, tuple[str, ...]] = {
    "autoCreateSubscriptionGroup": ("broker.auto_create_groups",),
    "autoCreateTopicEnable": ("broker.auto_create_topics",),
    "brokerClusterName": ("broker.cluster_name",),
    "brokerIP1": ("broker.listen_host",),
    "brokerName": ("broker.broker_name",),
    "dLegerGroup": ("raft.group",),
    "dLegerSelfId": ("raft.node_id", "broker.node_id"),
    "diskSpaceWarningLevelRatio": ("broker.disk_full_ratio",),
    "deleteWhen": ("broker.delete_hours",),
    "enableCalcFilterBitMap": ("broker.filter_bitmap_enabled",),
    "enableConsumeQueueExt": ("broker.queue_ext_enabled",),
    "enableRetryTopicV2": ("broker.pop_retry_v2",),
    "expectConsumerNumUseFilter": ("broker.filter_consumers",),
    "fileReservedTime": ("broker.reserved_hours",),
    "listenPort": ("broker.listen_port",),
    "mappedFileSizeCommitLog": ("raft.data_file_size",),
    "mappedFileSizeConsumeQueue": ("broker.queue_file_size",),
    "maxErrorRateOfBloomFilter": ("broker.filter_error_percent",),
    "maxHashSlotNum": ("broker.index_slot_count",),
    "maxIndexNum": ("broker.index_entry_count",),
    "maxMessageSize": ("broker.body_size_max",),
    "messageDelayLevel": ("broker.message_delay_level",),
    "messageIndexEnable": ("broker.index_enabled",),
    "preferredLeaderId": ("raft.preferred_leader",),
    "regionId": ("broker.region",),
    "storePathRootDir": ("broker.root",),
    "storeReplyMessageEnable": ("broker.store_replies",),
    "traceOn": ("broker.trace_on",),
    "transactionCheckInterval": ("broker.transaction_check_interval_ms",),
    "transactionCheckMax": ("broker.transaction_check_max",),
    "transactionTimeOut": ("broker.transaction_timeout_ms",),
}

# Keys that may have one value only, and why.
FIXED: dict[str, tuple[str, str]] = {
    "enableDLegerCommitLog": ("true", "the commit log is always the replicated log"),
    "brokerId": ("0", "ids are given by the group: 0 for whoever leads"),
    "brokerRole": ("ASYNC_MASTER", "roles are decided by election; leave the default"),
}

# Keys of RocketMQ that have another form here.
TRANSLATED = ("dLegerPeers", "flushDiskType", "namesrvAddr")

# Keys of RocketMQ without a meaning here → why, and what to do instead.
REFUSED: dict[str, str] = {
    "aclEnable": "accounts are on when their file is named: broker.acl_file",
    "brokerIP2": "replicas reach each other at raft.peers",
    "controllerAddr": "who leads is elected by the replicas themselves",
    "defaultTopicQueueNums": "say it where a topic is made: dledger topic create -q",
    "diskMaxUsedSpaceRatio": "old files go from 75 % on, as RocketMQ's default has it",
    "enableControllerMode": "who leads is elected by the replicas themselves",
    "haListenPort": "replicas reach each other at raft.peers",
    "haMasterAddress": "who leads is elected by the replicas themselves",
    "pullMessageThreadPoolNums": "one event loop serves all requests",
    "rocketmqHome": "nothing is read from there",
    "sendMessageThreadPoolNums": "one event loop serves all requests",
    "slaveReadEnable": "followers answer what they safely may",
    "storePathCommitLog": "the log is below storePathRootDir",
    "storePathConsumeQueue": "queues are below storePathRootDir",
    "storePathIndex": "the index is below storePathRootDir",
    "timerWheelEnable": "timers are always served",
    "transientStorePoolEnable": "writes go to the page cache",
    "useReentrantLockWhenPutMessage": "one event loop appends",
    "warmMapedFileEnable": "files are allocated ahead of the writer: raft.prewrite_zeros",
}

# flushDiskType → when a send is acknowledged; the log itself commits by disks either way.
DURABILITY_OF_FLUSH = {
    "SYNC_FLUSH": Durability.MAJORITY_ON_DISK,
    "ASYNC_FLUSH": Durability.MAJORITY_IN_MEMORY,
}


def read_broker_conf(settings: Settings, text: str, file: str) -> None:
    """Add every line. Raises SettingsError that names all lines without a meaning here."""

    def take(key: str, value: str, origin: str) -> None:
        for name, translated in translate(settings, key, value, origin):
            section, _, own = name.partition(".")
            settings.add(section, own, translated, origin)

    each_line(text, file, take)


def each_line(text: str, file: str, take: Callable[[str, str, str], None]) -> None:
    """Call `take(key, value, origin)` for each line of a file with key=value lines.

    Raises SettingsError that names all lines which are not of that form, or which `take` refuses by
    a SettingsError of its own.
    """
    wrong: list[SettingsError] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith(("#", "!")):
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        origin = f"file {file}:{number}"
        try:
            if not equals:
                raise SettingsError(f"{origin}: {line!r} is not of the form key=value; write it so")
            take(key, value, origin)
        except SettingsError as error:
            wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        listed = "".join(f"\n  {error}" for error in wrong)
        raise SettingsError(
            f"{len(wrong)} lines cannot be used; take them out, or change them:{listed}"
        )


def translate(settings: Settings, key: str, value: str, origin: str) -> list[tuple[str, object]]:
    """Our names and values for one line of broker.conf; may be none."""
    if key in SAME:
        return [(name, value) for name in SAME[key]]
    if key == "namesrvAddr":
        return [("broker.name_servers", value.replace(";", ","))]
    if key == "dLegerPeers":
        return [("raft.peers", _peers(value, origin))]
    if key == "flushDiskType":
        level = DURABILITY_OF_FLUSH.get(value.upper())
        if level is None:
            kinds = " or ".join(DURABILITY_OF_FLUSH)
            raise SettingsError(f"{key}={value} ({origin}) does not exist; give {kinds}")
        return [("broker.durability", level.value)]
    if key in FIXED:
        wanted, why = FIXED[key]
        if value.lower() != wanted.lower():
            raise SettingsError(f"{key}={value} ({origin}) cannot be had: {why}")
        return []
    if key in REFUSED:
        raise SettingsError(f"{key} ({origin}) has no meaning here: {REFUSED[key]}; take it out")
    if "." in key:
        return [(key, value)]
    known = [*SAME, *FIXED, *TRANSLATED, *settings.known()]
    raise SettingsError(unknown_key(key, known, origin))


def _peers(value: str, origin: str) -> dict[str, str]:
    """ "n0-127.0.0.1:40911;n1-…" as node → address."""
    peers = {}
    for part in value.split(";"):
        node, dash, address = part.strip().partition("-")
        if not dash or ":" not in address:
            raise SettingsError(
                f"{part!r} in dLegerPeers ({origin}) is not of the form id-host:port; write it so"
            )
        peers[node] = address
    return peers
