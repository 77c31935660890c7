"""Names of message properties (docs/spec/store.md 2), and which of them user code may not set.

Comments: S = stored in the log, C = added by a client after a pull, W = on the wire or temporary.
"""

from __future__ import annotations

from typing import Final

KEYS: Final = "KEYS"  # S business keys separated by one space; each becomes an index entry
TAGS: Final = "TAGS"  # S one tag string; its hash goes to the consume queue
UNIQUE_KEY: Final = "UNIQ_KEY"  # S client-made message id; indexed; also the transaction id
WAIT: Final = "WAIT"  # S true/false, absent = true
DELAY: Final = "DELAY"  # S delay level, decimal
REAL_TOPIC: Final = "REAL_TOPIC"  # S where a deferred message belongs
REAL_QUEUE_ID: Final = "REAL_QID"  # S
RETRY_TOPIC: Final = "RETRY_TOPIC"  # S original topic of a message sent back for retry
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"  # S id of the first copy, on retry and DLQ copies
RECONSUME_TIME: Final = "RECONSUME_TIME"  # W
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"  # W
TRANSACTION_PREPARED: Final = "TRAN_MSG"  # S true on half messages
PRODUCER_GROUP: Final = "PGROUP"  # S producer group, for check-back
TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"  # S first half's offset
TRANSACTION_ID: Final = "__transactionId__"  # S copy of UNIQ_KEY on half messages
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"  # S check-backs so far
CHECK_IMMUNITY_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"  # S quiet time before a check
CLUSTER: Final = "CLUSTER"  # S cluster name, put on by the broker for single sends
REGION: Final = "MSG_REGION"  # S region id
TRACE_ON: Final = "TRACE_ON"  # S trace switch
MIN_OFFSET: Final = "MIN_OFFSET"  # C queue bounds at pull time
MAX_OFFSET: Final = "MAX_OFFSET"  # C
CONSUME_START_TIME: Final = "CONSUME_START_TIME"  # C
BUYER_ID: Final = "BUYER_ID"  # S legacy routing id
TRANSFER_FLAG: Final = "TRANSFER_FLAG"  # S legacy
CORRECTION_FLAG: Final = "CORRECTION_FLAG"  # S legacy
MQ2_FLAG: Final = "MQ2_FLAG"  # S legacy
EXTEND_UNIQUE_INFO: Final = "EXTEND_UNIQ_INFO"  # S
INSTANCE_ID: Final = "INSTANCE_ID"  # S client instance
INNER_NUM: Final = "INNER_NUM"  # S inner batch: number of messages
INNER_BASE: Final = "INNER_BASE"  # S inner batch: first queue offset
DUP_INFO: Final = "DUP_INFO"  # S two parts joined by _
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"  # S LMQ queue names, comma-separated
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"  # S their offsets
SHARDING_KEY: Final = "__SHARDINGKEY"  # S ordering key (message group)
CORRELATION_ID: Final = "CORRELATION_ID"  # S request-reply
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"  # S
TTL: Final = "TTL"  # S
ARRIVE_TIME: Final = "ARRIVE_TIME"  # W
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"  # W
MESSAGE_TYPE: Final = "MSG_TYPE"  # S reply marks a reply
POP_CHECKPOINT: Final = "POP_CK"  # C pop-consumption handle
POP_CHECKPOINT_OFFSET: Final = "POP_CK_OFFSET"  # C
FIRST_POP_TIME: Final = "1ST_POP_TIME"  # S kept on retry copies
FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"  # W static topics
REDIRECT: Final = "REDIRECT"  # W static topics
TRACE_CONTEXT: Final = "TRACE_CONTEXT"  # S gRPC proxy
BORN_HOST: Final = "__BORNHOST"  # S gRPC proxy
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"  # S gRPC proxy
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"  # S absolute due time
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"  # S relative, ms
TIMER_DELAY_SECONDS: Final = "TIMER_DELAY_SEC"  # S relative, s
TIMER_OUT_MS: Final = "TIMER_OUT_MS"  # S computed due time
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"  # S bookkeeping
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"  # S
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"  # S
TIMER_DELETE_UNIQUE_KEY: Final = "TIMER_DEL_UNIQKEY"  # S cancels an earlier timer message
TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"  # S
RECORD_CRC: Final = "__CRC32#"  # S checksum of the whole record (docs/spec/store.md 1.4)
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"  # S where a dead letter came from
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"  # S
TRANSIENT_TOPIC_SYS_FLAG: Final = "__RMQ.TRANSIENT.TOPIC_SYS_FLAG"  # W
TRANSIENT_GROUP_SYS_FLAG: Final = "__RMQ.TRANSIENT.GROUP_SYS_FLAG"  # W
TRANSIENT_PREFIX: Final = "__RMQ.TRANSIENT."  # names with this prefix are never stored

# Ours (design of record): idempotent producers. Contiguous sequence per producer and queue.
PRODUCER_ID: Final = "__PID"
PRODUCER_SEQUENCE: Final = "__SEQ"

KEY_SEPARATOR: Final = " "

# Names of docs/spec/store.md 2 that user code may nevertheless set (marked † there).
_FREE: Final = frozenset(
    {
        TRANSACTION_ID,
        TRANSACTION_CHECK_TIMES,
        CHECK_IMMUNITY_SECONDS,
        INNER_NUM,
        INNER_BASE,
        INNER_MULTI_DISPATCH,
        SHARDING_KEY,
        FORWARD_QUEUE_ID,
        REDIRECT,
        TRACE_CONTEXT,
        TRANSIENT_TOPIC_SYS_FLAG,
        TRANSIENT_GROUP_SYS_FLAG,
    }
)
_NOT_NAMES: Final = frozenset({TRANSIENT_PREFIX, KEY_SEPARATOR})

RESERVED: Final = (
    frozenset(
        value
        for name, value in list(globals().items())
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    )
    - _FREE
    - _NOT_NAMES
)
