"""A broker and a name server in an event loop of their own, and what they may not leave behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from cluster.broker.kernel.net.connection import ClientConnection
from cluster.nameserver.server import NameServer
from cluster.protocol.codes import RequestCode
from tests.virtual_loop import SteadyLoop
from tests.waiting import eventually, within

from ..broker.harness import Brokers
from .fuzzing import is_whole

T = TypeVar("T")

FRAMES_OF_CONNECTION = 60
CONNECTIONS_AT_ONCE = 6
# What waits for a client that is gone ends after five seconds; looking takes time, too.
SETTLED_SECONDS_MAX = 20.0
LOOK_SECONDS = 0.1
ANSWERS_SECONDS_MAX = 10.0  # until a server that was told goodbye has closed the connection


class Live:
    """Both servers. `mistakes` collects what was logged as one of ours, or never caught."""

    def __init__(self, root: Path, new_address: Callable[[], str]) -> None:
        self._runner = asyncio.Runner(loop_factory=SteadyLoop)
        self.mistakes: list[str] = []
        self._handler = _Mistakes(self.mistakes)
        # A warning holds an error, an error its frames, those a connection; pytest keeps them all.
        logging.getLogger("cluster").setLevel(logging.ERROR)
        logging.getLogger().addHandler(self._handler)
        loop = self._runner.get_loop()
        loop.set_exception_handler(lambda _, context: self.mistakes.append(str(context)))
        self.brokers = Brokers(root, [new_address()], {"long_poll_seconds_max": 0.2})
        self.nameserver = NameServer(new_address(), 9876, warm_up_seconds=0)
        self.run(self._start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def _start(self) -> None:
        await self.nameserver.start()
        await self.brokers.start()
        self.node = await self.brokers.leader()
        self.witness = await self.brokers.client(self.node)
        self.asker = await self.brokers.client_of(self.nameserver.address)
        topic = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4}
        await self.witness.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {**topic, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0},
        )

    def close(self) -> None:
        async def stop() -> None:
            await self.brokers.close()
            await self.nameserver.close()

        self.run(stop())
        self._runner.close()
        logging.getLogger("cluster").setLevel(logging.NOTSET)
        logging.getLogger().removeHandler(self._handler)

    async def others_are_served(self) -> None:
        """The connections that did nothing wrong."""
        sent = await self.witness.send("witness", b"still here")
        assert sent.code == 0, sent.remark
        pulled = await self.witness.pull("witness", offset=int(sent.ext["queueOffset"]))
        assert pulled.code == 0, pulled.remark
        listed = await self.asker.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert listed.code == 0, listed.remark

    async def left(self, before: Counter[str] | None = None) -> Counter[str]:
        """What is there now, once it is as `before` or half a dozen seconds are over.

        Tasks, descriptors but for the store's own files (a queue for each topic, bounded), and
        connections: those that the servers count, and those that anything still knows.
        """
        found: Counter[str] = Counter()

        def is_settled() -> bool:
            nonlocal found
            found = self._counted()
            return found["objects"] == found["broker"] if before is None else found == before

        with contextlib.suppress(AssertionError):  # the caller says what is left
            await eventually(is_settled, "nothing is left", SETTLED_SECONDS_MAX, LOOK_SECONDS)
        return found

    def _counted(self) -> Counter[str]:
        gc.collect()
        links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
        files = [os.readlink(link) for link in links if os.path.lexists(link)]
        return Counter(
            tasks=len(asyncio.all_tasks()),
            files=sum(not name.startswith(str(self.brokers.root)) for name in files),
            broker=len(self.node.parts.server.connections),
            nameserver=len(self.nameserver.connections),
            objects=sum(isinstance(one, ClientConnection) for one in gc.get_objects()),
        )


class _Mistakes(logging.Handler):
    """Keeps what a server logs with a traceback, or as an error."""

    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(self.format(record))


def memory() -> int:
    """Bytes of this process that no file backs."""
    gc.collect()
    return int(psutil.Process().memory_full_info().uss)


def by_connection(frames: Sequence[bytes]) -> list[list[bytes]]:
    """Frames of each connection; one that is not whole is a connection's last."""
    groups: list[list[bytes]] = [[]]
    for frame in frames:
        groups[-1].append(frame)
        if len(groups[-1]) >= FRAMES_OF_CONNECTION or not is_whole(frame):
            groups.append([])
    return [group for group in groups if group]


async def pour(address: str, frames: Sequence[bytes]) -> None:
    """Give a server all of them, and wait until it is through with each connection."""
    groups = iter(by_connection(frames))

    async def worker() -> None:
        for group in groups:
            rest = group
            while rest:
                rest = rest[await _one(address, rest) :]

    await asyncio.gather(*(worker() for _ in range(CONNECTIONS_AT_ONCE)))


async def _one(address: str, frames: Sequence[bytes]) -> int:
    """One connection; how many frames it took: all, unless a whole one ended it."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    answers = asyncio.ensure_future(_drain(reader))
    try:
        for number, frame in enumerate(frames):
            writer.write(frame)
            await writer.drain()
            if answers.done():
                return number + 1
        if writer.can_write_eof():
            writer.write_eof()
    except (ConnectionError, OSError):
        return len(frames)
    finally:
        await within(answers, "the last answer", ANSWERS_SECONDS_MAX)
        writer.close()
    return len(frames)


async def _drain(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(1 << 16):
            pass
    except ConnectionError:
        pass
