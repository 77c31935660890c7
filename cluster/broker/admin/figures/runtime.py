"""The broker as a whole: 28, 26/25, 315, 305, 306, 316 (docs/spec/remoting.md 2.8)."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.live_settings import changed, text_of_setting
from cluster.broker.kernel.net.decisions import Decision, decided_for
from cluster.broker.kernel.net.request_bodies import properties_of
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields, nothing
from cluster.broker.kernel.write.level_mark import level_mark
from cluster.core.access.needs import ADMIN
from cluster.core.delay.progress import delay_progress
from cluster.core.feature_level import SETTINGS_LEVEL
from cluster.core.live_settings import LIVE, SettingsChanged
from cluster.core.statistics import BROKER_GET_NUMS, BROKER_PUT_NUMS, Recent
from cluster.core.topics import built_in_topics
from cluster.errors import InvalidRequest, ServerError
from cluster.protocol.admin_headers import StatsDataRequest
from cluster.protocol.codes import VERSION, RequestCode
from cluster.protocol.json_body import dump
from cluster.protocol.topics import encode_topic_list
from commitlog.address import split_address
from commitlog.records.record import HEADER_SIZE
from dledger.producers.durability import Durability

VERSION_TEXT = "V5_3_3"
LIVE_LINES = "dledger.live."
"""Settings that the log holds have this in front of our name, among the lines of 26."""
_log = logging.getLogger(__name__)

# RocketMQ's name → ours; the same pairs as in broker.conf (cluster.settings.rocketmq_keys).
_KEYS = {
    "autoCreateSubscriptionGroup": "auto_create_groups",
    "autoCreateTopicEnable": "auto_create_topics",
    "deleteWhen": "delete_hours",
    "fileReservedTime": "reserved_hours",
    "brokerClusterName": "cluster_name",
    "brokerName": "broker_name",
    "diskSpaceWarningLevelRatio": "disk_full_ratio",
    "enableCalcFilterBitMap": "filter_bitmap_enabled",
    "enableConsumeQueueExt": "queue_ext_enabled",
    "enableRetryTopicV2": "pop_retry_v2",
    "expectConsumerNumUseFilter": "filter_consumers",
    "listenPort": "listen_port",
    "mappedFileSizeConsumeQueue": "queue_file_size",
    "maxErrorRateOfBloomFilter": "filter_error_percent",
    "maxHashSlotNum": "index_slot_count",
    "maxIndexNum": "index_entry_count",
    "maxMessageSize": "body_size_max",
    "messageDelayLevel": "message_delay_level",
    "messageIndexEnable": "index_enabled",
    "regionId": "region",
    "storePathRootDir": "root",
    "storeReplyMessageEnable": "store_replies",
    "traceOn": "trace_on",
    "transactionCheckInterval": "transaction_check_interval_ms",
    "transactionCheckMax": "transaction_check_max",
    "transactionTimeOut": "transaction_timeout_ms",
}


def runtime_info(ports: AdminPorts, call: Call, request: None) -> None:
    """28: figures of the replica that was asked, as texts."""
    statistics, now = ports.statistics, ports.now()
    puts = statistics.recent(BROKER_PUT_NUMS, ports.config.broker_name, now)
    gets = statistics.recent(BROKER_GET_NUMS, ports.config.broker_name, now)
    put_total = statistics.total(BROKER_PUT_NUMS, ports.config.broker_name)
    get_total = statistics.total(BROKER_GET_NUMS, ports.config.broker_name)
    usage = f"{ports.disk.used_ratio:.4f}"
    table = {
        "bootTimestamp": ports.started_ms,
        "brokerActive": "true",
        "brokerVersion": VERSION,
        "brokerVersionDesc": VERSION_TEXT,
        "commitLogDiskRatio": usage,
        "commitLogMaxOffset": ports.log.store.end_position,
        "commitLogMinOffset": _first_position(ports, call),
        "consumeQueueDiskRatio": usage,
        "dispatchBehindBytes": ports.log.store.end_position - ports.state.position,
        "dispatchMaxBuffer": 0,
        "earliestMessageTimeStamp": _earliest_ms(ports, call),
        "getFoundTps": _three(gets),
        "getMessageEntireTimeMax": 0,
        "getMissTps": _three(None),
        "getTotalTps": _three(gets),
        "getTransferredTps": _three(gets),
        "msgGetTotalTodayMorning": ports.daily_totals.gets[1],
        "msgGetTotalTodayNow": get_total,
        "msgGetTotalYesterdayMorning": ports.daily_totals.gets[0],
        "msgPutTotalTodayMorning": ports.daily_totals.puts[1],
        "msgPutTotalTodayNow": put_total,
        "msgPutTotalYesterdayMorning": ports.daily_totals.puts[0],
        "pageCacheLockTimeMills": 0,
        "putTps": _three(puts),
        "runtime": f"[ {(ports.now_ms() - ports.started_ms) // 1000} seconds ]",
        "startAcceptSendRequestTimeStamp": 0,
        "timerCongestNum": len(ports.state.delayed),
        "timerDequeueTps": 0,
        "timerEnqueueTps": 0,
        "timerOffsetBehind": 0,
        "timerReadBehind": 0,
    }
    table |= _replica(ports, call)
    for level, (first, end) in delay_progress(ports.state).items():
        table[f"scheduleMessageOffset_{level}"] = f"{first},{end}"
    for name in ("ack", "endTransaction", "pull", "query", "reply", "send"):
        table[f"{name}ThreadPoolQueueCapacity"] = ports.config.in_flight_count_max
        table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = 0
        table[f"{name}ThreadPoolQueueSize"] = 0
    texts = {key: str(value) for key, value in sorted(table.items())}
    call.answer(0, body=dump({"table": texts}))


def _replica(ports: AdminPorts, call: Call) -> dict[str, object]:
    """Figures of the replica in its Raft group, which RocketMQ's brokers do not have."""
    node, disk = ports.log.status(), ports.log.driver.replica.node.disk
    figures = {
        "node": ports.config.node_id,
        "role": node.role.value,
        "time_ms": ports.now_ms(),
        "term": node.term,
        "leader": node.leader or "",
        "first_index": ports.log.store.first_index,
        "last_index": node.last.index,
        "committed_index": node.commit,
        "flushed_index": node.flushed,
        "applied_index": ports.log.applied,
        "dispatched_index": ports.derived.dispatched,
        "disk_used_ratio": f"{ports.disk.used_ratio:.4f}",
        "durability": ports.config.durability,
        "messages_in_per_second": _minute(ports, BROKER_PUT_NUMS),
        "messages_out_per_second": _minute(ports, BROKER_GET_NUMS),
        "disk": disk.health.name.lower(),
        "disk_detail": disk.detail,
        "failed": node.failure,
    }
    ends = ports.certificates.ends()
    if ends:
        first = min(ends, key=lambda one: one.seconds)
        figures["certificate_ends_at"] = int(first.seconds)
        figures["certificate_ends_first"] = f"{first.file} ({first.use})"
    return {f"dledger.{name}": value for name, value in figures.items()}


