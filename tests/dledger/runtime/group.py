"""Three replicas in one process, each on its own loopback address and folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dledger import DledgerError, RaftConfig, ReplicatedLog
from tests.virtual_loop import LoopClock
from tests.waiting import eventually, limit

PORT = 20911


async def until(condition: Callable[[], object], what: str = "what the test waits for") -> None:
    """Until it is true."""
    await eventually(condition, what, 60)


class Group:
    """Nodes n0, n1, … by name; each can be stopped and started again on its folder.

    Their clock goes with the event loop, so that a busy machine elects nobody.
    """

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
                disk_stall_ms=int(limit(20_000)),  # a busy disk is not a sick one
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
            self.logs[name] = ReplicatedLog(config, clock=LoopClock())
            await self.logs[name].start()

    async def stop(self, name: str) -> None:
        await self.logs.pop(name).close()

    async def leader(self) -> ReplicatedLog:
        """The one that leads and takes entries, as all running nodes see it."""

        async def agreed() -> ReplicatedLog | None:
            names = {log.leader for log in self.logs.values()}
            if len(names) == 1 and (name := names.pop()) in self.logs:
                log = self.logs[name]
                with contextlib.suppress(DledgerError):
                    await log.append(b"are you there?")
                    return log
            return None

        found = await eventually(agreed, "a leader that all running nodes know", 60)
        assert found is not None
        return found

    async def election_timeouts(self, count: int) -> None:
        """Until every node would have stood for election so often if nothing held it back."""
        clock = LoopClock()
        longest = max(config.election_timeout_max_ms for config in self.configs.values()) / 1000
        end = clock.now() + count * longest
        await until(lambda: clock.now() > end, f"{count} election timeouts")

    def followers(self) -> list[ReplicatedLog]:
        return [log for log in self.logs.values() if not log.is_leader]

    async def close(self) -> None:
        for name in list(self.logs):
            await self.stop(name)
