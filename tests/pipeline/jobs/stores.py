"""Small stores for the jobs' tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from commitlog.config import StoreConfig
from commitlog.records.message import Message
from commitlog.store.store import MessageStore

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
DLEDGER = GOLDEN / "dledger" / "dledger-broker" / "store"
THREE = [GOLDEN / "dledger" / "dledger-3" / f"n{number}" / "store" for number in range(3)]
CONFIG = StoreConfig(
    commit_log_file_size=1 << 14,
    body_size_max=4096,
    consume_queue_file_size=20 * 50,
    index_slots=50,
    index_entries=200,
    preallocated_files=0,
)


def put(root: Path, numbers: Sequence[int], queues: int = 3) -> None:
    """Messages of two topics into a plain store, which may hold some."""
    with MessageStore(root, CONFIG) as store:
        for number in numbers:
            store.put(
                Message(
                    topic="even" if number % 2 == 0 else "odd",
                    body=b"%d" % number,
                    queue_id=number % queues,
                    properties={"KEYS": f"k{number}", "TAGS": "red", "n": str(number)},
                )
            )