def _minute(ports: AdminPorts, name: str) -> float:
    """Messages per second, over the last minute, of one of the broker's counters."""
    recent = ports.statistics.recent(name, ports.config.broker_name, ports.now())
    return 0.0 if recent is None else round(recent.minute.tps, 4)


def _three(recent: Recent | None) -> str:
    """RocketMQ shows 10 s, 1 min and 10 min; here the last minute, hour and day."""
    if recent is None:
        return "0.0 0.0 0.0"
    return f"{recent.minute.tps:.4f} {recent.hour.tps:.4f} {recent.day.tps:.4f}"


def _first_position(ports: AdminPorts, call: Call) -> int:
    """Where the log begins, in bytes."""
    store = ports.log.store
    if ports.derived.applied < store.first_index:
        return store.end_position
    return store.position_of(store.first_index)


def _earliest_ms(ports: AdminPorts, call: Call) -> int:
    """When the oldest entry was stored; -1 for an empty log."""
    if ports.derived.applied < ports.log.store.first_index:
        return -1
    return ports.reader.store_time(_first_position(ports, call) + HEADER_SIZE)


def get_config(ports: AdminPorts, call: Call, request: None) -> None:
    """26: settings under RocketMQ's names, as lines `key=value`."""
    config, state = ports.live.now, ports.state
    lines = {f"{LIVE_LINES}{name}": text for name, text in state.settings.values.items()}
    lines |= {name: text_of_setting(getattr(config, own)) for name, own in _KEYS.items()}
    ip, port = split_address(ports.advertised) if ports.advertised else ("", "")
    lines["brokerIP1"] = ip
    lines["listenPort"] = str(port)
    lines["brokerId"] = "0" if ports.leadership.leads else "1"
    lines["brokerPermission"] = "6"
    lines["brokerRole"] = "SYNC_MASTER" if ports.leadership.leads else "SLAVE"
    lines["enableDLegerCommitLog"] = "true"
    lines["dLegerSelfId"] = config.node_id
    lines["durability"] = config.durability
    on_disk = config.durability == Durability.MAJORITY_ON_DISK.value
    lines["flushDiskType"] = "SYNC_FLUSH" if on_disk else "ASYNC_FLUSH"
    lines["namesrvAddr"] = ";".join(config.name_servers)
    body = "".join(f"{key}={value}\n" for key, value in sorted(lines.items()))
    call.answer(0, {"version": dump(state.topics.version.to_json()).decode()}, body.encode())


