"""A program that embeds the store and the log: it must run on the standard library alone."""

import asyncio
import tempfile
from pathlib import Path

from commitlog import Message, MessageStore
from dledger import QueueFull, RaftConfig, ReplicatedLog

SMALL = {"data_file_size": 4 << 20, "index_file_size": 640_000, "entry_size_max": 1 << 20}


async def append(folder: Path) -> None:
    config = RaftConfig("n0", {"n0": ("127.0.0.1", 0)}, folder, cluster_id="example", **SMALL)
    ReplicatedLog.format(config)
    async with ReplicatedLog(config) as log:
        await log.wait_for_leader()
        while True:  # until the new leader has committed its first entry
            try:
                await log.append(b"hello", producer="p", sequence=0)
                return
            except QueueFull:
                await asyncio.sleep(0)


def store(folder: Path) -> None:
    with MessageStore(folder) as store:
        store.put(Message("t", b"hello"))
        assert [message.body for message in store.get("t", 0, 0)] == [b"hello"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        store(Path(folder, "store"))
        asyncio.run(append(Path(folder, "log")))
    print("stored")
