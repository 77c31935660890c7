"""Every header field of every request code: missing, of the wrong type, out of range, too long.

One connection asks them all: each has an answer that says what is wrong, and the connection lives.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from cluster.protocol import admin_headers as admin
from cluster.protocol import headers, raw_ranges
from cluster.protocol import pop_headers as pops
from cluster.protocol.account_headers import (
    AclRequest,
    DeleteAclRequest,
    ListAccountsRequest,
    ListAclsRequest,
    ListUsersRequest,
    UserRequest,
)
from cluster.protocol.audit_headers import ListAuditRequest, RecordActionRequest
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.fields import encode
from cluster.protocol.frames import Frame
from cluster.protocol.recall_headers import RecallRequest, recall_handle
from cluster.protocol.replica_headers import (
    ChangeMembersRequest,
    ListLeadersRequest,
    ScrubLogRequest,
    TransferLeaderRequest,
    VerifyLogRequest,
)
from cluster.protocol.waiting_headers import ListWaitingRequest

from .conftest import MakeBrokers
from .harness import RawClient

T: dict[str, Any] = {"topic": "T"}
VALID: dict[int, Any] = {
    Code.PULL_MESSAGE: headers.PullRequest("CG", "T", 0, 0, 1, 4, 0, 0, 0, "*"),
    Code.LITE_PULL_MESSAGE: headers.PullRequest("CG", "T", 0, 0, 1, 4, 0, 0, 0, "*"),
    Code.QUERY_MESSAGE: headers.QueryMessageRequest("T", "k", 1, 0, 1 << 60),
    Code.QUERY_CONSUMER_OFFSET: headers.QueryConsumerOffsetRequest("CG", "T", 0),
    Code.UPDATE_CONSUMER_OFFSET: headers.UpdateConsumerOffsetRequest("CG", "T", 0, 1),
    Code.UPDATE_AND_CREATE_TOPIC: headers.CreateTopicRequest("N", "TBW102", 1, 1, 6),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: headers.SearchOffsetRequest("T", 0, 0),
    Code.GET_MAX_OFFSET: headers.QueueRequest("T", 0),
    Code.GET_MIN_OFFSET: headers.QueueRequest("T", 0),
    Code.GET_EARLIEST_MSG_STORETIME: headers.QueueRequest("T", 0),
    Code.VIEW_MESSAGE_BY_ID: headers.ViewMessageRequest(48),
    Code.UNREGISTER_CLIENT: headers.UnregisterClientRequest("nobody@1"),
    Code.FETCH_LOG_RANGE: raw_ranges.LogRangeRequest(0, 1000),
    Code.FETCH_QUEUE_RANGE: raw_ranges.QueueRangeRequest("T", 0, 0, 1),
    Code.END_TRANSACTION: headers.EndTransactionRequest("PG", 0, 48, 0, "id"),
    Code.RESUME_CHECK_HALF_MESSAGE: headers.ResumeCheckRequest("0" * 32),
    Code.GET_CONSUMER_LIST_BY_GROUP: headers.ConsumerListRequest("CG"),
    Code.GET_TOPIC_STATS_INFO: headers.TopicRequest("T"),
    Code.GET_TOPIC_CONFIG: headers.TopicRequest("T"),
    Code.DELETE_TOPIC_IN_BROKER: headers.TopicRequest("N2"),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: headers.TopicRequest("T"),
    Code.GET_ALL_TOPIC_CONFIG: admin.TopicPageRequest(0, None, 1),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: admin.GroupPageRequest(0, None, 1),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: admin.GroupConfigRequest("TOOLS_CONSUMER"),
    Code.DELETE_SUBSCRIPTIONGROUP: admin.DeleteGroupRequest("G9"),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: admin.GroupForbiddenRequest("CG", "T"),
    Code.GET_CONSUMER_CONNECTION_LIST: admin.ConsumerGroupRequest("CG"),
    Code.GET_PRODUCER_CONNECTION_LIST: admin.ProducerGroupRequest("PG"),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: admin.GroupTopicRequest("CG", "T"),
    Code.QUERY_CONSUME_TIME_SPAN: admin.GroupTopicRequest("CG", "T"),
    Code.GET_CONSUME_STATS: admin.ConsumeStatsRequest("CG"),
    Code.GET_BROKER_CONSUME_STATS: admin.BrokerConsumeStatsRequest(False),
    Code.QUERY_CORRECTION_OFFSET: admin.CorrectionOffsetRequest("T"),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: admin.ResetOffsetRequest("T", "CG", -1, True),
    Code.CLONE_GROUP_OFFSET: admin.CloneOffsetRequest("CG", "CG2", "T"),
    Code.GET_CONSUMER_RUNNING_INFO: admin.RunningInfoRequest("CG", "nobody"),
    Code.CONSUME_MESSAGE_DIRECTLY: admin.ConsumeDirectlyRequest("CG", "nobody", "0" * 32),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: admin.ConsumerStatusRequest("T", "CG", "nobody"),
    Code.QUERY_CONSUME_QUEUE: admin.QueryQueueRequest("T", 0, 0, 1),
    Code.TRANSFER_LEADER: TransferLeaderRequest("n0"),
    Code.CHANGE_MEMBERS: ChangeMembersRequest("remove", "n9", dry_run=True),
    Code.SCRUB_LOG: ScrubLogRequest(start=True),
    Code.VERIFY_LOG: VerifyLogRequest(0, 4),
    Code.LIST_WAITING: ListWaitingRequest("delayed"),
    Code.LIST_ACCOUNTS: ListAccountsRequest(),
    Code.LIST_AUDIT: ListAuditRequest(1, before=7),
    Code.LIST_LEADERS: ListLeadersRequest(),
    Code.RECORD_ACTION: RecordActionRequest("dlq resend", "group CG"),
    Code.AUTH_DELETE_USER: UserRequest("nobody"),
    Code.AUTH_GET_USER: UserRequest("nobody"),
    Code.AUTH_LIST_USER: ListUsersRequest("nobody"),
    Code.AUTH_GET_ACL: AclRequest("User:nobody"),
    Code.AUTH_DELETE_ACL: DeleteAclRequest("User:nobody"),
    Code.AUTH_LIST_ACL: ListAclsRequest("nobody"),
    Code.POP_MESSAGE: pops.PopRequest("CGP", "T", -1, 1, 9000, 0),
    Code.ACK_MESSAGE: pops.AckRequest("CG", "T", 0, "0 1 1 0 0 b 0 0", 0),
    Code.CHANGE_MESSAGE_INVISIBLETIME: pops.ChangeInvisibleTimeRequest(
        "CG", "T", 0, "0 1 1 0 0 b 0 0", 0, 1
    ),
    Code.PEEK_MESSAGE: pops.PeekRequest("T", -1, 1, "CG"),
    Code.NOTIFICATION: pops.NotificationRequest("CG", "T", -1, 0),
    Code.POLLING_INFO: pops.PollingInfoRequest("CG", "T", -1),
    Code.CONSUMER_SEND_MSG_BACK: headers.SendBackRequest(48, "CG", 0),
    Code.RECALL_MESSAGE: RecallRequest("T", recall_handle("T", "broker-a", 1, "nobody")),
    Code.VIEW_BROKER_STATS_DATA: admin.StatsDataRequest("TOPIC_PUT_NUMS", "T"),
}
OFFLINE = {  # what is asked of a client that is not there
    Code.GET_CONSUMER_RUNNING_INFO: 1,
    Code.CONSUME_MESSAGE_DIRECTLY: 1,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: 206,
    Code.RESUME_CHECK_HALF_MESSAGE: 1,
    Code.QUERY_MESSAGE: 22,
    Code.CHANGE_MESSAGE_INVISIBLETIME: 208,
    Code.PEEK_MESSAGE: 19,
    Code.QUERY_CONSUMER_OFFSET: 0,
    Code.CHANGE_MEMBERS: 29,  # nobody of that name
    Code.CONSUMER_SEND_MSG_BACK: 1,  # the log's own record
    Code.RECALL_MESSAGE: 604,
    Code.AUTH_GET_ACL: 22,
    Code.AUTH_DELETE_ACL: 22,
}
BODIES = {  # codes whose fields are in a JSON body
    Code.HEART_BEAT, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.CHECK_CLIENT_CONFIG,
    Code.UPDATE_AND_CREATE_TOPIC_LIST, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, Code.QUERY_ASSIGNMENT,
    Code.SET_MESSAGE_REQUEST_MODE, Code.CHANGE_ACCOUNTS, Code.AUTH_CREATE_USER,
    Code.AUTH_UPDATE_USER, Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL,
}  # fmt: skip
JUNK = [b"", b"\xff", b"[]", b"7", b"null", b"{", b"{}", b'{"mqSet":[7]}', b'{"a":' * 2000]
LONG = "x" * 40_000


async def client_of(make: Any) -> RawClient:
    client: RawClient = await make.client(await make.leader())
    await client.send()
    await client.heartbeat()
    return client


def wire_name(field: dataclasses.Field[Any], header: Any) -> str:
    (found,) = encode(dataclasses.replace(header, **{field.name: "~mark"})).items() - (
        encode(header).items()
    )
    return found[0]


async def test_the_valid_requests_are_answered(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await client_of(brokers)
        for code, header in VALID.items():
            answer = await client.ask(code, encode(header))
            assert answer.code == OFFLINE.get(Code(code), 0), (Code(code), answer.remark)


async def test_missing_fields_and_wrong_types_are_named(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await client_of(brokers)
        for code, header in VALID.items():
            for field in dataclasses.fields(header):
                name, ext = wire_name(field, header), encode(header)
                if field.default is dataclasses.MISSING:
                    answer = await client.ask(code, {k: v for k, v in ext.items() if k != name})
                    assert answer.code == 29, (Code(code), name)
                    assert name in (answer.remark or "") or "group" in (answer.remark or "")
                if str(field.type).startswith("int"):
                    for wrong in ("x", "1.5", str(1 << 70), LONG):
                        answer = await client.ask(code, {**ext, name: wrong})
                        assert (answer.code, name in (answer.remark or "")) == (29, True), (
                            Code(code), name, wrong[:9], answer.remark,
                        )  # fmt: skip
        assert (await client.send()).code == 0, "the connection lives"


async def test_extreme_numbers_and_long_texts_have_an_answer(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await client_of(brokers)
        asked: list[tuple[int, str, asyncio.Future[Frame]]] = []
        for code, header in VALID.items():
            for field in dataclasses.fields(header):
                name, ext = wire_name(field, header), encode(header)
                values = [LONG, "a b", ""]
                if str(field.type).startswith("int"):
                    values = [str((1 << 63) - 1), str(-(1 << 63)), "-2"]
                asked += [(code, name, client.ask(code, {**ext, name: v})) for v in values]
        for code, name, waiting in asked:  # some wait for what never comes: at the same time
            answer = await waiting
            assert answer.code == 0 or answer.remark, (Code(code), name)
            assert len(answer.remark or "") < 2 * len(LONG)
            assert "Error(" not in (answer.remark or ""), (Code(code), answer.remark)
        state = brokers.running()[0].parts.state
        assert all(len(row.name) <= 127 for row in state.topics), "nothing too long was stored"
        assert all(len(str(bean["groupName"])) <= 120 for bean in state.groups)
        assert (await client.send()).code == 0, "the connection lives"


@pytest.mark.parametrize("body", JUNK, ids=lambda body: repr(body[:12]))
async def test_bodies_that_say_nothing(make_brokers: MakeBrokers, body: bytes) -> None:
    async with make_brokers() as brokers:
        client = await client_of(brokers)
        for code in sorted(BODIES):
            answer = await client.ask(code, body=body)
            assert (answer.code, bool(answer.remark)) == (29, True), (Code(code), answer)


async def test_every_code_of_the_table_is_tried_here(make_brokers: MakeBrokers) -> None:
    """A new code with header fields needs a row in VALID, one with a body a row in BODIES."""
    without_fields = {
        Code.GET_BROKER_RUNTIME_INFO, Code.GET_BROKER_CONFIG, Code.UPDATE_BROKER_CONFIG,
        Code.GET_ALL_PRODUCER_INFO, Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.CLEAN_UNUSED_TOPIC, Code.GET_ALL_CONSUMER_OFFSET,
        Code.QUERY_BROKER_OFFSET, Code.QUERY_TOPICS_BY_CONSUMER, Code.LIST_MEMBERS,
    }  # fmt: skip
    from cluster.broker.access.feature import TABLES as ACCESS
    from cluster.broker.admin.feature import TABLES as ADMIN
    from cluster.broker.clients.feature import TABLES as CLIENTS

    codes = {code for table in (*ACCESS, *ADMIN, *CLIENTS) for code in table}
    assert codes - VALID.keys() - BODIES == without_fields
