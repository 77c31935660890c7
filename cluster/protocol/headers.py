"""Fields of requests and responses, one small dataclass each; see fields.py.

Source: docs/spec/remoting.md 2.

A field without a default is required (marked * in the tables).

    request = decode(PullRequest, frame.ext)
    answer = response(frame, 0, encode(PullResponse(...)), body)

Send requests (10, 310, 320) are the hot path and live in send.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.protocol.fields import decode as decode
from cluster.protocol.fields import encode as encode
from cluster.protocol.fields import named

# --- consume (docs/spec/remoting.md 2.3) ---------------------------------------------------------

PULL_FLAG_COMMIT_OFFSET = 1
PULL_FLAG_SUSPEND = 2
PULL_FLAG_SUBSCRIPTION = 4
PULL_FLAG_CLASS_FILTER = 8
PULL_FLAG_LITE = 16


@dataclass(frozen=True, slots=True)
class PullRequest:
    """11 and 361. `sys_flag` bits: the five PULL_FLAG_… values."""

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int
    suspend_timeout_millis: int
    sub_version: int
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: int | None = None
    request_source: int | None = None
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class PullResponse:
    """Response to 11 and 361; the four offsets must be there for codes 0, 19, 20 and 21."""

    next_begin_offset: int
    min_offset: int
    max_offset: int
    suggest_which_broker_id: int = 0
    offset_delta: int | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None


@dataclass(frozen=True, slots=True)
class QueryConsumerOffsetRequest:
    """14; answered by `OffsetResponse` or code 22."""

    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool = True
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateConsumerOffsetRequest:
    """15. `advance_only` is ours: a replica took the offset out of a pull that it passes on."""

    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: int
    bname: str | None = None
    advance_only: bool = False


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """30 (`committed` matters there only), 31 and 32."""

    topic: str
    queue_id: int
    committed: bool = True
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class SearchOffsetRequest:
    """29: the queue offset at a time in ms."""

    topic: str
    queue_id: int
    timestamp: int
    boundary_type: str = "LOWER"
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetResponse:
    """Response to 14, 29, 30 and 31."""

    offset: int


@dataclass(frozen=True, slots=True)
class TimestampResponse:
    """Response to 32."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class ConsumerListRequest:
    """38; also the fields of the notification 40."""

    consumer_group: str


@dataclass(frozen=True, slots=True)
class SendBackRequest:
    """36: a message comes back for a later try; `offset` is its position in the log."""

    offset: int
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: int | None = None
    bname: str | None = None


# --- client registration (2.4), transactions (2.5) -----------------------------------------------


@dataclass(frozen=True, slots=True)
class UnregisterClientRequest:
    """35. An empty group is no group (C++ sends one)."""

    client_id: str = named("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True)
class EndTransactionRequest:
    """37. `commit_or_rollback`: 8 commit, 12 rollback, 0 not known."""

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: int
    msg_id: str
    from_transaction_check: bool = False
    transaction_id: str | None = None
    topic: str | None = None
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class ResumeCheckRequest:
    """323: `msg_id` is the offset message id of a half that was given up, or that waits."""

    msg_id: str
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class CheckTransactionRequest:
    """39, server → client, oneway; the body is the half message's record."""

    tran_state_table_offset: int
    commit_log_offset: int
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    bname: str | None = None


# --- messages by id and key (2.7) ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ViewMessageRequest:
    """33: the record at a position of the log."""

    offset: int
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class QueryMessageRequest:
    """12; times in ms."""

    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int


@dataclass(frozen=True, slots=True)
class QueryMessageResponse:
    """Response to 12; the body holds the records."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: int


# --- topics (2.8) --------------------------------------------------------------------------------


CREATE_ONLY = "create"  # a topic that is there stays as it is
ALTER_ONLY = "alter"  # a topic that is not there is not made


@dataclass(frozen=True, slots=True)
class CreateTopicRequest:
    """17."""

    topic: str
    default_topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: str | None = None
    force: bool = False
    intent: str | None = None  # ours: CREATE_ONLY, ALTER_ONLY; without, broker guesses by numbers
    expected: str | None = None  # ours: row_digest of the row to change; another one is refused


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """202, 215, 216, 300 and 351: a topic's name is all they need."""

    topic: str


# --- name server (2.1) ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeleteTopicRequest:
    """216. Without a cluster, in all of them."""

    topic: str
    cluster_name: str | None = None


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """105."""

    topic: str
    accept_standard_json_only: bool = False


@dataclass(frozen=True, slots=True)
class RegisterBrokerRequest:
    """103. Ours add `term` (of the leader that speaks); a stale leader never wins.

    Stock brokers do not; then `term` is -1 and the broker id alone says who leads. Ours add where
    this node passes sends on (`relay_addr`), one address in front of all nodes
    (`advertised_relay`), and a leader adds the node ids of the followers that answer it
    (`living_nodes`, "," between them). A leader that was asked for them adds the groups whose
    members that wait on a notification route are not one (`notified_groups`, "GROUP:MEMBERS", ","
    between them; "*:0" first: of groups that are not listed none wait). `serves_notify`: what is
    pulled at this node's relay port is a queue of a notification route. `serves_rest`: it puts what
    Go clients send through relays into the queue that is meant (rest_queues.py).
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int
    ha_server_addr: str = ""
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool = False
    compressed: bool = False
    body_crc32: int = 0
    term: int = -1
    leader_addr: str | None = None
    relay_addr: str | None = None
    advertised_relay: str | None = None
    node_id: str | None = None
    living_nodes: str | None = None
    notified_groups: str | None = None
    serves_notify: bool | None = None
    serves_rest: bool | None = None


@dataclass(frozen=True, slots=True)
class RegisterBrokerResponse:
    """Response to 103. dledger adds `asks_for_groups`: send `notified_groups` from now on."""

    ha_server_addr: str = ""
    master_addr: str = ""
    asks_for_groups: bool | None = None


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRequest:
    """104. `term` as in 103: a late one cannot remove a newer registration."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int
    term: int = -1


@dataclass(frozen=True, slots=True)
class KvConfigRequest:
    """100 (with a value), 101 and 102."""

    namespace: str
    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class KvNamespaceRequest:
    """219."""

    namespace: str


@dataclass(frozen=True, slots=True)
class KvConfigResponse:
    """Response to 101."""

    value: str


@dataclass(frozen=True, slots=True)
class LeaderChangedNotice:
    """31010, server → client, oneway: the leader of this broker name and its term."""

    broker_name: str
    leader: str
    term: int
