"""Dispatcher: every kind of record, both forms of log, repeats, cut-off bytes, extension."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commitlog.dispatch.dispatcher import Dispatcher
from commitlog.errors import StoreDamaged
from commitlog.files.system import OS_FILES
from commitlog.index.index_format import IndexGeometry, index_keys, key_hash
from commitlog.index.index_service import IndexService
from commitlog.queues.consume_queue import ConsumeQueue
from commitlog.queues.consume_queues import ConsumeQueues
from commitlog.queues.queue_entry import ext_address, tags_code
from commitlog.records.hosts import Host
from commitlog.records.message import Message, encode_message
from commitlog.records.message_fast import ScannedRecord
from commitlog.records.message_layout import encode_blank
from commitlog.records.record import BLANK, HEADER, HEADER_SIZE

from ..strategies import random_search

V6 = Host("2001:db8::1", 99)


class Feed:
    """A log of either form, in memory, and what dispatch made of it."""

    def __init__(self, root: Path, *, entries: bool, ext: bool = False) -> None:
        self.entries, self.data = entries, bytearray()
        self.queues = ConsumeQueues(OS_FILES, root, staging=root / "staging", queue_file_size=400)
        self.index = IndexService(
            OS_FILES, root / "index", staging=root / "staging", geometry=IndexGeometry(64, 4000)
        )
        self.woken: list[tuple[str, int, int]] = []
        self.dispatcher = Dispatcher(
            self.queues,
            self.index,
            entries=entries,
            listener=lambda *event: self.woken.append(event),
            filter_bitmap=self.bitmap if ext else None,
        )
        self.messages: list[Message] = []

    @staticmethod
    def bitmap(record: ScannedRecord) -> bytes | None:
        return b"\x05" if record.topic == b"T" else None

    def add(self, message: Message) -> Message:
        at = len(self.data) + (HEADER_SIZE if self.entries else 0)
        size = len(encode_message(message))
        message = Message(
            **{name: getattr(message, name) for name in COPIED},
            physical_offset=at,
            store_timestamp_ms=1_700_000_000_000 + len(self.messages),
            record_size=size,
        )
        record = encode_message(message)
        if self.entries:
            head = (1, HEADER_SIZE + size, len(self.messages), 1, len(self.data), 0, 0, 0, size)
            self.data += HEADER.pack(*head)
        self.data += record
        self.messages.append(message)
        return message

    def blank(self, size: int) -> None:
        self.data += (BLANK.pack(-1, size) if self.entries else encode_blank(size)).ljust(
            size, b"\0"
        )

    def run(self) -> None:
        begin = self.dispatcher.position
        self.dispatcher.dispatch(begin, [memoryview(self.data)[begin:]])

    def close(self) -> None:
        self.queues.close()
        self.index.close()


COPIED = ("topic", "body", "properties", "queue_id", "queue_offset", "sys_flag", "born_host")


@pytest.fixture(params=["plain", "entries"])
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> Feed:
    return Feed(tmp_path, entries=request.param == "entries")


def queue_of(feed: Feed, topic: str, queue_id: int = 0) -> ConsumeQueue:
    queue = feed.queues.find(topic, queue_id)
    assert isinstance(queue, ConsumeQueue)
    return queue


def message(topic: str, offset: int = 0, **changes: object) -> Message:
    return Message(topic=topic, body=b"body", queue_offset=offset, **changes)  # type: ignore[arg-type]


def test_every_kind_of_record(feed: Feed) -> None:
    long_topic = "%RETRY%" + "x" * 150
    kinds = [
        feed.add(message("T", 0, properties={"TAGS": "TagA", "KEYS": "k  k2", "UNIQ_KEY": "u"})),
        feed.add(message("T", 1, born_host=V6, properties={"TAGS": "订单"})),
        feed.add(message(long_topic, 0, properties={"KEYS": "long"})),
        feed.add(message("T", 2, properties={"XTAGS": "no", "TAGS2": "no"})),
        feed.add(message("T", 3, sys_flag=0x8, properties={"TAGS": "c"})),
    ]
    feed.add(message("T", 0, sys_flag=0x4, properties={"KEYS": "half"}))
    feed.add(message("T", 0, sys_flag=0xC, properties={"KEYS": "rolled"}))
    feed.blank(30)
    kinds.append(feed.add(message("T", 4)))
    feed.run()
    assert feed.dispatcher.position == len(feed.data)
    for kind in kinds:
        entry = queue_of(feed, kind.topic).read(kind.queue_offset, 1)[0]
        assert entry == (kind.physical_offset, kind.record_size, tags_code(kind.tags))
    assert queue_of(feed, "T").max_offset == 5
    assert [len(feed.index.query("T", key)) for key in ("u", "k", "k2", "half")] == [1, 1, 1, 1]
    assert feed.index.query("T", "rolled") == feed.index.query("T", "") == []
    assert feed.index.query(long_topic, "long") == [kinds[2].physical_offset]
    assert dict(((t, q), n) for t, q, n in feed.woken) == {("T", 0): 5, (long_topic, 0): 1}
    feed.close()


def test_delayed_messages_hold_their_due_time(feed: Feed) -> None:
    topic = "SCHEDULE_TOPIC_XXXX"
    delayed = [
        feed.add(message(topic, 0, queue_id=2, properties={"DELAY": "3", "TAGS": "t"})),
        feed.add(message(topic, 1, queue_id=2, properties={"DELAY": "99"})),
        feed.add(message(topic, 2, queue_id=2, properties={"DELAY": "0", "TAGS": "t"})),
        feed.add(message("T", 0, properties={"DELAY": "3"})),
    ]
    feed.run()
    codes = [entry.tags_code for entry in queue_of(feed, topic, 2).read(0, 3)]
    assert codes == [
        delayed[0].store_timestamp_ms + 10_000,
        delayed[1].store_timestamp_ms + 7_200_000,
        tags_code("t"),
    ]
    assert queue_of(feed, "T").read(0, 1)[0].tags_code == 0
    feed.close()


def test_repeats_change_nothing(feed: Feed, tmp_path: Path) -> None:
    for offset in range(5):
        feed.add(message("T", offset, properties={"KEYS": "k"}))
    feed.run()
    for position in (0, feed.messages[3].physical_offset - (HEADER_SIZE if feed.entries else 0)):
        feed.dispatcher.position = position
        feed.run()
        assert queue_of(feed, "T").max_offset == 5
        assert len(feed.index.query("T", "k")) == 5
    feed.close()


def test_a_record_that_is_cut_off_waits(feed: Feed) -> None:
    for offset in range(3):
        feed.add(message("T", offset, properties={"KEYS": "k"}))
    feed.blank(20)
    feed.add(message("T", 3))
    ends = [0]
    for cut in range(len(feed.data) + 1):
        begin = feed.dispatcher.position
        if cut > begin:
            feed.dispatcher.dispatch(begin, [bytes(feed.data[begin:cut])], partial=True)
        if feed.dispatcher.position != ends[-1]:
            ends.append(feed.dispatcher.position)
    assert ends[-1] == len(feed.data)
    assert queue_of(feed, "T").max_offset == 4
    assert len(feed.index.query("T", "k")) == 3
    feed.close()


def test_bytes_that_are_no_records_are_refused_and_nothing_moves(feed: Feed) -> None:
    feed.add(message("T", 0))
    good = bytes(feed.data)
    for bad in (bytes(200), good[:-1], good + b"?" * 200, good[8:]):
        with pytest.raises(StoreDamaged):
            feed.dispatcher.dispatch(0, [bad])
        assert feed.dispatcher.position == 0
    feed.run()
    assert queue_of(feed, "T").max_offset == 1
    feed.close()


def test_a_record_at_another_place_is_refused(feed: Feed) -> None:
    first = feed.add(message("T", 0))
    feed.data += bytes(feed.data)  # the same record again: it names its own, first position
    with pytest.raises(StoreDamaged, match=str(first.physical_offset)):
        feed.run()
    assert feed.dispatcher.position == 0
    feed.close()


def test_bytes_given_for_another_position_are_refused(feed: Feed) -> None:
    feed.add(message("T", 0))
    feed.run()
    begin = len(feed.data)
    feed.add(message("T", 1))
    feed.dispatcher.position = begin + 1
    with pytest.raises(StoreDamaged, match="says position"):
        feed.dispatcher.dispatch(begin + 1, [bytes(feed.data[begin:])])
    assert queue_of(feed, "T").max_offset == 1
    feed.close()


@pytest.mark.parametrize("entries", [False, True])
def test_extension(tmp_path: Path, entries: bool) -> None:
    feed = Feed(tmp_path, entries=entries, ext=True)
    for offset in range(3):
        feed.add(message("T", offset, properties={"TAGS": "TagA"}))
    feed.add(message("S", 0))
    feed.run()
    codes = [entry.tags_code for entry in queue_of(feed, "T").read(0, 3)]
    assert codes == [ext_address(21 * n) for n in range(3)]
    unit = feed.queues.ext(b"T", 0).get(codes[1])
    assert unit is not None
    assert unit == (tags_code("TagA"), feed.messages[1].store_timestamp_ms, b"\x05")
    assert queue_of(feed, "S").read(0, 1)[0].tags_code == ext_address(0)
    feed.dispatcher.position = 0
    feed.run()  # a repeat puts no second unit
    assert feed.queues.ext(b"T", 0).end == 63
    feed.close()


names = st.sampled_from(["T", "S", "订单"])
blocks = st.fixed_dictionaries(
    {},
    optional={
        "TAGS": st.sampled_from(["TagA", "é", "x" * 40]),
        "KEYS": st.sampled_from(["a", "a b", " a  b ", "订单"]),
        "UNIQ_KEY": st.text("0AF", min_size=1, max_size=33),
        "user": st.sampled_from(["TAGS", "KEYS"]),
    },
)


@settings(random_search, max_examples=50)
@given(st.lists(st.tuples(names, st.integers(0, 1), blocks), max_size=25), st.booleans(), st.data())
def test_like_the_obvious_version(
    some: list[tuple[str, int, dict[str, str]]], entries: bool, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        feed = Feed(Path(folder), entries=entries)
        wanted: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
        keys: list[tuple[int, int]] = []
        for topic, queue_id, block in some:
            queue = wanted.setdefault((topic, queue_id), [])
            added = feed.add(message(topic, len(queue), queue_id=queue_id, properties=block))
            queue.append((added.physical_offset, added.record_size, tags_code(added.tags)))
            for text in index_keys(topic, added.unique_key, added.keys):
                keys.append((key_hash(text), added.physical_offset))
            if data.draw(st.integers(0, 3)) == 0:
                feed.run()
        feed.run()
        for (topic, queue_id), rows in wanted.items():
            assert queue_of(feed, topic, queue_id).read(0, 99) == rows
        found = [entry[:2] for file in feed.index.files for entry in file.entries()]
        assert found == keys
        feed.close()
