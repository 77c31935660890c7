"""Request and response codes of the remoting protocol, and code ⇄ exception.

Names and numbers are RocketMQ's (docs/spec/remoting.md 2 and 3). A binary header has space for an
int16 (the codes of pops travel in JSON headers only), so ours lie below 32768, in 31000–31999:

    request  31001  FETCH_LOG_RANGE           raw bytes of the log, for tools (needs admin rights)
    request  31002  FORWARD_HELLO             follower → leader: for whom a link is
    request  31003  FETCH_QUEUE_RANGE         raw entries of a queue, to find messages in them
    request  31004  SEND_IN_DOUBT             follower → leader: a send that may be stored already
    request  31010  NOTIFY_LEADER_CHANGED     server → client, oneway: ext brokerName, leader, term
    request  31011  TRANSFER_LEADER           ext node (absent: the best follower), brokerName
    request  31012  LIST_MEMBERS              who belongs to the group; JSON body
    request  31013  CHANGE_MEMBERS            ext kind, node, dryRun, brokerName; JSON body
    request  31014  SCRUB_LOG                 one replica looks for damage; ext start; JSON body
    request  31015  VERIFY_LOG                checksum of one replica; ext first, last; JSON body
    request  31016  TAKE_OVER_PRODUCER        ext producerId: it is the sender's account's now
    request  31017  LIST_WAITING              ext kind, begin, maxNum, brokerName; JSON body
    request  31018  CHANGE_ACCOUNTS           JSON body
    request  31019  LIST_ACCOUNTS             ext brokerName; JSON body
    request  31020  LIST_AUDIT                ext before, after, sinceMs, …, brokerName; JSON body
    request  31021  RECORD_ACTION             ext verb, target, command, brokerName; JSON body
    request  31022  LIST_LEADERS              leaders that one replica has seen; JSON body
    response 31901  NOT_LEADER                ext leader (address, may be absent), term
    response 31902  OUTCOME_UNKNOWN
    response 31903  SEQUENCE_GAP
    response 31904  LEADER_LOST_WHILE_WAITING
    response 31905  PRODUCER_FORGOTTEN
    response 31906  SEAL_STALE                ext sealTime: a stamp that is taken now, ms
    response 31907  NUMBER_USED               ext queueOffset: of what has the number

Foreign clients never see our response codes: `code_for` gives them the stock code nearest in effect
(14, the one that every client retries). A client is ours when its version is `VERSION_OWN` or more.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from cluster import errors
from cluster.errors import ClusterError

VERSION = 479
"""V5_3_3: what we answer with; it opens SQL92 in Java clients and prints well in mqadmin."""

VERSION_OWN = 31001
"""Version ordinal of our own clients; such a request may be answered with our own codes."""

VERSION_GO_AWAY_ABOVE = 475
"""V5_3_1: later clients connect again and ask again when they are answered 1500
(docs/spec/remoting.md 1.3); to others it is one more error, so they get 14.
"""

VERSION_STANDARD_JSON = 401
"""From this requester version on, routes are standard JSON (docs/spec/remoting.md 4.1)."""


class RequestCode(enum.IntEnum):
    """Request codes; requests from server to client are in the same numbering."""

    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    QUERY_BROKER_OFFSET = 13
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    UPDATE_AND_CREATE_TOPIC_LIST = 18
    GET_ALL_TOPIC_CONFIG = 21
    UPDATE_BROKER_CONFIG = 25
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_EARLIEST_MSG_STORETIME = 32
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    END_TRANSACTION = 37
    GET_CONSUMER_LIST_BY_GROUP = 38
    CHECK_TRANSACTION_STATE = 39
    NOTIFY_CONSUMER_IDS_CHANGED = 40
    LOCK_BATCH_MQ = 41
    UNLOCK_BATCH_MQ = 42
    GET_ALL_CONSUMER_OFFSET = 43
    CHECK_CLIENT_CONFIG = 46
    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_PRODUCER_CONNECTION_LIST = 204
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_SUBSCRIPTIONGROUP = 207
    GET_CONSUME_STATS = 208
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216
    GET_KVLIST_BY_NAMESPACE = 219
    RESET_CONSUMER_CLIENT_OFFSET = 220
    GET_CONSUMER_STATUS_FROM_CLIENT = 221
    INVOKE_BROKER_TO_RESET_OFFSET = 222
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223
    GET_TOPICS_BY_CLUSTER = 224
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225
    QUERY_TOPIC_CONSUME_BY_WHO = 300
    QUERY_CONSUME_TIME_SPAN = 303
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305
    CLEAN_EXPIRED_CONSUMEQUEUE = 306
    GET_CONSUMER_RUNNING_INFO = 307
    QUERY_CORRECTION_OFFSET = 308
    CONSUME_MESSAGE_DIRECTLY = 309
    SEND_MESSAGE_V2 = 310
    CLONE_GROUP_OFFSET = 314
    VIEW_BROKER_STATS_DATA = 315
    CLEAN_UNUSED_TOPIC = 316
    GET_BROKER_CONSUME_STATS = 317
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    SEND_BATCH_MESSAGE = 320
    QUERY_CONSUME_QUEUE = 321
    QUERY_DATA_VERSION = 322
    RESUME_CHECK_HALF_MESSAGE = 323
    SEND_REPLY_MESSAGE = 324
    SEND_REPLY_MESSAGE_V2 = 325
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_ALL_PRODUCER_INFO = 328
    QUERY_TOPICS_BY_CONSUMER = 343
    QUERY_SUBSCRIPTION_BY_CONSUMER = 345
    GET_TOPIC_CONFIG = 351
    GET_SUBSCRIPTIONGROUP_CONFIG = 352
    UPDATE_AND_GET_GROUP_FORBIDDEN = 353
    LITE_PULL_MESSAGE = 361
    RECALL_MESSAGE = 370
    QUERY_ASSIGNMENT = 400
    SET_MESSAGE_REQUEST_MODE = 401
    GET_ALL_MESSAGE_REQUEST_MODE = 402
    AUTH_CREATE_USER = 3001
    AUTH_UPDATE_USER = 3002
    AUTH_DELETE_USER = 3003
    AUTH_GET_USER = 3004
    AUTH_LIST_USER = 3005
    AUTH_CREATE_ACL = 3006
    AUTH_UPDATE_ACL = 3007
    AUTH_DELETE_ACL = 3008
    AUTH_GET_ACL = 3009
    AUTH_LIST_ACL = 3010
    FETCH_LOG_RANGE = 31001
    FORWARD_HELLO = 31002
    FETCH_QUEUE_RANGE = 31003
    SEND_IN_DOUBT = 31004
    NOTIFY_LEADER_CHANGED = 31010
    TRANSFER_LEADER = 31011
    LIST_MEMBERS = 31012
    CHANGE_MEMBERS = 31013
    SCRUB_LOG = 31014
    VERIFY_LOG = 31015
    TAKE_OVER_PRODUCER = 31016
    LIST_WAITING = 31017
    CHANGE_ACCOUNTS = 31018
    LIST_ACCOUNTS = 31019
    LIST_AUDIT = 31020
    RECORD_ACTION = 31021
    LIST_LEADERS = 31022
    POP_MESSAGE = 200050
    ACK_MESSAGE = 200051
    PEEK_MESSAGE = 200052
    CHANGE_MESSAGE_INVISIBLETIME = 200053
    NOTIFICATION = 200054
    POLLING_INFO = 200055
    POP_ROLLBACK = 200056
    BATCH_ACK_MESSAGE = 200151


class ResponseCode(enum.IntEnum):
    """How it went. 10, 11 and 12 are known and never sent (docs/spec/remoting.md 0)."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    TOPIC_EXIST_ALREADY = 18
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    INVALID_PARAMETER = 29
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    NO_MESSAGE = 208
    POLLING_FULL = 209
    POLLING_TIMEOUT = 210
    FLOW_CONTROL = 215
    ILLEGAL_OPERATION = 604
    GO_AWAY = 1500
    NOT_LEADER = 31901
    OUTCOME_UNKNOWN = 31902
    SEQUENCE_GAP = 31903
    LEADER_LOST_WHILE_WAITING = 31904
    PRODUCER_FORGOTTEN = 31905
    SEAL_STALE = 31906
    NUMBER_USED = 31907


