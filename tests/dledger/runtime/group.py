"""Three replicas in one process, each on its own loopback address and folder."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dledger import DledgerError, RaftConfig, ReplicatedLog

PORT = 20911


async def until(condition: Callable[[], bool]) -> None:
    """Until it is true; bounded by the test's own timeout."""
    while not condition():  # noqa: ASYNC110  # what is looked at has no event to wait for
        await asyncio.sleep(0.005)


class Group:
    """Nodes n0, n1, … by name; each can be stopped and started again on its folder."""

    def __init__(self, folder: Path, address: Callable[[], str], size: int = 3) -> None:
        peers = {f"n{number}": (address(), PORT) for number in range(size)}
        self.configs = {
            name: RaftConfig(
                node_id=name,
                peers=peers,
                data_dir=folder / name,
                cluster_id="test-cluster",
                data_file_size=4 << 20,
                index_file_size=32 * 20_000,
                entry_size_max=1 << 20,
                seed=number,
            )
            for number, name in enumerate(peers)
        }
        self.logs: dict[str, ReplicatedLog] = {}

    def change(self, name: str, **values: object) -> None:
        """Another setting for one node, from its next start on."""
        self.configs[name] = replace(self.configs[name], **values)  # type: ignore[arg-type]

    async def start(self, *names: str) -> None:
        """Start these nodes, all when none is named; format them when they are new."""
        for name in names or self.configs:
            config = self.configs[name]
            if not (Path(config.data_dir) / "identity").exists():
                ReplicatedLog.format(config)
            self.logs[name] = ReplicatedLog(config)
            await self.logs[name].start()

    async def stop(self, name: str) -> None:
        await self.logs.pop(name).close()

    async def leader(self) -> ReplicatedLog:
        """The one that leads and takes entries, as all running nodes see it."""
        while True:  # bounded by the test's own timeout
            names = {log.leader for log in self.logs.values()}
            if len(names) == 1 and (name := names.pop()) in self.logs:
                log = self.logs[name]
                with contextlib.suppress(DledgerError):
                    await log.append(b"are you there?")
                    return log
            await asyncio.sleep(0.01)

    def followers(self) -> list[ReplicatedLog]:
        return [log for log in self.logs.values() if not log.is_leader]

    async def close(self) -> None:
        for name in list(self.logs):
            await self.stop(name)