def update_config(ports: AdminPorts, call: Call, values: dict[str, str]) -> Decision:
    """25: settings of LIVE, by RocketMQ's name or ours, on every node of the group, by the log.

    A restarted node, and one that joins, has them, too; an empty value takes one out of the log,
    and each node's own counts again. A setting that is read at the start only is refused, unless it
    has that value already. An unknown key is ignored and logged, as in RocketMQ.
    """
    config, live = ports.config, ports.live.now
    known = {item.name for item in dataclasses.fields(config) if item.repr}  # no secrets
    put, delete = dict[str, str](), list[str]()
    for key, value in values.items():
        own = _KEYS.get(key, key.removeprefix("broker."))
        if own not in known:
            _log.warning("%s: unknown broker setting %.100s ignored", call.client.address, key)
        elif own in LIVE and not value:
            delete.append(own)
        elif own in LIVE:
            try:
                found = changed(config, own, value.replace(";", ","))
            except ValueError as error:
                raise InvalidRequest(f"{key} cannot be {value:.40}: {error}; correct it") from None
            put[own] = text_of_setting(getattr(found, own))
        elif text_of_setting(getattr(live, own)) != value:
            raise InvalidRequest(
                f"{key} is set when a node starts; write broker.{own} into the settings file of "
                "every node and restart them one by one"
            )
    logged = ports.state.settings.values
    put = {name: text for name, text in put.items() if logged.get(name) != text}
    gone = tuple(name for name in delete if name in logged)
    if not put and not gone:
        return Decision()
    mark = level_mark(ports.log, ports.state, SETTINGS_LEVEL, "settings in the log")
    change = SettingsChanged(put, gone)
    return Decision((change,) if mark is None else (mark, change))


def stats_data(ports: AdminPorts, call: Call, request: StatsDataRequest) -> None:
    """315: sums of the last minute, hour and day under one name and key; code 1 for none."""
    found = ports.statistics.recent(request.stats_name, request.stats_key, ports.now())
    if found is None:
        raise ServerError(
            f"The stats <{request.stats_name[:255]}> <{request.stats_key[:255]}> not exist; check "
            "both names"
        )
    body = {
        "statsDay": found.day.to_json(),
        "statsHour": found.hour.to_json(),
        "statsMinute": found.minute.to_json(),
    }
    call.answer(0, body=dump(body))


def system_topics(ports: AdminPorts, call: Call, request: None) -> None:
    """305: topics that a broker has by itself."""
    config = ports.config
    rows = built_in_topics(config.cluster_name, config.broker_name)
    call.answer(0, body=encode_topic_list(sorted(row.name for row in rows)))


def nothing_expired(_: AdminPorts, call: Call, request: None) -> None:
    """306 and 316: entries of queues go with the log that they point into, never before it.

    A queue of a deleted topic keeps its numbers: created again, the topic goes on where it was, and
    no consumer's offset comes to mean another message. So there is nothing to clean by hand.
    """
    call.answer()


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.GET_BROKER_RUNTIME_INFO: Handler(Who.ANYWHERE, nothing, ADMIN, runtime_info),
    RequestCode.GET_BROKER_CONFIG: Handler(Who.ANYWHERE, nothing, ADMIN, get_config),
    RequestCode.UPDATE_BROKER_CONFIG: Handler(
        Who.LEADER, properties_of, ADMIN, decided_for(update_config)
    ),
    RequestCode.VIEW_BROKER_STATS_DATA: Handler(
        Who.LEADER, fields(StatsDataRequest), ADMIN, stats_data
    ),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Handler(
        Who.ANYWHERE, nothing, ADMIN, system_topics
    ),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: Handler(Who.ANYWHERE, nothing, ADMIN, nothing_expired),
    RequestCode.CLEAN_UNUSED_TOPIC: Handler(Who.ANYWHERE, nothing, ADMIN, nothing_expired),
}