EXCEPTION_BY_CODE: Mapping[int, type[ClusterError]] = {
    ResponseCode.SYSTEM_ERROR: errors.ServerError,
    ResponseCode.SYSTEM_BUSY: errors.QueueFull,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: errors.RequestNotSupported,
    ResponseCode.MESSAGE_ILLEGAL: errors.MessageTooLarge,
    ResponseCode.SERVICE_NOT_AVAILABLE: errors.ServiceNotAvailable,
    ResponseCode.NO_PERMISSION: errors.Unauthorized,
    ResponseCode.TOPIC_NOT_EXIST: errors.TopicNotFound,
    ResponseCode.TOPIC_EXIST_ALREADY: errors.TopicExists,
    ResponseCode.QUERY_NOT_FOUND: errors.NotFound,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: errors.SubscriptionInvalid,
    ResponseCode.SUBSCRIPTION_NOT_EXIST: errors.SubscriptionMissing,
    ResponseCode.SUBSCRIPTION_NOT_LATEST: errors.SubscriptionOutdated,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: errors.GroupNotFound,
    ResponseCode.INVALID_PARAMETER: errors.InvalidRequest,
    ResponseCode.CONSUMER_NOT_ONLINE: errors.ConsumerOffline,
    ResponseCode.FLOW_CONTROL: errors.FlowControlled,
    ResponseCode.ILLEGAL_OPERATION: errors.IllegalOperation,
    ResponseCode.GO_AWAY: errors.PlannedMove,
    ResponseCode.NOT_LEADER: errors.NotLeader,
    ResponseCode.OUTCOME_UNKNOWN: errors.OutcomeUnknown,
    ResponseCode.SEQUENCE_GAP: errors.SequenceGap,
    ResponseCode.LEADER_LOST_WHILE_WAITING: errors.LeaderLostWhileWaiting,
    ResponseCode.PRODUCER_FORGOTTEN: errors.ProducerForgotten,
    ResponseCode.SEAL_STALE: errors.SealStale,
    ResponseCode.NUMBER_USED: errors.NumberUsed,
}
"""One class per failing code and one code per class; 0, 19, 20 and 21 are results, not failures."""

