"""Frames of the specification and of six client set-ups (docs/spec/remoting.md 7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.protocol.batch import iterate
from cluster.protocol.frames import Frame, FrameDecoder, decode_frame, encode_frame
from cluster.protocol.headers import (
    EndTransactionRequest,
    PullRequest,
    PullResponse,
    QueryConsumerOffsetRequest,
    SendBackRequest,
    UnregisterClientRequest,
    UpdateConsumerOffsetRequest,
    decode,
    encode,
)
from cluster.protocol.heartbeat import decode_heartbeat
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.route import decode_route, encode_route
from cluster.protocol.send import SEND_CODES, SendReader, SendRequest
from cluster.protocol.send_own import RequestDecoder, ResponseDecoder
from cluster.protocol.topics import decode_topic_stats, encode_topic_stats
from commitlog.records.message import decode_message

VECTORS = json.loads(
    (Path(__file__).parents[2] / "data" / "vectors" / "remoting_vectors.json").read_text()
)
COMPUTED: list[dict[str, Any]] = VECTORS["computed"]
CAPTURED: list[dict[str, Any]] = VECTORS["captured"]
ALL = [*COMPUTED, *CAPTURED]


def computed(name: str) -> Frame:
    (found,) = [vector for vector in COMPUTED if vector["name"] == name]
    return decode_frame(bytes.fromhex(found["frameHex"]))


def captured(name: str) -> Frame:
    (found,) = [vector for vector in CAPTURED if vector["name"] == name]
    return decode_frame(bytes.fromhex(found["frameHex"]))


def test_there_are_as_many_as_the_readme_says() -> None:
    assert (len(COMPUTED), len(CAPTURED)) == (22, 40)


@pytest.mark.parametrize("vector", COMPUTED, ids=lambda vector: vector["name"])
def test_computed_frame_is_read_and_written(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["frameHex"])
    header = vector["header"]
    frame = decode_frame(data)
    assert frame == Frame(
        header["code"],
        header["opaque"],
        header.get("ext", {}),
        bytes.fromhex(vector["bodyHex"]),
        header["flag"],
        header.get("remark"),
        "JAVA",
        479,
        vector["serializeType"],
    )
    assert len(data) == vector["frameLen"]
    again = encode_frame(frame)
    if frame.kind == 1:
        assert again == data
    assert decode_frame(again) == frame


@pytest.mark.parametrize("vector", CAPTURED, ids=lambda vector: vector["name"])
def test_captured_frame_is_read(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["frameHex"])
    frame = decode_frame(data)
    assert (frame.code, frame.flag, frame.kind) == (
        vector["code"],
        vector["flag"],
        vector["serializeType"],
    )
    assert all(isinstance(value, str) for value in frame.ext.values())
    assert decode_frame(encode_frame(frame)) == frame


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector["name"])
def test_split_at_every_byte(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["frameHex"])
    whole = decode_frame(data)
    for cut in range(len(data) + 1):
        decoder = FrameDecoder()
        assert decoder.feed(data[:cut]) + decoder.feed(data[cut:]) == [whole]
        assert decoder.rest_size == 0


def test_all_frames_as_one_stream_in_pieces_of_any_size() -> None:
    stream = b"".join(bytes.fromhex(vector["frameHex"]) for vector in ALL)
    whole = [decode_frame(bytes.fromhex(vector["frameHex"])) for vector in ALL]
    for size in (1, 7, 64, 1000, len(stream)):
        plain, requests, responses = FrameDecoder(), RequestDecoder(), ResponseDecoder()
        frames: list[Frame] = []
        items: list[Frame | SendRequest] = []
        answers: list[object] = []
        for at in range(0, len(stream), size):
            frames += plain.feed(stream[at : at + size])
            items += requests.feed(stream[at : at + size])
            answers += responses.feed(stream[at : at + size])
        assert frames == whole
        assert answers == whole, "nothing here is an answer in our own layout"
        assert [item.opaque for item in items] == [frame.opaque for frame in whole]


@pytest.mark.parametrize(
    "vector", [v for v in CAPTURED if v["code"] in SEND_CODES], ids=lambda v: v["name"]
)
def test_every_captured_send_is_understood(vector: dict[str, Any]) -> None:
    frame = decode_frame(bytes.fromhex(vector["frameHex"]))
    request = SendReader().read(frame)
    template = request.template
    assert template.topic in {
        "TopicJava", "TopicGo", "TopicNode", "DefaultCluster_REPLY_TOPIC"
    }  # fmt: skip
    assert template.producer_group.startswith("PG_")
    assert template.is_batch == (vector["code"] == 320)
    assert request.born_timestamp_ms > 1_795_000_000_000
    assert template.default_topic_queue_count == 4
    if template.is_batch:
        assert [item.body for item in iterate(request.body)] == [b"b1", b"b2"]


def test_cpp_numbers_and_newline() -> None:
    query = decode(QueryConsumerOffsetRequest, captured("cpp-0.4.4/14").ext)
    assert query == QueryConsumerOffsetRequest("CG_CPP", "TopicCpp", 0)
    heartbeat = decode_heartbeat(captured("cpp-0.4.4/34").body)
    (consumer,) = heartbeat.consumers
    assert consumer.consume_type == "CONSUME_PASSIVELY"
    assert consumer.message_model == "CLUSTERING"
    assert consumer.consume_from == "CONSUME_FROM_LAST_OFFSET"
    assert [item.version for item in consumer.subscriptions] == [1795175944065] * 2
    assert heartbeat.producer_groups == ("PG_CPP",)
    leave = decode(UnregisterClientRequest, captured("cpp-0.4.4/35").ext)
    assert (leave.producer_group, leave.consumer_group) == ("PG_CPP", "")


def test_node_numbers_and_booleans() -> None:
    frame = captured("node-ali-ons-3.12.0/310")
    assert (frame.ext["e"], frame.ext["k"], frame.version) == ("0", "false", 121)
    update = decode(UpdateConsumerOffsetRequest, captured("node-ali-ons-3.12.0/15").ext)
    assert (update.queue_id, update.commit_offset) == (0, 1)


def test_java_headers_by_field() -> None:
    pull = decode(PullRequest, captured("java-5.3.3/11").ext)
    assert (pull.sys_flag, pull.suspend_timeout_millis, pull.max_msg_bytes) == (2, 15000, 262144)
    assert pull.subscription is None
    lite = decode(PullRequest, captured("java-5.3.3-binary/361").ext)
    assert (lite.sys_flag, lite.subscription, lite.max_msg_bytes) == (22, "*", 2147483647)
    back = decode(SendBackRequest, captured("java-5.3.3-binary/36").ext)
    assert (back.offset, back.group, back.delay_level, back.max_reconsume_times) == (
        1722, "CG_JAVA", 0, 16,
    )  # fmt: skip
    for name in ("java-4.9.8/37", "java-5.3.3-binary/37", "go-v2/37"):
        end = decode(EndTransactionRequest, captured(name).ext)
        assert end.commit_or_rollback == 8
        assert not end.from_transaction_check


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (PullRequest, "pull_request"),
        (PullResponse, "pull_response_one_message"),
        (PullResponse, "pull_not_found"),
        (EndTransactionRequest, "end_transaction_commit"),
    ],
)
def test_headers_are_written_with_the_names_they_are_read_by(kind: type, name: str) -> None:
    frame = computed(name)
    header = decode(kind, frame.ext)
    written = encode(header)
    assert {key: written[key] for key in frame.ext} == frame.ext
    assert decode(kind, written) == header


def test_pulled_records() -> None:
    body = computed("pull_response_two_messages_compressed").body
    first = decode_message(body)
    second = decode_message(body, first.record_size)
    assert first.record_size + second.record_size == len(body)
    assert (second.queue_offset, first.sys_flag & 1, second.sys_flag & 1) in {(8, 0, 1), (8, 1, 0)}


def test_route_in_both_forms_and_back() -> None:
    standard, bare = (
        computed("route_response_standard_json"),
        computed("route_response_fastjson_style"),
    )
    route = decode_route(standard.body)
    assert route == decode_route(bare.body)
    assert route.brokers[0].addresses == {0: "10.0.0.2:10911", 1: "10.0.0.3:10911"}
    assert encode_route(route, 479) == standard.body
    older = bare.body.replace(b',"enableActingMaster":false', b"")
    assert encode_route(route, 317) == older, "only what such a client knows"
    assert decode_route(encode_route(route, 63, standard=True)) == route


def test_topic_statistics_with_objects_as_keys() -> None:
    frame = computed("topic_stats_response_fastjson_keys")
    bounds = decode_topic_stats(frame.body)
    (queue,) = bounds
    assert queue == MessageQueue("TopicTest", "broker-a", 0)
    assert (bounds[queue].min_offset, bounds[queue].max_offset) == (0, 8)
    assert encode_topic_stats(bounds) == frame.body
