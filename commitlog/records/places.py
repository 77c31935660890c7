"""Which queues a record can be of: the topic can name a folder, and the numbers fit a queue.

Every writer checks it before it appends. A committed record that is of no possible queue (another
program's, or of a writer with a mistake) is passed over where queues and state are derived, by this
rule alone, so that every replica passes over the same ones.
"""

from __future__ import annotations

from typing import Final

from commitlog.records.message_layout import TOPIC_SIZE_MAX

#: 16 times what a topic may have here; RocketMQ has no bound, its own largest topic has 1024.
QUEUE_ID_MAX: Final = (1 << 16) - 1
#: A queue's file positions are 20 times as large and must stay numbers of a file system.
QUEUE_OFFSET_MAX: Final = (1 << 56) - 1

_NO_FOLDERS: Final = frozenset({b"", b".", b".."})


def is_possible_topic(topic: bytes) -> bool:
    """Can it name a folder of queues? Clients' names are narrower (names.py)."""
    if topic in _NO_FOLDERS or b"/" in topic or b"\0" in topic or len(topic) > TOPIC_SIZE_MAX:
        return False
    try:
        topic.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_possible_queue(topic: bytes, queue_id: int) -> bool:
    """Can there be such a queue?"""
    return 0 <= queue_id <= QUEUE_ID_MAX and is_possible_topic(topic)


def is_possible(topic: bytes, queue_id: int, queue_offset: int) -> bool:
    """Can a record of that queue have that offset?"""
    return 0 <= queue_offset <= QUEUE_OFFSET_MAX and is_possible_queue(topic, queue_id)