CODE_BY_EXCEPTION: Mapping[type[ClusterError], ResponseCode] = {
    kind: ResponseCode(code) for code, kind in EXCEPTION_BY_CODE.items()
}

STOCK_CODE: Mapping[int, ResponseCode] = {
    ResponseCode.NOT_LEADER: ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.OUTCOME_UNKNOWN: ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.SEQUENCE_GAP: ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.LEADER_LOST_WHILE_WAITING: ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.PRODUCER_FORGOTTEN: ResponseCode.SYSTEM_ERROR,
    ResponseCode.SEAL_STALE: ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NUMBER_USED: ResponseCode.INVALID_PARAMETER,
}
"""What a foreign client is answered instead of one of our own codes."""

SEAL_TIME = "sealTime"
"""The ext field of a `SealStale`: 13 decimal digits."""

NOT_LEADER_CODES = frozenset({ResponseCode.NOT_LEADER, STOCK_CODE[ResponseCode.NOT_LEADER]})
"""A `NotLeader` comes as one of these, and with the ext field "leader" (frames.py)."""


def code_for(error: ClusterError | type[ClusterError], requester_version: int) -> ResponseCode:
    """The code that tells `error` to a client of that version.

    An error without a code of its own is told as its nearest ancestor that has one.
    """
    kind = error if isinstance(error, type) else type(error)
    for ancestor in kind.__mro__:
        code = CODE_BY_EXCEPTION.get(ancestor)
        if code is not None:
            break
    else:
        unsure = kind.outcome is errors.Outcome.UNKNOWN
        code = ResponseCode.OUTCOME_UNKNOWN if unsure else ResponseCode.SERVICE_NOT_AVAILABLE
        if not unsure and not kind.retriable:
            code = ResponseCode.INVALID_PARAMETER
    if code is ResponseCode.GO_AWAY and requester_version <= VERSION_GO_AWAY_ABOVE:
        code = ResponseCode.SERVICE_NOT_AVAILABLE
    return code if requester_version >= VERSION_OWN else STOCK_CODE.get(code, code)


def understands_go_away(version: int) -> bool:
    """Does a stock client of that version connect again when it is answered 1500?

    Ours needs no such answer: it is told who leads (31010) and asks there.
    """
    return VERSION_GO_AWAY_ABOVE < version < VERSION_OWN


def exception_for(code: int, remark: str | None, ext: Mapping[str, str]) -> ClusterError:
    """The exception that a failing response stands for; `ext` may say where to ask instead."""
    assert code not in (0, 19, 20, 21), "a result is not a failure"
    text = remark or _name(code)
    kind = EXCEPTION_BY_CODE.get(code)
    if kind is None:
        return errors.UnknownResponseCode(f"the broker answered code {code}: {text}", code)
    if kind is errors.NotLeader:
        return errors.NotLeader(text, ext.get("leader") or None)
    if kind is errors.SealStale:
        return errors.SealStale(text, stamp_of(ext))
    if kind is errors.RequestNotSupported:
        named = ext.get("namesrvAddr", "").split(";")
        return errors.RequestNotSupported(text, tuple(place for place in named if place))
    if kind is errors.NumberUsed:
        offset = ext.get("queueOffset", "")
        return errors.NumberUsed(text, int(offset) if offset.isdecimal() else -1)
    return kind(text)


def stamp_of(ext: Mapping[str, str]) -> int | None:
    """The stamp that a `SealStale` proposes, in ms; None where it has none that can be read."""
    text = ext.get(SEAL_TIME, "")
    return int(text) if len(text) == 13 and text.isascii() and text.isdecimal() else None


def _name(code: int) -> str:
    try:
        return ResponseCode(code).name
    except ValueError:
        return str(code)


def understands_notify_routes(language: str, version: int) -> bool:
    """Is it a stock Java client from 4.9.4 on? Others take a name without id 0 for a mistake.

    Name servers show such names to these clients only (cluster/nameserver/notify_routes.py), and
    groups with other members have none.
    """
    return language == "JAVA" and VERSION_STANDARD_JSON <= version < VERSION_OWN
